"""`python -m andon.leases.holder FD`: holds a lease for a program, and calls no driver.

It is started before the lease is granted and gets the lock's descriptors through a socket. It
gives the lease back when the program and everything it forked are gone, at the lease's end, or on
SIGTERM, which is how `andon release` asks.
"""

import json
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from andon.host.interpreter import module_command, module_environment
from andon.leases.hold import Hold

CHECK_SECONDS = 5.0  # how late a moved end or a vanished file is noticed
_MESSAGE_BYTES = 4096
_TAKEN = b"."


class Keeper:
    """The program's side: a holder process of its own."""

    def __init__(self, detached: bool = False) -> None:
        ours, theirs = socket.socketpair()
        arguments = module_command("andon.leases.holder", str(theirs.fileno()))
        self._socket, self._detached, self._given = ours, detached, False
        self._process = subprocess.Popen(
            arguments,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is not for it
            cwd="/",
            env=module_environment(),
        )
        theirs.close()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        return self._process

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, hold: Hold, ends: bool) -> None:
        """Hand it the lock; both processes hold it from now on."""
        told = {"name": hold.name, "ends": ends, "detached": self._detached}
        socket.send_fds(self._socket, [json.dumps(told).encode()], list(hold.descriptors))
        self._given = True

    def has_taken(self, seconds: float) -> bool:
        """Whether a detached holder has the lock by now: then nobody else needs to."""
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1) == _TAKEN
        except OSError:
            return False

    def recall(self) -> None:
        """Have it give back at once what it holds."""
        self._process.terminate()

    def dismiss(self, seconds: float = 1.0) -> None:
        """Let it go; what it holds it gives back, unless it holds it for good."""
        self._socket.close()
        if not (self._detached and self._given):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)


def main(arguments: Sequence[str]) -> int:
    """Receive, hold, give back."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    asked = _asked()
    channel = socket.socket(fileno=int(arguments[0]))
    message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 2)
    if len(descriptors) != 2:
        return 0  # nothing was granted
    told = json.loads(message)
    hold = Hold(told["name"], *descriptors)
    if told["detached"]:
        with suppress(OSError):  # who gave it may be gone already
            channel.send(_TAKEN)
    _keep(hold, channel, asked, bool(told["ends"]), bool(told["detached"]))
    hold.release()
    return 0


def _asked() -> socket.socket:
    """Readable once SIGTERM came, whenever that is."""
    ours, kernels = socket.socketpair()
    kernels.setblocking(False)
    signal.set_wakeup_fd(kernels.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    return ours


def _keep(
    hold: Hold, channel: socket.socket, asked: socket.socket, ends: bool, detached: bool
) -> None:
    """Until it is over: nothing but its end is ever sent to us."""
    waited = [asked] if detached else [asked, channel]
    while hold.stands:
        left = hold.stamped - time.time() if ends else CHECK_SECONDS
        if left <= 0 or select.select(waited, [], [], min(left, CHECK_SECONDS))[0]:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
