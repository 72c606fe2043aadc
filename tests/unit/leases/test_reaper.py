"""Children that outlive their starter are waited for, and left alone when it ends."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from andon.leases.reaper import Reaper

WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


def started() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(WAITS, stdin=subprocess.PIPE)


def end(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    child.stdin.close()


@pytest.mark.process
def test_each_child_is_reaped_when_it_ends_and_the_others_are_waited_for() -> None:
    ended = threading.Semaphore(0)

    def told() -> None:
        ended.release()
        raise RuntimeError("a listener's mistake ends nothing")

    reaper = Reaper(told)
    first, second = started(), started()
    reaper.watch(first)
    reaper.watch(second)
    for child, other in ((second, first), (first, None)):
        end(child)
        assert ended.acquire(timeout=120)
        assert child.returncode == 0
        assert not Path(f"/proc/{child.pid}").exists()
        assert other is None or other.returncode is None
    reaper.close()


@pytest.mark.process
def test_what_still_runs_when_it_closes_goes_on() -> None:
    reaper = Reaper(lambda: None)
    child = started()
    reaper.watch(child)
    reaper.close()
    assert Path(f"/proc/{child.pid}").exists()
    end(child)


def test_closing_without_a_child_is_nothing() -> None:
    Reaper(lambda: None).close()
