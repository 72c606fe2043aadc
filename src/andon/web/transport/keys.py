"""The server's secrets: the token in its file, one-time codes, and browser sessions."""

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
from andon.engine.failure_log import FailureLog
from andon.engine.listeners import Listeners
from andon.errors import Denied
from andon.host.server.state_folder import TOKEN, read_token

CODE_SECONDS = 120.0
SESSION_SECONDS = 12 * 3600.0
KEPT = 256  # sessions, and codes; the oldest are dropped first
_TOKEN_BYTES = 32


def make_token(folder: Path) -> str:
    """The token of this folder; created atomically, even when two servers start at once."""
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
                hint="free some space, or set XDG_STATE_HOME to a folder you own",
            ) from exc
    return read_token(path)


def _write(path: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


class Keys:
    """Checks keys. Secrets are stored as hashes and compared in constant time."""

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token, self._proof_key = _digest(token), server_proof.proof_key(token)
        self._clock = clock
        self._codes: OrderedDict[bytes, float] = OrderedDict()
        self._sessions: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()
        self._listeners: Listeners[[bytes]] = Listeners(
            FailureLog("andon.web", "a session could not be ended everywhere")
        )

    def grade(self, shown: str | None) -> ShownKey:
        if shown is None:
            return ShownKey.NONE
        digest = _digest(shown)
        if hmac.compare_digest(digest, self._token):
            return ShownKey.TOKEN
        with self._lock:
            return (
                ShownKey.SESSION
                if _is_valid(self._sessions, digest, self._clock())
                else ShownKey.WRONG
            )

    def prove(self, nonce: bytes, place: str) -> Statement:
        """Prove to a client that has not sent the token yet that this server knows it."""
        return server_proof.prove(self._proof_key, nonce, place)

    def new_code(self) -> str:
        """For a link: valid once, and only for a short time."""
        return self._new(self._codes, CODE_SECONDS)

    def knows_code(self, code: str) -> bool:
        """Whether a code is valid now; this does not use it up."""
        with self._lock:
            return _is_valid(self._codes, _digest(code), self._clock())

    def exchange(self, code: str) -> str | None:
        """A session's secret for a code, which is used up."""
        digest = _digest(code)
        with self._lock:
            valid = _is_valid(self._codes, digest, self._clock())
            self._codes.pop(digest, None)
        return self._new(self._sessions, SESSION_SECONDS) if valid else None

    def session(self, secret: str) -> tuple[bytes, float] | None:
        """The name of a session, which is not secret, and its remaining seconds."""
        name, now = _digest(secret), self._clock()
        with self._lock:
            return (
                (name, self._sessions[name] - now) if _is_valid(self._sessions, name, now) else None
            )

    def listen(self, listener: Callable[[bytes], None]) -> None:
        """Call this with the name of each session that ends early, from any thread."""
        self._listeners.add(listener)

    def end_session(self, secret: str) -> bool:
        name = _digest(secret)
        with self._lock:
            ended = self._sessions.pop(name, None) is not None
        if ended:
            self._listeners.notify(name)
        return ended

    def _new(self, table: OrderedDict[bytes, float], seconds: float) -> str:
        secret = secrets.token_urlsafe(_TOKEN_BYTES)
        dropped = list[bytes]()
        with self._lock:
            table[_digest(secret)] = self._clock() + seconds
            while len(table) > KEPT:
                dropped.append(table.popitem(last=False)[0])
        for name in dropped:
            self._listeners.notify(name)
        return secret


def _is_valid(table: OrderedDict[bytes, float], digest: bytes, now: float) -> bool:
    """The time of a lookup by hash reveals nothing about the secret."""
    until = table.get(digest)
    if until is not None and until <= now:
        del table[digest]
        return False
    return until is not None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
