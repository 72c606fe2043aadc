"""Connections to hosts: each is sent the script, then what is asked; the answer is read as it
comes."""

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Self

from andon.errors import Unavailable
from andon.host.processes.child_output import (
    MOST_BYTES,
    Listener,
    OutputTooLong,
    dying_with_parent,
)
from andon.model import wire
from andon.node.ssh import failures
from andon.node.ssh.script import connect_seconds, script, ssh_command
from andon.units import whole_number

AT_ONCE, MOST_OPEN = 32, 256  # each has three descriptors, of which a process may have 1024
SILENT_SECONDS = 0.2
"""A host that has said nothing for so long waits for the network, which costs nothing here: it no
longer counts as one of those at once."""
LOOK_SECONDS, PATIENT_SECONDS = 0.05, 1.0
EXIT_SECONDS = 1.0


class SshCall:
    """One ssh, and what the script there has answered so far."""

    def __init__(
        self, host: str, andon: str, request: wire.Json, seconds: float, listener: Listener
    ) -> None:
        """`andon`: where it is there, if not where it is looked for."""
        self._host, self._seconds, self._listener = host, seconds, listener
        place = "".join(c for c in andon if c.isprintable())
        self._given = f"{place}\n{wire.struct_text(request)}\n".encode()
        nonce = os.urandom(16).hex()
        self._mark = f"\n{nonce} ".encode()
        self._told, self._seen = False, 0
        self.kind = ""  # who answers: andon, nvidia-smi, or which GPUs are there without them
        self.body = b""  # the whole answer, once it has come
        self.code: int | None = None  # with which it ended
        self.late = False
        self.heard = time.monotonic()
        words, first = dying_with_parent()  # a host that hangs does not notice our end
        try:
            self._process = subprocess.Popen(
                (*words, *ssh_command(host, seconds)),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                start_new_session=True,  # so that all that it starts ends with it
                preexec_fn=first,
            )  # fmt: skip
        except OSError as exc:
            raise Unavailable(f"ssh cannot be started: {exc.strerror}", cause="ssh") from exc
        self.printed = listener.add(self._process)
        self._write(script(nonce))

    @property
    def too_long(self) -> bool:
        return len(self.printed.out) + len(self.printed.said) > MOST_BYTES

    @property
    def is_over(self) -> bool:
        return self.code is not None or not self.printed.open or self.too_long

    def take(self) -> None:
        """Looks for the script's marks in what has come."""
        self.heard, out = time.monotonic(), self.printed.out
        while self.code is None and (place := out.find(self._mark, self._seen)) >= 0:
            self._seen = place
            if (end := out.find(b"\n", place + 1)) < 0:
                return
            words = out[place + len(self._mark) : end].decode(errors="replace").split()
            before = bytes(out[:place])
            del out[:end]  # its newline is that before the next mark
            self._seen = 0
            if not self._told:
                self._told = True  # all before it is chatter of a login
                self._write(self._given)
            elif not self.kind:
                self.kind = words[0] if words else "nothing"
            else:
                self.body, last = before, words[-1] if words else ""
                code = whole_number(last, 3)
                self.code = 1 if code is None else code
        self._seen = max(0, len(out) - len(self._mark))

    def lines(self) -> Iterator[bytes]:
        """Yields the whole lines of an answer that goes on."""
        out = self.printed.out
        text = self.body if self.code is not None else bytes(out[: max(0, out.rfind(b"\n"))])
        if self.kind == failures.ANDON:
            del out[: len(text)]
            self._seen, self.body = 0, b""
            yield from (line for line in text.splitlines() if line.strip())

    def answer(self) -> bytes:
        """Returns what andon or nvidia-smi has printed there; raises why there is nothing."""
        said, out = bytes(self.printed.said), bytes(self.printed.out)
        if self.code is None and self.too_long:
            raise Unavailable(str(OutputTooLong().strerror), cause="ssh")
        if self.code is None and self.late:
            where = "it is connected, but " if self._told else ""
            reason = f"{where}no answer after {self._seconds:g} s"
            raise Unavailable(reason, cause="ssh", hint="more time: --timeout 30")
        if not self._told:
            code, limit = self._process.returncode, connect_seconds(self._seconds)
            raise failures.not_connected(self._host, code, out, said, limit)
        if self.kind not in (failures.ANDON, failures.SMI) and self.kind:
            raise failures.without_andon(self.kind)
        if self.code is None:
            raise failures.lost_midway(said)
        if not self.body.strip():
            raise failures.far_failure(self.code, said.decode(errors="replace"))
        return self.body

    def end(self) -> None:
        """Ends ssh and what it started; on the host the end of its input ends the rest."""
        self._listener.drop(self.printed)
        process = self._process
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        if not self.printed.open:
            with suppress(subprocess.TimeoutExpired):
                process.wait(EXIT_SECONDS)
        self.kill()
        process.wait()

    def kill(self) -> None:
        """Ends ssh, from another thread too."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, which is noticed when it is read
            self._process.stdin.write(text)


class SshCalls:
    """Calls to many hosts at once, until a time that is common to all; a context manager."""

    def __init__(self, seconds: float, ends: bool = True) -> None:
        """`ends`: also those that go on are ended after that time."""
        self._seconds, self._until = seconds, time.monotonic() + seconds if ends else math.inf
        self._listener, self._open = Listener(), dict[int, SshCall]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(list(self._open.values()))
        self._listener.__exit__()

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._until

    @property
    def has_room(self) -> bool:
        """Whether another may begin: few enough are starting or sending."""
        since = time.monotonic() - SILENT_SECONDS
        busy = sum(call.heard > since for call in self._open.values())
        return busy < AT_ONCE and len(self._open) < MOST_OPEN

    def begin(self, host: str, andon: str, request: wire.Json) -> SshCall:
        call = SshCall(host, andon, request, self._seconds, self._listener)
        self._open[id(call.printed)] = call
        return call

    def ended(self, wait: float = PATIENT_SECONDS) -> list[SshCall]:
        """Waits for a moment; returns the calls that have their whole answer, will get none, or
        have no more time."""
        left = max(0.0, self._until - time.monotonic())
        heard = [self._open[id(one)] for one in self._listener.read(min(wait, left))]
        for call in heard:
            call.take()
        found = [call for call in (self._open.values() if self.over else heard) if self._done(call)]
        self._end(found)
        return found

    def _end(self, calls: Sequence[SshCall]) -> None:
        for call in calls:
            if call.printed.open:
                call.kill()  # all of them, before any is waited for
        for call in calls:
            del self._open[id(call.printed)]
            call.end()

    def _done(self, call: SshCall) -> bool:
        call.late = self.over and not call.is_over
        return call.is_over or call.late
