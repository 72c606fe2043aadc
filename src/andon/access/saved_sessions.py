"""Stores sessions between two runs of a server: hashes, authenticated with the token.

A file that was changed, truncated or written with another token is ignored: everyone then signs in
again.
"""

import hmac
import json
from collections.abc import Callable, Iterable

from msgspec import Struct

from andon.access.roles import Identity, Role, identity_of

SCHEMA = "andon.sessions/1"
_KEY = b"andon.sessions/1 key"


class SavedSession(Struct, frozen=True):
    """One session: the hash of its secret, whose it is, and when it ends (UTC seconds)."""

    name: bytes
    who: Identity
    until: float


def sessions_key(token: str) -> bytes:
    """Returns the key of the file; the token cannot be computed from it."""
    return hmac.digest(token.encode("utf-8", "surrogateescape"), _KEY, "sha256")


def dump_sessions(sessions: Iterable[SavedSession], key: bytes) -> bytes:
    """Returns two lines: the sessions, and their authentication."""
    rows = [
        [one.name.hex(), one.who.uid, one.who.user, one.who.by_token, round(one.until, 3)]
        for one in sessions
    ]
    body = json.dumps({"schema": SCHEMA, "sessions": rows}).encode()
    return body + b"\n" + hmac.digest(key, body, "sha256").hex().encode() + b"\n"


def load_sessions(
    content: bytes,
    key: bytes,
    now: float,
    longest_seconds: float,
    server_uid: int,
    name_of: Callable[[int], str | None],
) -> list[SavedSession] | None:
    """Returns the sessions that are still valid; None if the file cannot be trusted.

    A role is decided again. A uid that now belongs to another name is another person.
    """
    body, _, proof = content.partition(b"\n")
    if not hmac.compare_digest(hmac.digest(key, body, "sha256").hex().encode(), proof.strip()):
        return None
    found = [_session(row, server_uid) for row in json.loads(body)["sessions"]]
    return [
        one
        for one in found
        if now < one.until <= now + longest_seconds  # further away: the clock was set back
        and one.who.uid is not None
        and name_of(one.who.uid) == one.who.user
    ]


def _session(row: list[object], server_uid: int) -> SavedSession:
    """Parses a session; the content is our own, because it is authenticated."""
    name, uid, user, by_token, until = row
    who = identity_of(int(str(uid)), str(user), server_uid)
    if by_token:
        who = Identity(Role.OWNER, who.uid, who.user, by_token=True)
    return SavedSession(bytes.fromhex(str(name)), who, float(str(until)))
