"""How much each user has used recently: GPU hours that halve every week."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from andon.errors import Invalid
from andon.model.codec import Time, read_schema
from andon.model.lease import Claim
from andon.model.wire import Json

USAGE = "andon.usage/1"
HALF_LIFE_SECONDS = 7 * 86_400.0
DELAY_SECONDS = 1.0  # in line, each GPU hour counts as having come this much later
LONGEST_DELAY_SECONDS = 60.0  # at most: earlier tickets are seldom overtaken, and only briefly
LONGEST_STEP_SECONDS = 300.0  # between two counts; a longer gap was not watched
LEAST_HOURS = 0.01  # less is forgotten
MOST_HOURS = 1e9
MOST_USERS = 4096
Hours = Annotated[float, Meta(ge=0.0, le=MOST_HOURS)]


class RecentUsage(Struct, frozen=True):
    """GPU hours by uid, decayed to `at`."""

    at: float = 0.0
    hours: Mapping[int, float] = field(default_factory=dict)

    def decayed(self, at: float) -> "RecentUsage":
        """Returns the usage at a later moment; a clock that was set back changes nothing."""
        share = 0.5 ** (max(0.0, at - self.at) / HALF_LIFE_SECONDS)
        left = {uid: hours * share for uid, hours in self.hours.items()}
        return RecentUsage(at, {uid: hours for uid, hours in left.items() if hours >= LEAST_HOURS})

    def delay_seconds(self, uid: int) -> float:
        """Returns how much later a user's first ticket counts as having arrived."""
        return min(LONGEST_DELAY_SECONDS, self.hours.get(uid, 0.0) * DELAY_SECONDS)

    @property
    def longest_delay_seconds(self) -> float:
        """Returns the delay of a ticket whose user has had a turn: no delay brings it before
        anyone who waited then."""
        return LONGEST_DELAY_SECONDS if self.hours else 0.0


NO_USAGE = RecentUsage()


def counted(
    usage: RecentUsage, claims: Iterable[Claim], at: float, passed_seconds: float
) -> RecentUsage:
    """Adds what has been held since the last count, measured on a clock that is never set.

    A device is counted once for each user who holds it, whole or shared; simulated ones are not.
    """
    held: dict[int, set[str]] = {}
    for claim in claims:
        if claim.lease is not None and not claim.lease.simulated:
            held.setdefault(claim.uid, set()).update(share.uuid for share in claim.lease.shares)
    hours = dict(usage.decayed(at).hours)
    step = min(max(0.0, passed_seconds), LONGEST_STEP_SECONDS) / 3600
    for uid, devices in held.items():
        hours[uid] = hours.get(uid, 0.0) + len(devices) * step
    most = sorted(hours.items(), key=lambda pair: -pair[1])[:MOST_USERS]
    return RecentUsage(at, dict(most))


def usage_to_json(usage: RecentUsage) -> Json:
    hours = {str(uid): round(hours, 6) for uid, hours in sorted(usage.hours.items())}
    half_life = HALF_LIFE_SECONDS
    return {"schema": USAGE, "at": usage.at, "half_life_seconds": half_life, "gpu_hours": hours}


class _UsageJson(Struct, frozen=True):
    at: Time
    gpu_hours: Annotated[
        Mapping[Annotated[str, Meta(pattern=r"\A[0-9]{1,10}\Z")], Hours],
        Meta(max_length=MOST_USERS),
    ]


def usage_from_json(value: Json) -> RecentUsage:
    """Parses andon.usage/1; raises Invalid for anything that is incomplete."""
    found = read_schema(_UsageJson, value, USAGE)
    hours = {int(uid): hours for uid, hours in found.gpu_hours.items()}
    if any(uid >= 2**32 for uid in hours):
        raise Invalid(f"not a valid {USAGE}: {max(hours)} is not a uid")
    return RecentUsage(found.at, hours)
