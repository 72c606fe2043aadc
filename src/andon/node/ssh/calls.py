"""A connection to a host: sends the script and the request, and reads the answer as it comes."""

import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

from andon.errors import Unavailable
from andon.host.processes.child_output import (
    OutputTooLong,
    Printed,
    dying_with_parent,
    kill_session,
)
from andon.model import wire
from andon.node.ssh import failures
from andon.node.ssh.script import connect_seconds, script, ssh_command
from andon.units import whole_number

AT_ONCE, MOST_OPEN = 32, 256  # each has three descriptors, of which a process may have 1024
SILENT_SECONDS = 0.2
"""A host that has said nothing for so long waits for the network, which costs nothing here: it no
longer counts as one of those at once."""
PATIENT_SECONDS = 1.0
EXIT_SECONDS = 1.0


class SshLimits:
    """The time limit, and the limit on open calls, that the calls to one host or many share;
    thread-safe."""

    def __init__(self, seconds: float, ends: bool = True) -> None:
        """With `ends`, calls that follow a host are ended after that time too."""
        self.seconds = seconds
        self._until = time.monotonic() + seconds if ends else math.inf
        self._open, self._lock = set[SshCall](), threading.Lock()
        self._closed = False

    @property
    def left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def has_room(self, running: int) -> bool:
        """Whether another call may be started beside the `running` ones."""
        since = time.monotonic() - SILENT_SECONDS
        with self._lock:
            silent = sum(call.heard < since for call in self._open)
        return running < MOST_OPEN and running - silent < AT_ONCE

    def dying_with_us(self) -> tuple[tuple[str, ...], Callable[[], None] | None]:
        """Returns the arguments and function that make a child process end with this one."""
        with self._lock:
            return dying_with_parent()

    def begins(self, call: "SshCall") -> None:
        """Adds a call; it is ended at once if all calls have been ended."""
        with self._lock:
            self._open.add(call)
            if self._closed:
                call.kill()

    def ended(self, call: "SshCall") -> None:
        with self._lock:
            self._open.discard(call)

    def end(self) -> None:
        """Ends all calls, also those that begin later; from any thread."""
        with self._lock:
            self._closed = True
            for call in self._open:
                call.kill()


class SshCall:
    """One ssh process and the answer of the script on the host; a context manager."""

    def __init__(self, host: str, andon: str, request: wire.Json, limits: SshLimits) -> None:
        """`andon` is its path on the host, if it is not in a usual place."""
        self._host, self._limits = host, limits
        place = "".join(c for c in andon if c.isprintable())
        self._given = f"{place}\n{wire.struct_text(request)}\n".encode()
        nonce = os.urandom(16).hex()
        self._mark = f"\n{nonce} ".encode()
        self._marked, self._seen = False, 0
        self.kind = ""  # who answers: andon, nvidia-smi, or which GPUs are there without them
        self.body = b""  # the whole answer, once it has come
        self.code: int | None = None  # with which it ended
        self.late = False
        self.heard = time.monotonic()
        wrapper, first = limits.dying_with_us()  # a host that hangs does not notice our end
        try:
            self._process = subprocess.Popen(
                (*wrapper, *ssh_command(host, limits.seconds)),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                start_new_session=True,  # so that all that it starts ends with it
                preexec_fn=first,
            )  # fmt: skip
        except OSError as exc:
            reason = f"ssh cannot be started: {exc.strerror}"
            raise failures.NotConnected(reason, cause="ssh") from exc
        self._printed = Printed(self._process)
        limits.begins(self)
        self._write(script(nonce))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends ssh and its children; the end of its input ends the script on the host."""
        self._limits.ended(self)
        process, printed = self._process, self._printed
        if printed.open:
            self.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        with suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_SECONDS)
        self.kill()
        process.wait()

    def is_over(self) -> bool:
        """Waits for a moment; returns whether the answer is complete, none will come, or time is
        up."""
        if self._printed.read(min(PATIENT_SECONDS, self._limits.left)):
            self._take()
        over = self.code is not None or not self._printed.open or self._printed.too_long
        self.late = not over and not self._limits.left
        return over or self.late

    def _take(self) -> None:
        """Looks for the script's marks in the bytes that have arrived."""
        self.heard, out = time.monotonic(), self._printed.out
        while self.code is None and (place := out.find(self._mark, self._seen)) >= 0:
            self._seen = place
            if (end := out.find(b"\n", place + 1)) < 0:
                return
            fields = out[place + len(self._mark) : end].decode(errors="replace").split()
            before = bytes(out[:place])
            del out[:end]  # its newline is that before the next mark
            self._seen = 0
            if not self._marked:
                self._marked = True  # all before it is chatter of a login
                self._write(self._given)
            elif not self.kind:
                self.kind = fields[0] if fields else "nothing"
            else:
                self.body, last = before, fields[-1] if fields else ""
                code = whole_number(last, 3)
                self.code = 1 if code is None else code
        self._seen = max(0, len(out) - len(self._mark))

    def lines(self) -> Iterator[bytes]:
        """Yields the complete lines of a continuing answer that have arrived so far."""
        out = self._printed.out
        text = self.body if self.code is not None else bytes(out[: max(0, out.rfind(b"\n"))])
        if self.kind == failures.ANDON:
            del out[: len(text)]
            self._seen, self.body = 0, b""
            yield from (line for line in text.splitlines() if line.strip())

    def answer(self) -> bytes:
        """Returns what andon or nvidia-smi printed on the host; raises the reason if there is
        nothing. Call it after leaving the context."""
        printed = self._printed
        errors, out = bytes(printed.error), bytes(printed.out)
        if self.code is None and printed.too_long:
            raise Unavailable(str(OutputTooLong().strerror), cause="ssh")
        if self.code is None and self.late:
            where = "it is connected, but " if self._marked else ""
            reason = f"{where}no answer after {self._limits.seconds:g} s"
            kind = Unavailable if self._marked else failures.NotConnected
            raise kind(reason, cause="ssh", hint="more time: --timeout 30")
        if not self._marked:
            code, limit = self._process.returncode, connect_seconds(self._limits.seconds)
            raise failures.not_connected(self._host, code, out, errors, limit)
        if self.kind not in (failures.ANDON, failures.SMI) and self.kind:
            raise failures.without_andon(self.kind)
        if self.code is None:
            raise failures.lost_midway(errors)
        if not self.body.strip():
            raise failures.far_failure(self.code, errors.decode(errors="replace"))
        return self.body

    def kill(self) -> None:
        """Ends ssh, from another thread too."""
        if self._process.returncode is None:
            kill_session(self._process)

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended, which is noticed when it is read
            self._process.stdin.write(text)
