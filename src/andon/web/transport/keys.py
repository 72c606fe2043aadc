"""The server's secrets: the token in its file, one-time codes, and browser sessions."""

import hmac
import math
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from andon.access import server_proof
from andon.access.gate import UNCHECKED, ShownKey
from andon.access.roles import Identity, Role
from andon.access.saved_sessions import SavedSession
from andon.access.server_proof import Statement, token_hash
from andon.errors import Denied, Unavailable
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.host.files import replace_file
from andon.host.state.user_folder import TOKEN, read_token
from andon.host.users import account_name, user_name
from andon.web.transport.calendar_keys import CalendarKeys
from andon.web.transport.session_file import SessionFile

CODE_SECONDS = 120.0
SESSION_SECONDS = 12 * 3600.0
BRIEF_SECONDS = 60.0  # of a command, which ends it itself
MOST_SESSIONS = 256  # sessions, and codes; the oldest are dropped first
MOST_EACH = 16  # of one user who is not an owner: one account cannot displace the others
_TOKEN_BYTES = 32


def make_token(folder: Path) -> str:
    """The token of this folder; created atomically, even when two servers start at once."""
    path, fresh = folder / TOKEN, folder / f".token.{secrets.token_hex(4)}"
    if not os.path.lexists(path):
        try:
            replace_file(fresh, secrets.token_urlsafe(_TOKEN_BYTES).encode() + b"\n")
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


