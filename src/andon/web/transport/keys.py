"""The server's secrets: the token in its file, one-time codes, and sessions of browsers."""

import hashlib
import hmac
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from andon.core.access import server_proof
from andon.core.access.policy import ShownKey
from andon.core.access.server_proof import Statement
from andon.errors import Denied
from andon.host.server.state_folder import TOKEN, read_token

CODE_SECONDS = 120.0
SESSION_SECONDS = 12 * 3600.0
KEPT = 256  # sessions, and codes; the oldest are forgotten first
_TOKEN_BYTES = 32


def make_token(folder: Path) -> str:
    """The token of this folder; made whole or not at all, also when two servers start at once."""
    path, fresh = folder / TOKEN, folder / f".token.{secrets.token_hex(4)}"
    if not os.path.lexists(path):
        try:
            _write(fresh, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
            try:
                os.link(fresh, path)
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        except OSError as exc:
            raise Denied(
                f"the token cannot be written to {folder}: {exc.strerror}",
                hint="free some space, or set XDG_STATE_HOME to a folder of yours",
            ) from exc
    return read_token(path)


def _write(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


class Keys:
    """Grades what callers show. Secrets are kept as hashes, and compared in constant time."""

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._proof_key = _digest(token), server_proof.proof_key(token)
        self._clock = clock
        self._codes: OrderedDict[bytes, float] = OrderedDict()
        self._sessions: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[bytes], None]] = []

    def grade(self, shown: str | None) -> ShownKey:
        if shown is None:
            return ShownKey.NONE
        digest = _digest(shown)
        if hmac.compare_digest(digest, self._token):
            return ShownKey.TOKEN
        with self._lock:
            return (
                ShownKey.SESSION
                if _lives(self._sessions, digest, self._clock())
                else ShownKey.WRONG
            )

    def prove(self, nonce: bytes, place: str) -> Statement:
        """That this server knows the token, to a client that has not sent it yet."""
        return server_proof.prove(self._proof_key, nonce, place)

    def new_code(self) -> str:
        """For a link: good once, and not for long."""
        return self._new(self._codes, CODE_SECONDS)

    def knows_code(self, code: str) -> bool:
        """Whether a code is good now; it is not spent."""
        with self._lock:
            return _lives(self._codes, _digest(code), self._clock())

    def exchange(self, code: str) -> str | None:
        """A session's secret for a code; the code is spent."""
        digest = _digest(code)
        with self._lock:
            good = _lives(self._codes, digest, self._clock())
            self._codes.pop(digest, None)
        return self._new(self._sessions, SESSION_SECONDS) if good else None

    def session(self, secret: str) -> tuple[bytes, float] | None:
        """The name of a session, which is no secret, and how many seconds it has left."""
        name, now = _digest(secret), self._clock()
        with self._lock:
            return (name, self._sessions[name] - now) if _lives(self._sessions, name, now) else None

    def listen(self, listener: Callable[[bytes], None]) -> None:
        """Call this with the name of each session that ends before its time, from any thread."""
        self._listeners.append(listener)

    def end_session(self, secret: str) -> bool:
        name = _digest(secret)
        with self._lock:
            ended = self._sessions.pop(name, None) is not None
        if ended:
            self._notify(name)
        return ended

    def _new(self, table: OrderedDict[bytes, float], seconds: float) -> str:
        secret = secrets.token_urlsafe(_TOKEN_BYTES)
        gone = list[bytes]()
        with self._lock:
            table[_digest(secret)] = self._clock() + seconds
            while len(table) > KEPT:
                gone.append(table.popitem(last=False)[0])
        for name in gone:
            self._notify(name)
        return secret

    def _notify(self, name: bytes) -> None:
        for listener in self._listeners:
            listener(name)


def _lives(table: OrderedDict[bytes, float], digest: bytes, now: float) -> bool:
    """A lookup by hash tells nothing of the secret by the time it takes."""
    until = table.get(digest)
    if until is not None and until <= now:
        del table[digest]
        return False
    return until is not None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
