"""Who may end a lease, and what a fence proves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Conflict, Denied, Invalid
from andon.leases.rules.rights import (
    AHEAD_MICROSECONDS,
    LeaseRequester,
    barred,
    check_fence,
    next_fence,
)
from andon.model.lease import LeaseKind, LeaseState, PidScope, Work
from tests.support.sharing_parts import claim, lease, owner

HERE = PidScope("b", "n")
ALICE, BOB, ROOT = (LeaseRequester(uid, HERE) for uid in (1000, 1001, 0))
NETWORK = lease(0, kind=LeaseKind.NETWORK, fence=17)


def words(*parts: object) -> str:
    bar = barred(*parts)  # type: ignore[arg-type]
    return "" if bar is None else f"{bar.reason}: {bar.hint}"


def test_a_lease_is_its_users_and_roots() -> None:
    held = claim(lease(0))
    assert barred(held, ALICE) is None
    assert barred(held, ROOT) is None
    assert isinstance(barred(held, BOB), Denied)
    assert words(held, BOB) == "lease k7qm2 belongs to alice: ask alice, or root"
    roots = replace(held, uid=0, user="root")
    assert words(roots, BOB) == "lease k7qm2 belongs to root: ask root"


def test_a_lease_in_another_container_is_ended_there() -> None:
    far = owner(pid_namespace="other", container="0123456789abcdef")
    bar = barred(claim(lease(0, owner=far)), ROOT)
    assert isinstance(bar, Conflict)
    assert bar.reason == "lease k7qm2 is held in container 0123456789ab"


def test_what_has_no_holder_or_no_words_cannot_be_ended() -> None:
    assert isinstance(barred(claim(None, LeaseState.UNREADABLE), ROOT), Denied)
    orphan = claim(lease(0, work=Work(7, 7, 7)), LeaseState.ORPHANED)
    assert (
        words(orphan, ALICE) == "the holder of lease k7qm2 has exited: stop its job (see andon ps)"
    )
    verified = replace(orphan, left=(8, 9))
    assert words(verified, ALICE) == "the holder of lease k7qm2 has exited: stop its job (pid 8, 9)"


def test_a_network_lease_wants_its_own_fence() -> None:
    check_fence(NETWORK, 17)
    with pytest.raises(Invalid, match="requires its fence"):
        check_fence(NETWORK, None)
    for other in (16, 18, 0):
        with pytest.raises(Conflict, match=f"fenced: {other} is not"):
            check_fence(NETWORK, other)


def test_another_lease_wants_none_and_refuses_a_wrong_one() -> None:
    command = lease(0, fence=17)
    check_fence(command, None)
    check_fence(command, 17)
    with pytest.raises(Conflict, match="fenced"):
        check_fence(command, 16)


@given(st.integers(0, 2**51), st.lists(st.integers(0, 2**63 - 1)))
def test_a_fence_is_greater_than_all_that_can_be_believed(now: int, known: list[int]) -> None:
    made = next_fence(now, known)
    assert made >= now
    believed = [fence for fence in known if fence <= now + AHEAD_MICROSECONDS]
    assert all(made > fence for fence in believed)
    assert made <= now + AHEAD_MICROSECONDS + 1


def test_a_fence_is_a_number_that_every_program_can_count() -> None:
    in_two_centuries = 8_000_000_000 * 10**6
    assert next_fence(in_two_centuries, []) < 2**53
