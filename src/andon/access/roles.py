"""Who a caller is, and what each role may do: the one table that decides.

On the server's machine the kernel identifies a user. The server's owner and root may do everything;
others only what concerns their own things.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from andon.errors import Denied

ROOT = 0
LONGEST_USER_SILENCE_SECONDS = 86_400.0


class Role(StrEnum):
    """The relation of a caller to the server."""

    ANONYMOUS = "anonymous"  # sent no key
    USER = "user"  # an account of this machine
    OWNER = "owner"  # the user who runs the server, or root
    READ = "read"  # of a named token, or of whom a proxy signed in; as the next two
    OPERATE = "operate"
    ADMIN = "admin"


class Action(StrEnum):
    """An action that a role may or may not do."""

    SEE_COMMANDS = "see_commands"
    TAKE = "take"
    EXTEND = "extend"
    RELEASE = "release"
    RESERVE = "reserve"
    UNRESERVE = "unreserve"
    LINK_CALENDAR = "link_calendar"
    ANNOTATE = "annotate"  # pin a run, write a note on it or on a time of the history
    SUBMIT = "submit"  # jobs of the server's user: only its owners
    CANCEL = "cancel"
    RETRY = "retry"
    REQUEUE = "requeue"
    MOVE = "move"
    ACKNOWLEDGE = "acknowledge"
    UNACKNOWLEDGE = "unacknowledge"
    SILENCE = "silence"
    UNSILENCE = "unsilence"
    CORDON = "cordon"
    TEST_NOTIFIERS = "test_notifiers"
    MAKE_LINK = "make_link"
    SIGN_IN = "sign_in"  # with a code, whoever has it
    SIGN_OUT = "sign_out"
    REVOKE = "revoke"
    DRAIN = "drain"
    MANAGE_NODES = "manage_nodes"  # of a hub
    MANAGE_TOKENS = "manage_tokens"
    OTHER = "other"  # a change that this table does not know


class RightExtent(StrEnum):
    """How far a right goes."""

    NO = "no"
    OWN = "own"  # only what belongs to the caller
    ALL = "all"


_USER: Mapping[Action, RightExtent] = {
    Action.SEE_COMMANDS: RightExtent.OWN,
    Action.TAKE: RightExtent.OWN,
    Action.EXTEND: RightExtent.OWN,
    Action.RELEASE: RightExtent.OWN,
    Action.RESERVE: RightExtent.OWN,
    Action.UNRESERVE: RightExtent.OWN,
    Action.LINK_CALENDAR: RightExtent.OWN,
    Action.ANNOTATE: RightExtent.OWN,
    Action.CANCEL: RightExtent.OWN,
    Action.RETRY: RightExtent.OWN,
    Action.REQUEUE: RightExtent.OWN,
    Action.MOVE: RightExtent.OWN,
    Action.ACKNOWLEDGE: RightExtent.ALL,  # alerts belong to everyone; the name is the caller's
    Action.UNACKNOWLEDGE: RightExtent.OWN,
    Action.SILENCE: RightExtent.ALL,
    Action.UNSILENCE: RightExtent.OWN,
    Action.SIGN_IN: RightExtent.OWN,
    Action.SIGN_OUT: RightExtent.OWN,
    Action.REVOKE: RightExtent.OWN,
}
_OPERATE = frozenset(
    {
        Action.RELEASE, Action.UNRESERVE, Action.CANCEL, Action.MOVE, Action.ACKNOWLEDGE,
        Action.UNACKNOWLEDGE, Action.SILENCE, Action.UNSILENCE, Action.CORDON,
        Action.TEST_NOTIFIERS, Action.DRAIN,
    }
)  # fmt: skip
# Those of an account: a token and a proxy's people have none here.
_NOT_ADMIN = frozenset(
    {
        Action.TAKE, Action.EXTEND, Action.RESERVE, Action.LINK_CALENDAR, Action.SUBMIT,
        Action.MAKE_LINK, Action.SIGN_IN, Action.SIGN_OUT, Action.REVOKE, Action.OTHER,
    }
)  # fmt: skip
RIGHTS: Mapping[Role, Mapping[Action, RightExtent]] = {
    Role.ANONYMOUS: dict.fromkeys(Action, RightExtent.NO),
    Role.USER: {action: _USER.get(action, RightExtent.NO) for action in Action},
    Role.OWNER: dict.fromkeys(Action, RightExtent.ALL),
    Role.READ: dict.fromkeys(Action, RightExtent.NO),
    Role.OPERATE: {
        action: RightExtent.ALL if action in _OPERATE else RightExtent.NO for action in Action
    },
    Role.ADMIN: {
        action: RightExtent.NO if action in _NOT_ADMIN else RightExtent.ALL for action in Action
    },
}
OF_A_HUB = frozenset({Role.OWNER, Role.READ, Role.OPERATE, Role.ADMIN})
"""Roles that mean the same on every node of a hub; an account is one of a machine."""

_ROUTES = (
    ("POST", r"/api/leases", Action.TAKE),
    ("POST", r"/api/leases/[^/]+/renew", Action.EXTEND),
    ("DELETE", r"/api/leases/[^/]+", Action.RELEASE),
    ("POST", r"/api/reservations", Action.RESERVE),
    ("PATCH", r"/api/reservations/[^/]+", Action.RESERVE),
    ("DELETE", r"/api/reservations/[^/]+", Action.UNRESERVE),
    ("POST", r"/api/calendar", Action.LINK_CALENDAR),
    ("DELETE", r"/api/calendar", Action.LINK_CALENDAR),
    ("PATCH", r"/api/runs/[^/]+", Action.ANNOTATE),
    ("POST", r"/api/history/notes", Action.ANNOTATE),
    ("DELETE", r"/api/history/notes/[^/]+", Action.ANNOTATE),
    ("POST", r"/api/jobs", Action.SUBMIT),
    ("POST", r"/api/jobs/.+/cancel", Action.CANCEL),
    ("POST", r"/api/jobs/.+/retry", Action.RETRY),
    ("POST", r"/api/jobs/.+/requeue", Action.REQUEUE),
    ("POST", r"/api/jobs/.+/(move|hold|resume)", Action.MOVE),
    ("POST", r"/api/alerts/[^/]+/acknowledge", Action.ACKNOWLEDGE),
    ("DELETE", r"/api/alerts/[^/]+/acknowledge", Action.UNACKNOWLEDGE),
    ("POST", r"/api/silences", Action.SILENCE),
    ("DELETE", r"/api/silences/[^/]+", Action.UNSILENCE),
    ("PUT", r"/api/devices/[^/]+/cordon", Action.CORDON),
    ("DELETE", r"/api/devices/[^/]+/cordon", Action.CORDON),
    ("POST", r"/api/alerts/test", Action.TEST_NOTIFIERS),
    ("POST", r"/api/links", Action.MAKE_LINK),
    ("POST", r"/api/session", Action.SIGN_IN),
    ("DELETE", r"/api/session", Action.SIGN_OUT),
    ("DELETE", r"/api/sessions", Action.REVOKE),
    ("POST", r"/api/nodes", Action.MANAGE_NODES),
    ("POST", r"/api/nodes/[^/]+/(drain|resume)", Action.DRAIN),
    ("DELETE", r"/api/nodes/[^/]+", Action.MANAGE_NODES),
    ("POST", r"/api/tokens", Action.MANAGE_TOKENS),
    ("DELETE", r"/api/tokens/[^/]+", Action.MANAGE_TOKENS),
)
_COMPILED = tuple((method, re.compile(path), action) for method, path, action in _ROUTES)


class Identity(Struct, frozen=True):
    """A caller: the role, and the account if it is known. A token does not identify a person."""

    role: Role = Role.ANONYMOUS
    uid: int | None = None
    user: str | None = None
    by_token: bool = False
    sees_all: bool = False  # of a demo, where nothing is secret


ANONYMOUS = Identity()


class Sight(Struct, frozen=True):
    """Whose command lines a caller sees: everyone's, one user's, or no one's; `uid` is theirs."""

    everything: bool = False
    user: str | None = None
    uid: int | None = None

    def shows(self, user: str | None) -> bool:
        return self.everything or (self.user is not None and self.user == user)


