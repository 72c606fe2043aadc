"""Who used how much over a span of time: hours, energy and idle shares per user and day."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct, field

from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Bucket
from andon.model.utilisation import ZERO_READING

UNKNOWN_USER = "–"
HELD_IDLE_SECONDS = 1800.0
"""A shorter pause bothers no one; the alert on idle leases begins here too."""


class Reservation(Struct, frozen=True):
    """A device that was reserved for a run, whether or not a process was on it."""

    device: str
    user: str | None
    first: float
    last: float


class UserUsage(Struct):
    """One user's share. The energy of a shared device is divided among its users."""

    user: str
    device_seconds: float = 0.0
    known_seconds: float = 0.0  # of these, when utilisation is known
    idle_seconds: float = 0.0
    joules: float = 0.0
    powered_seconds: float = 0.0  # of the hours, when power is known
    held_seconds: float = 0.0  # with a process on it or reserved, when utilisation is known
    held_idle_seconds: float = 0.0  # of these, idle for half an hour or longer
    runs: int = 0  # that were recorded and began
    waits: list[float] = field(default_factory=list)  # of these, where it is known

    @property
    def idle_share(self) -> float | None:
        return self.idle_seconds / self.known_seconds if self.known_seconds else None

    @property
    def energy_joules(self) -> float | None:
        """The energy of the time in which power is known; None if it never was."""
        return self.joules if self.powered_seconds else None

    @property
    def held_idle_share(self) -> float | None:
        return self.held_idle_seconds / self.held_seconds if self.held_seconds else None

    @property
    def median_wait_seconds(self) -> float | None:
        return median(self.waits) if self.waits else None

    def add(self, other: "UserUsage") -> None:
        """Adds another part of the same user's time."""
        self.device_seconds += other.device_seconds
        self.known_seconds += other.known_seconds
        self.idle_seconds += other.idle_seconds
        self.joules += other.joules
        self.powered_seconds += other.powered_seconds
        self.held_seconds += other.held_seconds
        self.held_idle_seconds += other.held_idle_seconds
        self.runs += other.runs
        self.waits += other.waits


Days = dict[tuple[str, str], UserUsage]
"""By day and user."""
DayOf = Callable[[float], str]


def by_user(
    uses: Iterable[UsageInterval],
    busy: Mapping[str, Sequence[Bucket]],
    power: Mapping[str, Sequence[Bucket]],
) -> list[UserUsage]:
    """Returns the usage per user, the largest first."""
    return summed(by_day(uses, busy, power, lambda at: "").items())


def summed(days: Iterable[tuple[tuple[str, str], UserUsage]]) -> list[UserUsage]:
    """Returns one total for each user, the largest first."""
    found: dict[str, UserUsage] = {}
    for (_, user), usage in days:
        found.setdefault(user, UserUsage(user)).add(usage)
    return sorted(found.values(), key=lambda usage: (-usage.device_seconds, usage.user))


def by_day(
    uses: Iterable[UsageInterval],
    busy: Mapping[str, Sequence[Bucket]],
    power: Mapping[str, Sequence[Bucket]],
    day_of: DayOf,
    holdings: Iterable[Reservation] = (),
) -> Days:
    """Returns the usage by day and user. `busy` and `power` are a device's utilisation and watts
    in the same buckets; an empty bucket counts neither as idle nor as energy. A bucket belongs
    to the day in which it begins."""
    listed, held = list(uses), list(holdings)
    found: Days = {}
    for device, buckets in busy.items():
        mine = [use for use in listed if use.device == device]
        holders: list[UsageInterval | Reservation] = [*mine]
        holders += [one for one in held if one.device == device]
        watts = power.get(device, ())
        for place, bucket in enumerate(buckets):
            mean = watts[place].mean if place < len(watts) else None
            _count(found, _present(mine, bucket), bucket, mean, day_of(bucket.since))
        _count_held(found, holders, buckets, day_of)
    return found


def add_runs(
    days: Days, runs: Iterable[tuple[float, str | None, float | None]], day_of: DayOf
) -> None:
    """Adds runs to the days. `runs`: when each began, its user, and how long it waited."""
    for at, who, waited in runs:
        usage = _of(days, day_of(at), who or UNKNOWN_USER)
        usage.runs += 1
        usage.waits += [] if waited is None else [waited]


def _of(found: Days, day: str, user: str) -> UserUsage:
    return found.setdefault((day, user), UserUsage(user))


def _present(uses: Sequence[UsageInterval | Reservation], bucket: Bucket) -> dict[str, float]:
    """Returns seconds within the bucket by user; several processes of one user count once."""
    out: dict[str, float] = {}
    for use in uses:
        seconds = min(use.last, bucket.until) - max(use.first, bucket.since)
        if seconds > 0:
            user = use.user or UNKNOWN_USER
            out[user] = max(out.get(user, 0.0), seconds)
    return out


def _count(
    found: Days, present: Mapping[str, float], bucket: Bucket, watts: float | None, day: str
) -> None:
    for user, seconds in present.items():
        usage = _of(found, day, user)
        usage.device_seconds += seconds
        if bucket.count:
            usage.known_seconds += seconds
            usage.idle_seconds += seconds if bucket.max == ZERO_READING else 0.0
        if watts is not None:
            usage.powered_seconds += seconds
            usage.joules += watts * seconds / len(present)


def _count_held(
    found: Days,
    holders: Sequence[UsageInterval | Reservation],
    buckets: Sequence[Bucket],
    day_of: DayOf,
) -> None:
    """Counts idle spells by user; one counts once it is long enough, on the days it was on."""
    spells: dict[str, list[tuple[str, float]]] = {}
    for bucket in buckets:
        present = _present(holders, bucket) if bucket.count else {}
        day, idle = day_of(bucket.since), bucket.max == ZERO_READING
        for user, seconds in present.items():
            _of(found, day, user).held_seconds += seconds
            if idle:
                spells.setdefault(user, []).append((day, seconds))
        for user in [user for user in spells if user not in present or not idle]:
            _end_spell(found, user, spells.pop(user))
    for user, spell in spells.items():
        _end_spell(found, user, spell)


def _end_spell(found: Days, user: str, spell: Sequence[tuple[str, float]]) -> None:
    if sum(seconds for _, seconds in spell) >= HELD_IDLE_SECONDS:
        for day, seconds in spell:
            _of(found, day, user).held_idle_seconds += seconds
