"""Who may end or extend a lease, and the number (fence) that proves which lease is meant."""

from collections.abc import Iterable

from msgspec import Struct

from andon.errors import AndonError, Conflict, Denied, Invalid
from andon.model.lease import NOWHERE, Claim, Lease, LeaseKind, LeaseState, PidScope

AHEAD_MICROSECONDS = 86_400 * 10**6
MOST_NAMED = 5


class LeaseRequester(Struct, frozen=True):
    """The user who requests to end or extend a lease, and their boot and pid namespace."""

    uid: int
    scope: PidScope = NOWHERE


def barred(claim: Claim, requester: LeaseRequester) -> AndonError | None:
    """Returns why this requester may not end or extend a lease; None if allowed."""
    lease = claim.lease
    whom = f"ask {claim.user}, or root" if claim.uid else "ask root"
    if lease is None:
        return Denied(f"a lease of {claim.user} cannot be read", hint=whom)
    if requester.uid not in (0, claim.uid):
        return Denied(f"lease {lease.id} belongs to {claim.user}", hint=whom)
    owner = lease.owner
    if owner.pid_namespace != requester.scope.pid_namespace:
        where = f"container {owner.container[:12]}" if owner.container else "another container"
        return Conflict(f"lease {lease.id} is held in {where}", hint="release it there")
    if claim.state is LeaseState.ORPHANED:
        left = f"stop its job ({_work(claim)})"
        if lease.containers:
            left = f"take it over: andon lease adopt {lease.id}; or stop it ({_work(claim)})"
        return Conflict(f"the holder of lease {lease.id} has exited", hint=left)
    return None


def next_fence(now_microseconds: int, known: Iterable[int]) -> int:
    """Returns a number greater than the fence of every earlier lease that is plausible.

    A file may contain anything: a number far ahead of the clock would leave no greater one.
    """
    believed = (fence for fence in known if fence <= now_microseconds + AHEAD_MICROSECONDS)
    return max([now_microseconds, *(fence + 1 for fence in believed)])


def check_fence(lease: Lease, shown: int | None) -> None:
    """Refuses a wrong fence: a network lease belongs to the client that has its fence."""
    if lease.kind is not LeaseKind.NETWORK and shown is None:
        return
    if shown is None:
        raise Invalid(f"lease {lease.id} requires its fence", hint="it was returned with the lease")
    if shown != lease.fence:
        raise Conflict(
            f"fenced: {shown} is not the fence of lease {lease.id}",
            hint="the lease it belonged to has ended; request a new one",
        )


def _work(claim: Claim) -> str:
    """Returns the verified pids of a lease's job: the file itself may name any process."""
    pids = claim.left[:MOST_NAMED]
    return f"pid {', '.join(map(str, pids))}" if pids else "see andon ps"
