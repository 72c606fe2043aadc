"""A command that a test forks does what a started one does, and looks like it from outside."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.integration.conftest import is_alive
from tests.integration.parts import wait_until
from tests.support.warm import COLD_STARTS, Popen, may_be_warm, warmth

COMMAND = (sys.executable, "-m", "andon.cli")
IN_BOTH_WAYS: tuple[tuple[str, ...], ...] = (
    ("--version",),
    ("--help",),
    ("no-such-command",),
    ("status", "--replay", "/nonexistent"),
    ("why", "--help"),
    ("run", "--simulate", "2", "--no-wait", "-q", "--", "sh", "-c", "cat; umask; pwd; exit 7"),
)

pytestmark = pytest.mark.skipif(not may_be_warm(), reason="all commands start cold here")


def started(warm: bool, *arguments: str, **options: Any) -> Popen:
    """A command that is sure to be forked, or sure not to be."""
    warmth.is_on = warm
    before = warmth.forked
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    process = Popen([*COMMAND, *arguments], text=True, **{**pipes, **options})
    assert warmth.forked == before + warm
    return process


@pytest.fixture(autouse=True)
def environment(book_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for often enough that the next command of this environment is a forked one."""
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    was_on, warmth.is_on = warmth.is_on, False
    for _ in range(0 if warmth.is_met(os.environ) else COLD_STARTS):
        subprocess.run([*COMMAND, "--version"], check=True, capture_output=True)
    warmth.is_on = was_on


def test_both_say_the_same_and_end_the_same(tmp_path: Path) -> None:
    for arguments in IN_BOTH_WAYS:
        came = []
        for warm in (False, True):
            process = started(warm, *arguments, cwd=tmp_path, umask=0o027)
            out, err = process.communicate("from a pipe\n", timeout=120)
            came.append((process.returncode, out, err))
        assert came[0] == came[1], arguments


def test_a_forked_one_is_a_child_of_the_test_with_its_own_words_and_variables(
    tmp_path: Path,
) -> None:
    marked = {**os.environ, "ANDON_SIMULATE_SEED": "8765"}
    process = started(
        True,
        "watch",
        "--lines",
        "--simulate",
        "1",
        env=marked,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        own = Path(f"/proc/{process.pid}")
        assert f"\nPPid:\t{os.getpid()}\n" in (own / "status").read_text()
        assert (own / "cwd").readlink() == tmp_path
        assert os.getsid(process.pid) == process.pid
        assert (own / "cmdline").read_text().split("\0")[:4] == [*COMMAND, "watch"]
        assert "ANDON_SIMULATE_SEED=8765" in (own / "environ").read_text().split("\0")
        for kept in warmth.kept():
            assert not _sockets(process.pid) & _sockets(kept.process.pid), "the test's connection"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 0, "watch ends so on Ctrl-C"


def test_its_reader_is_forked_too_and_has_its_own_words_and_descriptors() -> None:
    process = started(True, "run", "--simulate", "1", "--", "sh", "-c", "echo on; cat")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        wait_until(lambda: len(_readers(process.pid)) == 1, "its reader")
        ((reader, arguments),) = _readers(process.pid).items()
        assert arguments[:5] == [sys.executable, "-P", "-S", "-m", "andon.process"]
        assert arguments[5:7] == ["reader", "-"]
        assert os.getsid(reader) == reader
        numbers = {int(file.name) for file in Path(f"/proc/{reader}/fd").iterdir()}
        assert {0, 1, 2, int(arguments[7])} <= numbers, "its pipes and the one of nudges"
        assert not _sockets(reader)
        maps = Path(f"/proc/{reader}/maps").read_text()
        assert "_sqlite3" in maps, "it was started, since a reader does not import this"
    finally:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, ""), err


def test_one_that_is_killed_says_so_and_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    def keepers() -> set[int]:
        return {one.process.pid for one in warmth.kept()}

    before = _children(os.getpid())
    process = started(True, "watch", "--lines", "--simulate", "1")
    process.kill()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([*COMMAND, "watch", "--simulate", "1"], capture_output=True, timeout=0.2)
    wait_until(
        lambda: set(filter(is_alive, _children(os.getpid()))) - before <= keepers(), "their end"
    )


def _readers(parent: int) -> dict[int, list[str]]:
    """With their arguments."""
    found: dict[int, list[str]] = {}
    for pid in _children(parent):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
            if "reader" in words:
                found[pid] = words
    return found


def _sockets(pid: int) -> set[str]:
    named = (os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir())  # noqa: PTH115
    return {name for name in named if name.startswith("socket:")}


def _children(parent: int) -> set[int]:
    """Of all its threads, of which some may end meanwhile."""
    found: set[int] = set()
    for task in Path(f"/proc/{parent}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-c", "pass"],
        [sys.executable, "-I", "-m", "andon.cli", "--version"],
        [sys.executable, "-m", "andon.version"],
        ["true"],
    ],
)
def test_whatever_is_no_plain_command_of_andon_is_started(command: list[str]) -> None:
    before = warmth.forked
    subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    assert warmth.forked == before


@pytest.mark.cold
def test_a_test_may_ask_for_a_cold_start() -> None:
    before = warmth.forked
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, cwd=REPOSITORY)
    assert (done.returncode, warmth.forked) == (0, before)