BLIND, ALL_SEEING = Sight(), Sight(everything=True)


def identity_of(uid: int, user: str, server_uid: int) -> Identity:
    """The identity of a uid from the kernel: the server's own user and root are its owners."""
    role = Role.OWNER if uid in (ROOT, server_uid) else Role.USER
    return Identity(role, uid, user)


def sight_of(who: Identity) -> Sight:
    extent = RightExtent.ALL if who.sees_all else RIGHTS[who.role][Action.SEE_COMMANDS]
    if extent is RightExtent.ALL:
        return ALL_SEEING
    return Sight(user=who.user, uid=who.uid) if extent is RightExtent.OWN else BLIND


def action_of(method: str, path: str) -> Action:
    """Returns the action of a request that changes something."""
    for known, pattern, action in _COMPILED:
        if known == method and pattern.fullmatch(path):
            return action
    return Action.OTHER


def refusal_for(who: Identity, action: Action, is_own: bool, whose: str = "") -> Denied | None:
    """Returns why this caller may not do it to an object of their own or of another user; None if
    they may."""
    extent = RIGHTS[who.role][action]
    if extent is RightExtent.ALL or (extent is RightExtent.OWN and is_own):
        return None
    if extent is RightExtent.OWN:
        owner = f": it belongs to {whose}" if whose else ""
        return Denied(
            f"{who.user or 'this caller'} may not {_action_text(action)} this{owner}",
            hint=f"ask {whose}, or root" if whose else "ask root",
        )
    hint = "only root and the user who runs this server may"
    if who.role in (Role.READ, Role.OPERATE) and action not in _NOT_ADMIN:
        hint = f"the role {'operate' if action in _OPERATE else 'admin'} may: andon token"
    return Denied(f"{who.user or 'this caller'} may not {_action_text(action)} here", hint=hint)


def signature(who: Identity, typed: str) -> str:
    """Returns the name under which something is done: the account's; only a token may give
    another."""
    if who.by_token and typed:
        return typed
    return who.user or typed


def check_silence(who: Identity, seconds: float, names_something: bool) -> Denied | None:
    """Refuses a user's silence without a subject or an end: it affects everyone's notifications."""
    if who.role in (Role.OWNER, Role.ADMIN):
        return None
    if not names_something:
        return Denied(
            f"{who.user} may not silence every alert", hint="name a rule or a device; or ask root"
        )
    if seconds > LONGEST_USER_SILENCE_SECONDS:
        return Denied(f"{who.user} may silence for at most 1 d", hint="ask root for longer")
    return None


def _action_text(action: Action) -> str:
    return "do" if action is Action.OTHER else str(action).replace("_", " ")
