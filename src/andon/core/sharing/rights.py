"""Who may end or move a lease, and the number that proves which lease is meant."""

from collections.abc import Iterable
from dataclasses import dataclass

from andon.core.sharing.holdings import NOWHERE, Here
from andon.errors import AndonError, Conflict, Denied, Invalid
from andon.model.work import Claim, Lease, LeaseKind, LeaseState

AHEAD_MICROSECONDS = 86_400 * 10**6
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wants to end or move a lease, and where it looks from."""

    uid: int
    here: Here = NOWHERE


def barred(claim: Claim, asker: Asker) -> AndonError | None:
    """Why it is not for this asker to end or move; None where it is."""
    lease = claim.lease
    whom = f"ask {claim.user}, or root" if claim.uid else "ask root"
    if lease is None:
        return Denied(f"a lease of {claim.user} that cannot be read", hint=whom)
    if asker.uid not in (0, claim.uid):
        return Denied(f"lease {lease.id} is {claim.user}'s", hint=whom)
    owner = lease.owner
    if owner.pid_namespace != asker.here.pid_namespace:
        where = f"container {owner.container[:12]}" if owner.container else "another container"
        return Conflict(f"lease {lease.id} is held in {where}", hint="release it there")
    if claim.state is LeaseState.ORPHANED:
        left = f"end its work ({_work(claim)})"
        return Conflict(f"lease {lease.id} has lost its holder", hint=left)
    return None


def next_fence(now_microseconds: int, known: Iterable[int]) -> int:
    """Greater than that of every lease before, as far as that can be believed.

    A file may say anything: a number far ahead of the clock would leave no greater one.
    """
    believed = (fence for fence in known if fence <= now_microseconds + AHEAD_MICROSECONDS)
    return max([now_microseconds, *(fence + 1 for fence in believed)])


def check_fence(lease: Lease, shown: int | None) -> None:
    """A lease over the network is its asker's: who has not its number may not touch it."""
    if lease.kind is not LeaseKind.NETWORK and shown is None:
        return
    if shown is None:
        raise Invalid(f"lease {lease.id} wants its fence", hint="it came with the lease")
    if shown != lease.fence:
        raise Conflict(
            f"fenced: {shown} is not the fence of lease {lease.id}",
            hint="the lease that it came with has ended; ask for a new one",
        )


def _work(claim: Claim) -> str:
    """Only pids that were verified: what the file says may be anybody's."""
    pids = claim.left[:MOST_NAMED]
    return f"pid {', '.join(map(str, pids))}" if pids else "see andon ps"
