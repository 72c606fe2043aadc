"""Processes are watched by descriptors of their own, which no later process can take over."""

import os
import subprocess
from pathlib import Path

import pytest

from andon.host.processes.facts import MOST_PROCESSES, RECHECK_SECONDS, Liveness, ProcessTable
from andon.model.device import Process
from tests.support.waiting import wait_for


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def sleeper() -> subprocess.Popen[bytes]:
    """A process that has its command line: after a start it is empty for a moment."""
    started = subprocess.Popen(["sleep", "600"])
    wait_for(Path(f"/proc/{started.pid}/cmdline").read_bytes, what="its command line")
    return started


@pytest.mark.process
def test_all_live_until_one_ends() -> None:
    first, second = sleeper(), sleeper()
    liveness = Liveness()
    assert liveness.watch([first.pid, second.pid])
    assert liveness.all_live()
    second.kill()
    second.wait()
    assert not liveness.all_live()
    first.kill()
    first.wait()


def test_a_process_that_is_not_here_is_not_waited_for() -> None:
    liveness = Liveness()
    assert liveness.watch([2**22 - 3])
    assert liveness.all_live()


def test_too_many_are_not_watched_and_nothing_stays_open() -> None:
    before = descriptors()
    liveness = Liveness()
    assert not liveness.watch(range(1, MOST_PROCESSES + 2))
    assert liveness.watch([os.getpid()])
    assert liveness.watch([os.getpid()])
    liveness.close()
    assert descriptors() == before


@pytest.mark.process
def test_an_unchanged_list_is_answered_with_the_same_names() -> None:
    child = sleeper()
    table = ProcessTable()
    asked = (Process(child.pid),)
    first = table.attribute(asked)
    assert table.attribute((Process(child.pid),)) is first
    child.kill()
    child.wait()
    assert table.attribute(asked) == asked, "it ended, and its name with it"


@pytest.mark.process
def test_names_are_looked_at_again_after_a_while() -> None:
    now = [0.0]
    child = sleeper()
    table = ProcessTable(clock=lambda: now[0])
    first = table.attribute([Process(child.pid)])
    now[0] = RECHECK_SECONDS
    second = table.attribute([Process(child.pid)])
    assert second is not first
    assert second == first
    child.kill()
    child.wait()


def test_another_systems_processes_are_not_watched(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    asked = (Process(os.getpid()),)
    assert table.attribute(asked) == asked
    assert table.attribute(asked) is not table.attribute(asked)
