"""`andon run` and `andon lease` on a terminal: what a person's own shell does, they do too."""

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.conftest import andon
from tests.integration.leasing import entries, held
from tests.support.waiting import wait_for

PYTHON = sys.executable
ECHOING, EDITING = termios.ECHO, termios.ICANON

pytestmark = pytest.mark.usefixtures("node", "own_places")


class Screen:
    """A terminal with `andon` in its foreground."""

    def __init__(self, person: int, process: "subprocess.Popen[bytes]") -> None:
        self._person, self.process, self._seen = person, process, ""

    def until(self, words: str) -> str:
        """Read until the words are there."""
        while words not in self._seen:
            piece = os.read(self._person, 4096)
            assert piece, f"{words!r} never came: {self._seen!r}"
            self._seen += piece.decode()
        return self._seen

    def press(self, keys: bytes) -> None:
        os.write(self._person, keys)

    @property
    def modes(self) -> int:
        """The local modes that matter: whether it echoes, and edits lines."""
        local: int = termios.tcgetattr(self._person)[3]
        return local & (ECHOING | EDITING)


@contextmanager
def screen(*arguments: str, start: tuple[str, ...] = ("-m", "andon.cli")) -> Iterator[Screen]:
    person, terminal = os.openpty()
    _keep_output(terminal)
    process = subprocess.Popen(
        [PYTHON, *start, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    try:
        yield Screen(person, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        with suppress(OSError):
            os.close(terminal)
        os.close(person)


def _keep_output(terminal: int) -> None:
    """A terminal discards at Ctrl-C what nobody has read yet; the kernel does so after the signal,
    so that on a busy machine the answer to it would be lost as well."""
    modes = termios.tcgetattr(terminal)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, modes)


SLOW = """
import subprocess, sys, time

class Slow(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        if options.get("process_group") == 0:
            time.sleep(1.5)  # the command asks for the terminal before it is known who it is

subprocess.Popen = Slow
from andon.cli.entry import main
sys.exit(main())
"""
RAW = "import time, tty; tty.setraw(0); print('raw', flush=True); time.sleep(1000)"


def test_who_is_ended_at_a_prompt_leaves_the_terminal_as_it_was() -> None:
    with screen("lease", "--", PYTHON, "-c", RAW) as shown:
        shown.until("raw")
        assert shown.modes == 0
        [name] = held()
        assert andon("release", name).code == 0
        assert shown.process.wait(30) != 0
        assert shown.modes == ECHOING | EDITING
    assert entries() == []


def test_a_command_that_asks_for_the_terminal_early_gets_it() -> None:
    with screen("lease", "--", PYTHON, "-c", RAW, start=("-c", SLOW)) as shown:
        shown.until("raw")
        shown.press(b"x")
        shown.process.terminate()
        shown.process.wait(30)


def test_who_ends_by_itself_may_leave_the_terminal_as_it_likes() -> None:
    with screen("run", "--", "stty", "-echo") as shown:
        assert shown.process.wait(30) == 0
        assert shown.modes == EDITING


def test_ctrl_c_reaches_the_command_and_a_second_one_kills_it() -> None:
    stubborn = "import os, signal, time; signal.signal(2, lambda *a: os.write(1, b'no\\n')); "
    stubborn += "print('started', flush=True); time.sleep(1000); time.sleep(1000)"
    with screen("run", "--", PYTHON, "-c", stubborn) as shown:
        shown.until("started")
        shown.press(b"\x03")
        shown.until("no")
        shown.until("Ctrl-C again to kill it")
        shown.press(b"\x03")
        assert shown.process.wait(30) == 137
    assert entries() == []


def test_ctrl_c_leaves_the_line_at_once() -> None:
    with screen("run", "--gpus", "8", "--", PYTHON, "-c", RAW) as first:
        first.until("raw")
        with screen("run", "--gpus", "2", "--", "true") as shown:
            words = shown.until("held by lease")
            assert "1st in queue · 0 of 8 free" in words
            assert "GPU 0: held by lease" in words
            shown.press(b"\x03")
            assert shown.process.wait(30) == 130
        tickets = Path(os.environ["ANDON_LEASE_DIR"]) / "tickets"
        wait_for(lambda: list(tickets.iterdir()) == [])
    for name in held():
        andon("release", name)


def test_a_hangup_reaches_the_whole_group() -> None:
    with screen("run", "--", "sh", "-c", "sleep 1000 & echo started; wait") as shown:
        shown.until("started")
        assert len(held()) == 1
        shown.process.send_signal(1)
        assert shown.process.wait(30) == 129
    assert entries() == []
