"""The process `holder FD`: holds a lease for a program, and calls no driver.

It is started before the lease is granted and gets the lock's descriptors through a socket. It
releases the lease when the program and everything it forked have exited, at the lease's end, or on
SIGTERM, which `andon release` sends; it then passes on to the program who did that, and why. A
detached one outlives the program, and may have a process to wait for. If the lease's file is
removed, it writes it into the book again.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from andon.errors import AndonError, Unavailable
from andon.host.interpreter import module_environment, process_command
from andon.leases.book import places
from andon.leases.book.hold import Countdown, Hold, LeaseHold
from andon.leases.book.release_notes import read_note
from andon.leases.rules.validity import LeaseEnd
from andon.model.codec import document
from andon.model.lease_wire import ReleaseNote, release_from_json

HANDOVER_SECONDS = 10.0
CHECK_SECONDS = 5.0  # how late a changed end or a removed file is noticed
_MESSAGE_BYTES = 16_384  # a path of maximum length, and some numbers
_TAKEN = b"."
TAKE = "andon lease --gpus 1 --for 2h"  # a hint for users for whom the server cannot take a lease
_AT_ONCE = getattr(socket, "MSG_DONTWAIT", 0)


class Account(NamedTuple):
    """A user of this machine for whom a lease is held."""

    uid: int
    gid: int
    name: str


class HolderProcess:
    """The program's side: its holder process."""

    def __init__(self, detached: bool = False, account: Account | None = None) -> None:
        """Starts the process. For another user it runs as that user, who can then end it; only root
        can do that."""
        self._detached, self._given = detached, False
        try:
            self._socket, self._process = self._started(account)
        except (OSError, subprocess.SubprocessError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            raise Unavailable(
                f"a holder for the lease cannot be started: {reason}",
                hint="check whether memory, processes or open files have run out"
                if account is None
                else f"{account.name} may not run this andon; in a terminal: {TAKE}",
            ) from exc

    @staticmethod
    def _started(account: Account | None) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        arguments = process_command("holder", str(theirs.fileno()))
        try:
            return ours, subprocess.Popen(
                arguments,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not reach it
                cwd="/",
                env=module_environment() if account is None else _plain_environment(),
                user=None if account is None else account.uid,
                group=None if account is None else account.gid,
                extra_groups=None if account is None else (),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether the process still holds what it was given."""
        return self._given and self._process.poll() is None

    def give(self, held: LeaseHold, *more: int) -> None:
        """Passes the lock to the process; both hold the lease from now on. `more` is the pidfd of a
        process with which the lease ends."""
        hold, end = held.hold, held.countdown and held.countdown.end
        order = {
            "name": hold.name,
            "place": hold.place,
            "end": end and [end.shown, end.deadline, end.length_seconds],
            "detached": self._detached,
        }
        socket.send_fds(self._socket, [json.dumps(order).encode()], [*hold.descriptors, *more])
        self._given = True

    def take_over(
        self, held: LeaseHold, *more: int, waiting: Callable[[], None] = lambda: None
    ) -> None:
        """Leaves the lock to a detached process alone. If that has died, or `waiting` raises an
        error, the lease ends."""
        try:
            self.give(held, *more)
            if not self.has_taken(HANDOVER_SECONDS):
                raise Unavailable("the lease's holder could not be started", hint="try again")
            waiting()
        except BaseException:
            held.release()
            self.recall()
            raise
        held.hold.close()

    def has_taken(self, seconds: float) -> bool:
        """Whether a detached holder has the lock by now: then no other process needs it."""
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1) == _TAKEN
        except OSError:
            return False

    def note(self) -> ReleaseNote | None:
        """Returns who asked the process to release the lease; None if nobody did. Never waits."""
        try:
            return release_from_json(json.loads(self._socket.recv(_MESSAGE_BYTES, _AT_ONCE)))
        except (OSError, ValueError, AndonError, RecursionError):
            return None

    def recall(self) -> None:
        """Makes the process release what it holds at once."""
        self._process.terminate()

    def disconnect(self) -> None:
        """Closes the socket: the process then releases the lease, unless it is detached."""
        self._socket.close()

    def dismiss(self, seconds: float = 1.0) -> None:
        """Disconnects from the process, and waits a little for its end."""
        self.disconnect()
        if not (self._detached and self._given):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)


def _plain_environment() -> dict[str, str]:
    """Returns what the process needs of the server's environment, and nothing else: its user can
    read it."""
    known = os.environ
    return module_environment(
        {name: known[name] for name in ("PATH", places.VARIABLE) if name in known}
    )


def main(arguments: Sequence[str]) -> int:
    """Receives the lock, holds it, and releases it."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    terminated = _termination()
    channel = socket.socket(fileno=int(arguments[0]))
    message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 3)
    if len(descriptors) < 2:
        return 0  # nothing was granted
    order = json.loads(message)
    hold = Hold(order["name"], descriptors[0], descriptors[1], place=order["place"])
    countdown = Countdown(hold, LeaseEnd(*order["end"])) if order["end"] else None
    if order["detached"]:
        with suppress(OSError):  # the sender may have exited
            channel.send(_TAKEN)
    program = [] if order["detached"] else [channel.fileno()]
    ended_by = _keep(hold, countdown, [terminated.fileno(), *program, *descriptors[2:]])
    if terminated.fileno() in ended_by and not order["detached"]:
        _pass_on_note(hold, channel)
    if order["detached"]:
        _note_end(hold)
    hold.release()
    return 0


def _termination() -> socket.socket:
    """Returns a socket that is readable once SIGTERM has arrived."""
    ours, kernels = socket.socketpair()
    kernels.setblocking(False)
    signal.set_wakeup_fd(kernels.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    return ours


def _pass_on_note(hold: Hold, channel: socket.socket) -> None:
    """Sends the release note to the program while the lease still exists: afterwards its writer
    removes the note."""
    note = read_note(hold)
    with suppress(OSError):
        if note is not None:
            channel.send(json.dumps(document(note)).encode())


def _note_end(hold: Hold) -> None:
    """Notes which reservations waited for this lease: its program does not."""
    book = Path(hold.place).parent.parent
    if any(map(places.has_reservations, places.reservations_folders(book))):
        from andon.leases.book.rejoin import note_end  # rarely needed, and slow to import

        with suppress(AndonError, OSError):
            note_end(hold)


def _keep(hold: Hold, countdown: Countdown | None, waited: Sequence[int]) -> Sequence[int]:
    """Holds the lease until it ends or a descriptor is readable; returns the readable ones."""
    while hold.is_in_book or _ended(waited) or _is_written_again(hold):
        left = CHECK_SECONDS if countdown is None else countdown.left_seconds()
        found = _ended(waited, max(0.0, min(left, CHECK_SECONDS)))
        if left <= 0 or found:
            return found
    return ()


def _ended(waited: Sequence[int], seconds: float = 0.0) -> Sequence[int]:
    watched = select.poll()  # `select` takes no descriptor over 1023, as the program may have
    for descriptor in waited:
        watched.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in watched.poll(seconds * 1000)]


def _is_written_again(hold: Hold) -> bool:
    """Writes the lease into the book again; returns whether that worked."""
    from andon.leases.book.rejoin import lease_of, rejoin  # rarely needed, and slow to import

    try:
        rejoin(hold, lease_of(hold))
    except (AndonError, OSError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
