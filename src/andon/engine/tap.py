"""Listens in on a command's error output without taking it away from anybody."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ANSWER_SECONDS = 1.0


class Tap:
    """A tee between the command and our standard error; a terminal stays a terminal."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        source, self.entrance = _terminal() if os.isatty(2) else os.pipe()
        tee = Path(__file__).with_name("tee.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(tee), str(theirs.fileno())],
            stdin=source,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a Ctrl-C is not for it
        )
        os.close(source)
        theirs.close()

    def started(self) -> None:
        """The command has its end: ours is closed, so that the tee sees when it closes its own."""
        os.close(self.entrance)

    def tail(self) -> str:
        """The end of what was written, once the command has ended; what it left behind may go on
        writing."""
        content = b""
        self._ours.settimeout(ANSWER_SECONDS)
        with suppress(OSError):  # it may have ended, and left its answer
            self._ours.send(b"?")
        with suppress(OSError):
            while piece := self._ours.recv(65536):
                content += piece
        self._ours.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.1)
        return content.decode(errors="replace")


def _terminal() -> tuple[int, int]:
    """A terminal that passes everything on as it is, of the size of ours."""
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
