"""Recordings and servers that lie: a plain sentence, no traceback, no wait without end."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import documents
from tests.integration.conftest import andon

GOLDEN = Path(__file__).parents[2] / "golden" / "status.json"


def recording(folder: Path, **changes: Any) -> str:
    """One look, of which one device is not what it should be."""
    look = json.loads(GOLDEN.read_text(encoding="utf-8"))
    look["devices"][3] |= changes
    path = folder / "look.jsonl"
    path.write_text(json.dumps(look) + "\n")
    return str(path)


@pytest.mark.parametrize("command", ["status", "ps", "why", "watch", "alerts", "who", "leases"])
def test_a_recording_with_a_wrong_type_is_refused_with_its_place(
    command: str, own_places: Path
) -> None:
    said = andon(command, "--replay", recording(own_places, pci=5), timeout_seconds=120)
    assert said.code == 2
    assert "devices[3].pci is 5, not a string" in said.err
    assert "Traceback" not in said.err


def test_a_server_does_not_start_over_a_recording_that_cannot_be_played(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "andon.cli", "serve", "--port", "0"]
    done = subprocess.run(
        [*command, "--replay", recording(tmp_path, user=5, name=[])],
        capture_output=True, text=True, timeout=120,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "devices[3].name is a list, not a string" in done.stderr
    assert "Traceback" not in done.stderr


def test_impossible_readings_of_a_recording_are_unknown(tmp_path: Path) -> None:
    look = json.loads(GOLDEN.read_text(encoding="utf-8"))
    look["devices"][0]["sample"] |= {"utilization_percent": 1e18, "power_watts": -5.0}
    path = tmp_path / "look.jsonl"
    path.write_text(json.dumps(look) + "\n")
    shown = andon("status", "--json", "--replay", str(path)).json()["devices"][0]
    assert shown["sample"]["utilization_percent"] is None
    assert (
        shown["missing"]["utilization_percent"]
        == "the driver reported 1000000000000000000 %, which is impossible"
    )
    assert shown["sample"]["power_watts"] is None


@pytest.mark.timeout(300)
def test_mutated_documents_end_in_a_sentence() -> None:
    documents.play(seed=12, seconds=8.0)
