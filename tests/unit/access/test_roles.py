"""What each role may do: the whole table, and the routes that it covers."""

import pytest

from andon.access.roles import (
    ANONYMOUS,
    RIGHTS,
    Action,
    Identity,
    RightExtent,
    Role,
    Sight,
    action_of,
    check_silence,
    identity_of,
    refusal_for,
    sight_of,
    signature,
)
from tests.support.rows import rows

DORA = Identity(Role.USER, 1234, "dora")
ROOT = Identity(Role.OWNER, 0, "root")
TABLE = {  # action: (anonymous, user about their own, user about another's, owner)
    Action.SEE_COMMANDS: (False, True, False, True),
    Action.TAKE: (False, True, False, True),
    Action.EXTEND: (False, True, False, True),
    Action.RELEASE: (False, True, False, True),
    Action.RESERVE: (False, True, False, True),
    Action.UNRESERVE: (False, True, False, True),
    Action.LINK_CALENDAR: (False, True, False, True),
    Action.ANNOTATE: (False, True, False, True),
    Action.SUBMIT: (False, False, False, True),
    Action.CANCEL: (False, True, False, True),
    Action.RETRY: (False, True, False, True),
    Action.REQUEUE: (False, True, False, True),
    Action.MOVE: (False, True, False, True),
    Action.ACKNOWLEDGE: (False, True, True, True),
    Action.UNACKNOWLEDGE: (False, True, False, True),
    Action.SILENCE: (False, True, True, True),
    Action.UNSILENCE: (False, True, False, True),
    Action.CORDON: (False, False, False, True),
    Action.TEST_NOTIFIERS: (False, False, False, True),
    Action.MAKE_LINK: (False, False, False, True),
    Action.SIGN_IN: (False, True, False, True),
    Action.SIGN_OUT: (False, True, False, True),
    Action.REVOKE: (False, True, False, True),
    Action.DRAIN: (False, False, False, True),
    Action.MANAGE_NODES: (False, False, False, True),
    Action.MANAGE_TOKENS: (False, False, False, True),
    Action.OTHER: (False, False, False, True),
}


@rows("action", Action)
def test_every_role_and_action_is_decided(action: Action) -> None:
    callers = ((ANONYMOUS, True), (DORA, True), (DORA, False), (ROOT, False))
    allowed = tuple(refusal_for(who, action, own) is None for who, own in callers)
    assert allowed == TABLE[action]


OPERATED = {
    Action.RELEASE, Action.UNRESERVE, Action.CANCEL, Action.MOVE, Action.ACKNOWLEDGE,
    Action.UNACKNOWLEDGE, Action.SILENCE, Action.UNSILENCE, Action.CORDON, Action.TEST_NOTIFIERS,
    Action.DRAIN,
}  # fmt: skip
ADMINISTERED = {
    *OPERATED, Action.SEE_COMMANDS, Action.RETRY, Action.REQUEUE, Action.MANAGE_NODES,
    Action.MANAGE_TOKENS, Action.ANNOTATE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("role", "may"),
    [(Role.READ, set()), (Role.OPERATE, OPERATED), (Role.ADMIN, ADMINISTERED)],
)
def test_what_a_named_token_may_do(role: Role, may: set[Action]) -> None:
    who = Identity(role, user="token ops")
    for own in (True, False):
        assert {one for one in Action if refusal_for(who, one, own) is None} == may
    assert sight_of(who).shows("dora") is (role is Role.ADMIN)


def test_a_token_is_told_which_role_may() -> None:
    for action, role in ((Action.CORDON, "operate"), (Action.MANAGE_TOKENS, "admin")):
        refused = refusal_for(Identity(Role.READ, user="token ops"), action, True)
        assert refused is not None
        assert refused.hint == f"the role {role} may: andon token"


def test_the_table_names_every_role_and_action_once() -> None:
    assert set(RIGHTS) == set(Role)
    assert all(set(rights) == set(Action) for rights in RIGHTS.values())
    assert set(TABLE) == set(Action)
    assert set(RIGHTS[Role.ANONYMOUS].values()) == {RightExtent.NO}


