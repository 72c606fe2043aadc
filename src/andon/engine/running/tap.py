"""Keeps the end of a command's stderr while passing it through."""

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from andon.engine.sampling.spawning import wait_for
from andon.host.interpreter import script_command

ANSWER_SECONDS = 60.0  # of one that was stopped; on a busy machine it takes its time


class Tap:
    """A tee between the command and our standard error; a terminal stays a terminal."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        source, self.entrance = _terminal() if os.isatty(2) else os.pipe()
        tee = Path(__file__).with_name("tee.py")
        self._process = subprocess.Popen(
            script_command(tee, str(asked), str(answer)),
            stdin=source,
            stdout=subprocess.DEVNULL,
            pass_fds=[asked, answer],
            start_new_session=True,  # so that Ctrl-C does not reach it
        )
        for theirs in (source, asked, answer):
            os.close(theirs)

    def started(self) -> None:
        """Close our copy of the command's end, so that the tee sees when the command closes it."""
        os.close(self.entrance)

    def tail(self) -> str:
        """The end of what was written, once the command has ended; its children may still
        write."""
        with suppress(OSError):  # it may have exited after answering
            os.write(self._ask, b"?")
        content = b"".join(self._pieces())
        os.close(self._ask)
        os.close(self._answer)
        wait_for(self._process, 0.1)
        return content.decode(errors="replace")

    def _pieces(self) -> Iterator[bytes]:
        """Until the answer ends, or times out."""
        there = select.poll()
        there.register(self._answer, select.POLLIN)
        while there.poll(ANSWER_SECONDS * 1000) and (piece := os.read(self._answer, 65536)):
            yield piece


def _terminal() -> tuple[int, int]:
    """A raw pseudo-terminal of the same size as ours."""
    import fcntl
    import pty
    import termios
    import tty

    source, entrance = pty.openpty()
    tty.setraw(entrance)
    with suppress(OSError):
        size = fcntl.ioctl(2, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(entrance, termios.TIOCSWINSZ, size)
    return source, entrance
