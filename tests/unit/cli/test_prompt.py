"""`andon prompt`: the line for each situation, and what it does without a server."""

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.cli.prompt.line import PromptFacts, SharedDevices, prompt_facts
from andon.errors import Unavailable
from andon.host.state.user_folder import node_path
from andon.model.codec import read
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.homes import made_node_state
from tests.support.replaced import fails
from tests.support.rows import rows

NOW = 1_000_000.0


def listed(kinds: str, own: str = "", busy: float | None = 87.4) -> SharedDevices:
    """Devices with a letter each (f: free, h: held), of which `own` are in a lease of uid 7."""
    names = {"f": "free", "h": "held", "u": "in_use"}
    devices = [{"uuid": f"GPU-{n}", "label": str(n), "kind": names[kind], "by": "x"}
               for n, kind in enumerate(kinds)]  # fmt: skip
    shares = [{"uuid": f"GPU-{n}", "index": int(n)} for n in own]
    leases = [{"uid": 7, "devices": shares, "utilization_percent": busy},
              {"uid": 8, "devices": [{"uuid": "GPU-0"}], "utilization_percent": 1.0}]  # fmt: skip
    return read(SharedDevices, {"at": NOW, "devices": devices, "leases": leases if own else []})


@rows("kinds, own, busy, job, line", [
    ("hf", "", None, None, "GPU 1 free"),
    ("hhu", "", None, None, "no GPU free"),
    ("hfh", "2", 87.4, (12, NOW + 300), "GPU 1 free · yours: 2 (87 %) · job 12 in 5 min"),
    ("hhfff", "01", 0.0, None, "GPU 2–4 free · yours: 0, 1 (0 %)"),
    ("ffffff", "", None, (3, NOW - 9), "6 GPUs free · job 3 next"),
    ("hf", "0", None, None, "GPU 1 free · yours: 0"),
    ("", "", None, None, ""),
])  # fmt: skip
def test_the_line_of_each_situation(
    kinds: str, own: str, busy: float | None, job: tuple[int, float] | None, line: str
) -> None:
    facts = prompt_facts(listed(kinds, own, busy), 7, *(job or (None, None)))
    assert facts.line(NOW, stored=False) == line
    assert facts.bar(NOW, stored=False)["text"] == line


def test_what_was_kept_has_its_age_and_is_not_shown_after_a_day() -> None:
    facts = prompt_facts(listed("hf"), 7)
    assert facts.line(NOW + 180, stored=True) == "GPU 1 free (3 min ago)"
    assert facts.bar(NOW + 180, stored=True)["class"] == "old"
    assert facts.line(NOW + 90_000, stored=True) == ""
    assert facts.bar(NOW + 90_000, stored=True)["class"] == "none"


def test_simulated_devices_are_marked() -> None:
    found = {"at": NOW, "devices": [{"uuid": "SIM-1", "label": "0", "kind": "free"}]}
    assert prompt_facts(read(SharedDevices, found), 7).line(NOW, False) == "SIMULATED GPU 0 free"


def test_without_a_server_it_prints_nothing_and_starts_no_reader(
    state_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, "andon.app.node", "find_node", AssertionError("it asked a node"))
    assert run(["prompt"]) == 0
    assert run(["prompt", "--json"]) == 0
    assert capsys.readouterr().out == '{"text":""}\n'


def test_what_refresh_keeps_is_private_and_shown_again(
    state_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prompt", "--refresh"], FakeNode(replace(golden.simulated(), at=time.time()))) == 0
    line = capsys.readouterr().out.strip()
    assert "free" in line
    path = node_path() / "prompt.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(["prompt"]) == 0
    assert capsys.readouterr().out.startswith(f"{line} (")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"at": "x"}', b"\xff" * 99, b"0" * 99_999])
def test_whatever_lies_there_is_no_error(
    content: bytes, state_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made_node_state(state_folder) / "prompt.json"
    path.write_bytes(content)
    assert run(["prompt"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_node_that_is_away_is_no_error(
    state_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["prompt", "--refresh"], FakeNode(error=Unavailable("away"))) == 0
    assert capsys.readouterr() == ("", "")


def test_a_link_is_not_followed(
    state_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    facts = {"at": time.time() - 1, "gpus": 1, "free": ["0"], "yours": []}
    (tmp_path / "other").write_text(json.dumps(facts))
    (made_node_state(state_folder) / "prompt.json").symlink_to(tmp_path / "other")
    assert run(["prompt"]) == 0
    assert capsys.readouterr().out == ""
    assert PromptFacts(NOW, 0, (), ()).line(NOW, False) == ""