class Keys:
    """Checks keys. Secrets are stored as hashes and compared in constant time."""

    def __init__(
        self,
        token: str,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        file: SessionFile | None = None,
        demo_user: str | None = None,
        name_of: Callable[[int], str | None] = account_name,
        calendars: CalendarKeys | None = None,
    ) -> None:
        """`demo_user` is the name of the owner of a demo, where anyone sees everything."""
        self.calendars = calendars or CalendarKeys(name_of=name_of)
        self._token = token_hash(token)
        self._clock, self._wall, self._file, self._name_of = clock, wall, file, name_of
        uid = os.getuid() if hasattr(os, "getuid") else 0
        self.owner = Identity(Role.OWNER, uid, demo_user or user_name(uid))
        self._guest = Identity(sees_all=demo_user is not None)
        self._by_token = Identity(Role.OWNER, uid, self.owner.user, by_token=True)
        self.named: Callable[[bytes], Identity | None] = lambda digest: None
        """Whose token of a hub has this hash."""
        self.named_hash: Callable[[str], bytes | None] = lambda hint: None
        """The hash of the token of a hub that is meant."""
        self.named_are_read: Callable[[], bool] = lambda: True
        """Whether those of a hub are known; else an unknown token may be one of them."""
        self._codes: OrderedDict[bytes, _Issued] = OrderedDict()
        self._sessions: OrderedDict[bytes, _Issued] = OrderedDict()
        self._lock = threading.Lock()
        self._listeners: Listeners[[bytes]] = Listeners(
            FailureLog("andon.web", "a session could not be ended everywhere")
        )
        self._restore()

    def grade(self, shown: str | None) -> ShownKey:
        return self.identify(shown)[0]

    def identify(self, shown: str | None) -> tuple[ShownKey, Identity]:
        """The kind of key, and whose it is."""
        if shown is None:
            return ShownKey.NONE, self._guest
        digest = token_hash(shown)
        if hmac.compare_digest(digest, self._token):
            return ShownKey.TOKEN, self._by_token
        with self._lock:
            found = _valid(self._sessions, digest, self._clock())
        if found is not None:
            return ShownKey.SESSION, found.who
        named = self.named(digest)
        if named is not None:
            return ShownKey.NAMED, named
        return ShownKey.WRONG if self.named_are_read() else ShownKey.UNCHECKED, self._guest

    def prove(self, nonce: bytes, place: str, hint: str = "") -> Statement:
        """Prove to a client that has not sent the token yet that this server knows it; `hint` says
        which one if it is not the owner's. Raises Unavailable if that is not known now."""
        hashed = self.named_hash(hint) or self._token
        if hint and server_proof.hint_of(hashed) != hint and not self.named_are_read():
            raise Unavailable(UNCHECKED.reason, hint=UNCHECKED.hint)
        return server_proof.prove(server_proof.proof_key(hashed), nonce, place)

    def new_code(
        self,
        who: Identity | None = None,
        seconds: float = CODE_SECONDS,
        session: bytes | None = None,
    ) -> str:
        """Makes a code for a link: valid once and for a short time; it makes this person's
        session. One made in a session is valid as long as that, and so is what it makes: no
        session can renew itself.

        If the uid now has another name, the account was reassigned: the earlier user's sessions
        end.
        """
        who = who or self.owner
        for name in self._names(lambda one: one.who.uid == who.uid and one.who.user != who.user):
            self._end(name)
        return self._new(self._codes, _Issued(self._clock() + seconds, who, session=session))

    def code_owner(self, code: str) -> Identity | None:
        """Whose session a code makes, if it is valid now; this does not use it up."""
        with self._lock:
            found = self._valid_code(token_hash(code))
        return None if found is None else found[0]

    def exchange(self, code: str, brief: bool = False) -> str | None:
        """A session's secret for a code, which is used up."""
        digest = token_hash(code)
        with self._lock:
            found = self._valid_code(digest)
            self._codes.pop(digest, None)
        if found is None:
            return None
        who, last = found
        until = self._clock() + (BRIEF_SECONDS if brief else SESSION_SECONDS)
        made = self._new(self._sessions, _Issued(min(until, last), who, brief))
        if not brief:
            self._save()
        return made

    def session(self, secret: str) -> tuple[bytes, float] | None:
        """The name of a session, which is not secret, and its remaining seconds."""
        name, now = token_hash(secret), self._clock()
        with self._lock:
            found = _valid(self._sessions, name, now)
            return None if found is None else (name, found.until - now)

    def signed_in(self) -> set[int]:
        """The uids of those who have a session now."""
        now = self._clock()
        with self._lock:
            found = [one.who.uid for one in self._sessions.values() if one.until > now]
        return {uid for uid in found if uid is not None}

    def listen(self, listener: Callable[[bytes], None]) -> None:
        """Call this with the hash of each session or named token that ends early, from any
        thread."""
        self._listeners.add(listener)

    def named_ended(self, digest: bytes) -> None:
        self._listeners.notify(digest)

    def end_session(self, secret: str) -> bool:
        return self._end(token_hash(secret))

    def revoke(self, uid: int | None) -> int:
        """Ends all sessions of a user, or of everyone; returns how many, without commands' own."""
        brief = set(self._names(lambda one: one.brief))
        ended = self._names(lambda one: uid is None or one.who.uid == uid)
        return sum(self._end(name) and name not in brief for name in ended)

    def renew_token(self, token: str) -> bool:
        """Takes the token that is in the file now; if it is another, all sessions end, as they do
        at a start with another. Returns whether it is."""
        digest = token_hash(token)
        if hmac.compare_digest(digest, self._token):
            return False
        self._token = digest
        self.revoke(None)
        if self._file is not None:
            self._file.renew(token)
        return True

    def _names(self, wanted: Callable[["_Issued"], bool]) -> list[bytes]:
        with self._lock:
            return [name for name, one in self._sessions.items() if wanted(one)]

    def _end(self, name: bytes) -> bool:
        with self._lock:
            ended = self._sessions.pop(name, None) is not None
        if ended:
            self._listeners.notify(name)
            self._save()
        return ended

    def _valid_code(self, digest: bytes) -> tuple[Identity, float] | None:
        """Returns whose session a code makes, and when that ends at the latest."""
        now = self._clock()
        code = _valid(self._codes, digest, now)
        if code is None or code.session is None:
            return None if code is None else (code.who, math.inf)
        session = _valid(self._sessions, code.session, now)
        return None if session is None else (code.who, session.until)

    def _new(self, table: "OrderedDict[bytes, _Issued]", issued: "_Issued") -> str:
        secret = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._lock:
            table[token_hash(secret)] = issued
            dropped = _excess(table, issued.who)
            for name in dropped:
                del table[name]
        for name in dropped:
            self._listeners.notify(name)
        return secret

    # Across restarts.

    def _restore(self) -> None:
        if self._file is None or self.owner.uid is None:
            return
        wall, now = self._wall(), self._clock()
        name_of = lambda uid: self._name_of(uid) or str(uid)  # noqa: E731
        found = self._file.load(wall, SESSION_SECONDS, self.owner.uid, name_of)
        for one in found[-MOST_SESSIONS:]:
            self._sessions[one.name] = _Issued(now + one.until - wall, one.who)

    def _save(self) -> None:
        if self._file is None:
            return
        wall, now = self._wall(), self._clock()
        with self._lock:
            sessions = [
                SavedSession(name, one.who, wall + one.until - now)
                for name, one in self._sessions.items()
                if one.until > now and not one.brief
            ]
            self._file.save_soon(sessions)  # in order: a list that is saved later is newer


class _Issued(Struct, frozen=True):
    """A code or a session: until when, and for whom."""

    until: float
    who: Identity
    brief: bool = False  # of one command, and not kept
    session: bytes | None = None  # in which a code was made


def _valid(table: OrderedDict[bytes, _Issued], digest: bytes, now: float) -> _Issued | None:
    """A valid code or session; the time of a lookup by hash reveals nothing about the secret."""
    found = table.get(digest)
    if found is not None and found.until <= now:
        del table[digest]
        return None
    return found


def _excess(table: OrderedDict[bytes, _Issued], who: Identity) -> list[bytes]:
    """Returns the entries to drop: a user's own beyond their share, those that end first; else
    the oldest, and an owner's last."""
    if who.role is not Role.OWNER:
        mine = [name for name, one in table.items() if one.who.uid == who.uid]
        if len(mine) > MOST_EACH:
            return sorted(mine[:-1], key=lambda name: table[name].until)[: len(mine) - MOST_EACH]
    beyond = len(table) - MOST_SESSIONS
    if beyond <= 0:
        return []
    return sorted(table, key=lambda name: table[name].who.role is Role.OWNER)[:beyond]
