"""The measurement of a server runs from end to end; what it finds is not judged here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).parents[3]
SHORT = ("--minutes", "0.05", "--warm-up", "1", "--devices", "2", "--processes", "2")


def measured(record: Path, *options: str) -> Any:
    command = [sys.executable, "-m", "bench.server", *SHORT, *options, "--json", str(record)]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "targets" in done.stdout
    return json.loads(record.read_text())


def test_one_client(tmp_path: Path) -> None:
    found = measured(tmp_path / "record.json", "--client", "socketio")
    parts = found["percent_of_a_core"]
    assert found["ticks"] > 0
    assert found["driver"]["devices"] == 2
    assert 0 < parts["the driver's calls"] < parts["the reader"] < parts["all"]
    assert parts["all"] == pytest.approx(parts["the reader"] + parts["the server"])
    assert {"event loop", "sampler", "recorder"} <= set(parts)
    assert all(look["held"]["server_rss"] > 10**7 for look in found["looks"])


def test_many_clients_of_whom_one_stalls(tmp_path: Path) -> None:
    found = measured(tmp_path / "record.json", "--clients", "4", "--stalled", "1")
    together = found["together"]
    assert (together["clients"], together["stalled_connections"]) == (3, 1)
    assert together["delivered"] > 0
    assert (together["lost"], together["closed"]) == (0, 0)
    assert together["ticks_late_seconds"]
    assert found["alone"]["ticks_late_seconds"]
