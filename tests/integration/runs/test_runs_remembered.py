"""A run in a folder of its own is found by `andon runs`, and a hung index keeps no run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from andon.app import run_indexing
from andon.app.runs import open_run_finder
from andon.host.state.user_folder import runs_folder
from andon.runs import opening
from andon.runs.opening import remember
from andon.runs.rules.matching import RunQuery
from tests.support.noticed import noticed
from tests.support.replaced import fails
from tests.support.run_records import begin, end, write_record
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("state_folder")


def listed() -> list[str]:
    finder = open_run_finder()
    found = [row.id for row in finder.index.find(RunQuery())]
    finder.index.close()
    return found


def test_a_record_elsewhere_is_remembered_though_its_first_line_comes_late(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.jsonl"
    remember(path)
    write_record(path, begin(), end())
    wait_for(lambda: listed() == ["kqzvmtra"], 60.0)


def test_a_record_of_the_state_folder_needs_no_process() -> None:
    with noticed("subprocess.Popen") as started:
        remember(runs_folder() / "a.jsonl")
    assert started == []


def test_what_never_becomes_a_record_is_given_up(tmp_path: Path) -> None:
    assert run_indexing.add(tmp_path / "none.jsonl", patience_seconds=0) == 1
    (tmp_path / "foreign.jsonl").write_text("hello\n")
    assert run_indexing.add(tmp_path / "foreign.jsonl", patience_seconds=0) == 1


def test_nothing_to_start_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, opening, "process_command", FileNotFoundError("no Python was found"))
    remember(tmp_path / "a.jsonl")


def test_a_killed_run_is_lost_and_one_that_goes_on_is_running(tmp_path: Path) -> None:
    """By real processes and the command itself."""
    code = (
        "import os, time; from pathlib import Path\n"
        "from andon.host.processes.kin import pid_scope, started_ticks\n"
        "from andon.host.machine_id import node_name\n"
        "from tests.support.run_records import begin, sample, write_record\n"
        "pid = os.getpid()\n"
        f"write_record(Path({str(tmp_path / 'live.jsonl')!r}),\n"
        "  begin(pid=pid, boot=pid_scope().boot, started=started_ticks(pid), node=node_name(),\n"
        "  pid_namespace=pid_scope().pid_namespace), sample(1))\n"
        "print('written', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "written\n"
            assert state(tmp_path / "live.jsonl") == "running"
        finally:
            os.kill(process.pid, signal.SIGKILL)
    assert state(tmp_path / "live.jsonl") == "lost"


def state(path: Path) -> str:
    command = [sys.executable, "-m", "andon", "runs", "show", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: str = json.loads(done.stdout)["run"]["state"]
    return found
