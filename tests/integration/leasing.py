"""What the tests of leases share: a book of their own, and commands that run under it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from andon.leases.book.lease_book import Book
from tests.integration.conftest import Outcome, andon
from tests.support.waiting import wait_for

ENVIRONMENT = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
FOREVER = "import time; print('started', flush=True); time.sleep(1000)"


def entries() -> list[Any]:
    return Book(make=False).entries()


def held() -> list[str]:
    """The ids of the leases that are locked."""
    return [e.lease.id for e in entries() if e.locked and e.lease is not None]


def leases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = andon("leases", "--json").json()["leases"]
    return found


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """`andon …` in the background; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "andon.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for entry in entries():
            mine = entry.lease is not None and entry.lease.owner.pid == process.pid
            if mine and entry.lease.work is not None:
                with suppress(ProcessLookupError):
                    os.killpg(entry.lease.work.group, signal.SIGKILL)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def line(process: "subprocess.Popen[str]") -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def work_pid() -> int:
    """The process that the one lease of the book is for."""
    found: list[int] = []

    def known() -> bool:
        found[:] = [e.lease.work.pid for e in entries() if e.lease and e.lease.work]
        return bool(found)

    wait_for(known)
    return found[0]


def end_of(process: "subprocess.Popen[str]", seconds: float = 60.0) -> Outcome:
    out, err = process.communicate(timeout=seconds)
    return Outcome(process.returncode, out, err)


def records(folder: Path) -> list[list[dict[str, Any]]]:
    """Every record of a run, line by line, the earliest first: two may begin in one second, which
    their names do not tell apart."""
    files = (folder / "andon" / "runs").glob("*.jsonl")
    found = [[json.loads(text) for text in f.read_text().splitlines()] for f in files]
    return sorted(found, key=lambda lines: lines[0]["at"] if lines else 0.0)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)
