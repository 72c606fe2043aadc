"""Processes that read the state of other users for root's server: one for each, as that user.

Root never opens a file in another user's folder: it may be a link, a pipe or endless, and its file
system may hang or know no root. A reader has given up root's rights, answers one question at a
time, and is ended where it is late. Its user may control what it says: answers are hostile input.
"""

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.host.accounts import UserAccount
from andon.host.interpreter import module_environment, process_command

HEADER_BYTES = 9  # eight digits and a newline: how many bytes follow
MOST_ANSWER_BYTES = 16 << 20
START_SECONDS, ANSWER_SECONDS = 15.0, 5.0
IDLE_SECONDS = 90.0  # after which a reader that nobody asks ends by itself
BACK_OFF_SECONDS = 30.0
MOST_READERS = 16
MOST_WAITING = 3  # questions about one user, the one that is being answered included
_LONGEST_REASON = 1000
_KINDS: dict[str, type[AndonError]] = {
    kind.__name__.lower(): kind for kind in (Unavailable, Denied, Gone, Conflict, Invalid)
}

Start = Callable[[UserAccount], "subprocess.Popen[bytes]"]


def start_reader(account: UserAccount) -> subprocess.Popen[bytes]:
    """Starts a reader, which is root until it has imported what it needs, and then becomes the
    user."""
    groups = ",".join(map(str, account.groups))
    plain = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.Popen(
        process_command(
            "user-reader", str(account.uid), str(account.gid), groups, account.name, account.home
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env=module_environment(plain | {"HOME": account.home}),
        bufsize=0,
    )


class UserReader:
    """The reader of one user; any thread may ask."""

    def __init__(
        self,
        account: UserAccount,
        start: Start = start_reader,
        clock: Callable[[], float] = time.monotonic,
        answer_seconds: float = ANSWER_SECONDS,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.account, self._start, self._clock = account, start, clock
        self._answer_seconds, self._start_seconds = answer_seconds, start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._places = threading.Lock(), threading.BoundedSemaphore(MOST_WAITING)
        self._failed: tuple[float, str] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask(self, what: str, **given: object) -> dict[str, Any]:
        """The reader's answer, an object and nothing more; raises the error that it answered, or
        Unavailable."""
        if not self._places.acquire(blocking=False):
            raise Unavailable(f"too many requests for the files of {self.account.name}", "retry")
        try:
            with self._lock:
                self._refuse_failed()
                answer = self._answered({"ask": what, **given})
        finally:
            self._places.release()
        found = answer.get("answer")
        if not isinstance(found, dict):
            raise _error_in(answer.get("error"))
        return found

    def close(self, wait: bool = True) -> None:
        """Ends the reader; without `wait`, not while it is answering."""
        if self._lock.acquire(blocking=wait):
            try:
                self._end()
            finally:
                self._lock.release()

    def _refuse_failed(self) -> None:
        if self._failed is not None and self._clock() - self._failed[0] < BACK_OFF_SECONDS:
            raise self._unreadable(self._failed[1])
        self._failed = None

    def _answered(self, question: dict[str, object]) -> dict[str, Any]:
        seconds = self._answer_seconds if self._process is not None else self._start_seconds
        try:
            return self._exchange(question, time.monotonic() + seconds)
        except TimeoutError:
            reason = f"no answer within {seconds:.0f} s; the file system may hang"
        except (OSError, ValueError, RecursionError, MemoryError) as exc:
            reason = str(getattr(exc, "strerror", None) or exc)[:200]
        self._end()
        self._failed = self._clock(), reason
        raise self._unreadable(reason)

    def _exchange(self, question: dict[str, object], until: float) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._start(self.account)
            # One in a hung file system cannot be killed: nobody waits for it but this.
            threading.Thread(target=self._process.wait, name="andon reader", daemon=True).start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        source = self._process.stdout.fileno()
        header = _read(source, HEADER_BYTES, until)
        if not header[:-1].isdigit() or header[-1:] != b"\n":
            raise ValueError("its reader answered nonsense")
        size = int(header)
        if size > MOST_ANSWER_BYTES:
            raise ValueError(f"an answer of {size:,} bytes")
        answer = _parsed(_read(source, size, until))
        if not isinstance(answer, dict):
            raise ValueError("its reader answered nonsense")
        return answer

    def _unreadable(self, reason: str) -> Unavailable:
        return Unavailable(
            f"the files of {self.account.name} cannot be read: {reason}",
            hint="in a terminal of that user: andon jobs, andon runs",
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _parsed(text: bytes) -> Any:
    """Parses JSON; paths may have any bytes, and numbers that JSON does not have are refused."""
    try:
        return decode(text)
    except DecodeError:
        shown = json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
        return decode(shown.encode(errors="replace"))


class UserReaders:
    """The readers by uid, of which only so many run at once."""

    def __init__(self, start: Start = start_reader, most: int = MOST_READERS) -> None:
        self._start, self._most = start, most
        self._readers: dict[int, UserReader] = {}
        self._lock = threading.Lock()

    def of(self, account: UserAccount) -> UserReader:
        """The reader of an account; another person under the same uid gets another reader."""
        with self._lock:
            found = self._readers.pop(account.uid, None)
            if found is not None and found.account != account:
                found.close()
                found = None
            self._readers[account.uid] = found or UserReader(account, self._start)
            self._end_oldest(account.uid)
            return self._readers[account.uid]

    def close(self) -> None:
        with self._lock:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()

    def _end_oldest(self, wanted: int) -> None:
        """Ends the readers that were used longest ago."""
        running = [r for r in self._readers.values() if r.is_running and r.account.uid != wanted]
        for reader in running[: max(0, len(running) - self._most + 1)]:
            reader.close(wait=False)


def _read(descriptor: int, size: int, until: float) -> bytes:
    out, ready = bytearray(), select.poll()
    ready.register(descriptor, select.POLLIN)
    while len(out) < size:
        left = max(0.0, until - time.monotonic())
        if not ready.poll(left * 1000):  # what is there already is read however late it is
            raise TimeoutError
        piece = os.read(descriptor, min(size - len(out), 1 << 20))
        if not piece:
            raise ValueError("its reader ended")
        out += piece
    return bytes(out)


def _error_in(answer: object) -> AndonError:
    """Returns the error in a reader's answer."""
    found = answer if isinstance(answer, dict) else {}
    kind = _KINDS.get(str(found.get("kind")), Unavailable)
    reason, hint = (str(found.get(name) or "")[:_LONGEST_REASON] for name in ("reason", "hint"))
    return kind(reason or "its files cannot be read", hint=hint)