@pytest.mark.parametrize(
    ("uid", "server", "role"),
    [(0, 0, Role.OWNER), (0, 1000, Role.OWNER), (1000, 1000, Role.OWNER),
     (1234, 0, Role.USER), (1234, 1000, Role.USER)],
)  # fmt: skip
def test_root_and_the_servers_user_are_its_owners(uid: int, server: int, role: Role) -> None:
    assert identity_of(uid, "someone", server).role is role


@rows(
    ("method", "path", "action"),
    [
        ("POST", "/api/leases", Action.TAKE),
        ("DELETE", "/api/leases/x", Action.RELEASE),
        ("POST", "/api/leases/x/renew", Action.EXTEND),
        ("POST", "/api/alerts/thermal@GPU-1#3/acknowledge", Action.ACKNOWLEDGE),
        ("POST", "/api/reservations", Action.RESERVE),
        ("PATCH", "/api/reservations/r1", Action.RESERVE),
        ("DELETE", "/api/reservations/r1", Action.UNRESERVE),
        ("POST", "/api/calendar", Action.LINK_CALENDAR),
        ("DELETE", "/api/calendar", Action.LINK_CALENDAR),
        ("PATCH", "/api/runs/kqzvmtra", Action.ANNOTATE),
        ("POST", "/api/history/notes", Action.ANNOTATE),
        ("DELETE", "/api/history/notes/3fcd78c1", Action.ANNOTATE),
        ("POST", "/api/alerts/test", Action.TEST_NOTIFIERS),
        ("PUT", "/api/devices/0/cordon", Action.CORDON),
        ("DELETE", "/api/leases/x/y", Action.OTHER),
        ("PATCH", "/api/leases", Action.OTHER),
        ("POST", "/api/leases/", Action.OTHER),
        ("POST", "/api/leases\n", Action.OTHER),
        ("DELETE", "/api/leases/x/../../devices/0/cordon", Action.OTHER),
    ],
)
def test_a_request_is_one_action_and_an_unknown_one_is_the_owners(
    method: str, path: str, action: Action
) -> None:
    assert action_of(method, path) is action


def test_a_refusal_says_whom_to_ask() -> None:
    refused = refusal_for(DORA, Action.RELEASE, False, "erik")
    assert refused is not None
    assert refused.reason == "dora may not release this: it belongs to erik"
    assert refused.hint == "ask erik, or root"
    other = refusal_for(DORA, Action.CORDON, True)
    assert other is not None
    assert (other.reason, other.hint) == (
        "dora may not cordon here",
        "only root and the user who runs this server may",
    )


def test_a_person_sees_their_own_commands_and_no_others() -> None:
    assert [sight_of(DORA).shows(user) for user in ("dora", "erik", None)] == [True, False, False]
    assert [sight_of(ANONYMOUS).shows(user) for user in ("dora", None)] == [False, False]
    assert [sight_of(ROOT).shows(user) for user in ("dora", None)] == [True, True]
    assert not Sight(user=None).shows(None)


@pytest.mark.parametrize(
    ("who", "typed", "name"),
    [
        (DORA, "erik", "dora"),
        (DORA, "", "dora"),
        (ROOT, "erik", "root"),
        (Identity(Role.OWNER, 0, "root", by_token=True), "erik", "erik"),
        (Identity(Role.OWNER, 0, "root", by_token=True), "", "root"),
    ],
)
def test_a_name_is_the_kernels_and_only_the_token_may_type_one(
    who: Identity, typed: str, name: str
) -> None:
    assert signature(who, typed) == name


@pytest.mark.parametrize(
    ("who", "seconds", "named", "allowed"),
    [
        (DORA, 3600.0, True, True),
        (DORA, 3600.0, False, False),
        (DORA, 86_401.0, True, False),
        (ROOT, 1e6, False, True),
    ],
)
def test_a_users_silence_is_narrow_and_short(
    who: Identity, seconds: float, named: bool, allowed: bool
) -> None:
    assert (check_silence(who, seconds, named) is None) is allowed
