"""When an idle lease ends: after two warnings of its owner, and never while anything runs."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from andon.model.device import DeviceStatus, State
from andon.model.lease import Claim, LeaseState

WARNED_AT = (0.5, 0.75)
"""The shares of the allowed time after which the owner is warned."""
LEAST_SHARE = 0.125  # of the allowed time: between two warnings, and before the end
BUSY_PERCENT = 0.0


class IdleStep(StrEnum):
    """What is due for an idle lease."""

    NOTHING = "nothing"
    WARN = "warn"
    RELEASE = "release"


class IdleLease(Struct, frozen=True):
    """Since when a lease is idle, and when its owner was warned of that."""

    since: float
    warned: tuple[float, ...] = ()

    def step(self, at: float, allowed_seconds: float) -> IdleStep:
        """Returns what is due. After both warnings there is always time to answer: a server that
        did not run, or a policy that became stricter, ends nothing at once."""
        if self.warned and at - self.warned[-1] < LEAST_SHARE * allowed_seconds:
            return IdleStep.NOTHING
        idle = at - self.since
        if len(self.warned) >= len(WARNED_AT):
            return IdleStep.RELEASE if idle >= allowed_seconds else IdleStep.NOTHING
        due = idle >= WARNED_AT[len(self.warned)] * allowed_seconds
        return IdleStep.WARN if due else IdleStep.NOTHING

    def warned_at(self, at: float) -> "IdleLease":
        return IdleLease(self.since, (*self.warned, at))


def is_idle(claim: Claim, statuses: Mapping[str, DeviceStatus]) -> bool:
    """Whether a lease is known to be idle: no job, and on each of its devices no process and no
    activity. What cannot be read counts as busy."""
    lease = claim.lease
    if lease is None or claim.state is not LeaseState.HELD or lease.job or lease.containers:
        return False
    found = [statuses.get(share.uuid) for share in lease.shares]
    return all(one is not None and _is_idle_device(one) for one in found)


def _is_idle_device(status: DeviceStatus) -> bool:
    if status.state is State.ASLEEP:
        return True
    if status.state is not State.OK or status.sample is None or status.processes:
        return False
    busy = status.sample.utilization_percent
    return busy is not None and busy <= BUSY_PERCENT and "processes" not in status.missing


def followed(
    before: Mapping[str, IdleLease],
    claims: tuple[Claim, ...],
    statuses: Mapping[str, DeviceStatus],
    at: float,
) -> dict[str, IdleLease]:
    """Returns the idle leases by id; the time of one that was busy meanwhile starts again."""
    idle = [c.lease.id for c in claims if c.lease is not None and is_idle(c, statuses)]
    return {name: before.get(name, IdleLease(at)) for name in idle}
