"""Usage over a time span: hours, energy and idle shares per user and day."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct, field

from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import LONGEST_SPAN_SECONDS, USED, Bucket, BucketSource
from andon.history.rules.tiers import DAY_SECONDS
from andon.model.utilisation import ZERO_READING

UNKNOWN_USER = "–"
HELD_IDLE_SECONDS = 1800.0
"""A shorter pause bothers no one; the alert on idle leases begins here too."""
WIDTHS = ((13.0, 120.0), (69.0, 600.0), (math.inf, 7200.0))
"""For up to so many days, the seconds of a bucket: at most 10,000 of them, and never a part of a
row that is kept that long. Who was on a device in the same bucket shares its energy by time."""


class Holding(Struct, frozen=True):
    """A device that a run held, whether or not a process was on it."""

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
    held_seconds: float = 0.0  # with a process on it or held, when utilisation is known
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
        """Adds another part of the same user's usage."""
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


def summed(days: Iterable[tuple[tuple[str, str], UserUsage]]) -> list[UserUsage]:
    """Returns one total for each user, the largest first."""
    found: dict[str, UserUsage] = {}
    for (_, user), usage in days:
        found.setdefault(user, UserUsage(user)).add(usage)
    return sorted(found.values(), key=lambda usage: (-usage.device_seconds, usage.user))


def renamed(days: Days, name_of: Callable[[str], str]) -> Days:
    """Returns the usage under other names, such as those of groups; of one name together."""
    found: Days = {}
    for (day, user), usage in days.items():
        name = name_of(user)
        found.setdefault((day, name), UserUsage(name)).add(usage)
    return found


class DeviceReadings(Struct, frozen=True):
    """A device's series in the same buckets, all of equal width."""

    busy: Sequence[Bucket]
    power: Sequence[Bucket] = ()
    used: Sequence[Sequence[Bucket]] = ()
    """Energy, known and idle seconds, as the ledger has them; they may go on for longer."""


class UsePeriod(Struct, frozen=True):
    """A range of whole buckets."""

    since: float
    width: float
    count: int

    @classmethod
    def of(cls, since: float, until: float) -> "UsePeriod":
        width = next(width for most, width in WIDTHS if until - since <= most * DAY_SECONDS)
        begin = width * math.floor(since / width)
        return cls(begin, width, max(1, math.ceil((until - begin) / width)))

    def beginning_with(self, uses: Iterable["UsageInterval | Holding"]) -> "UsePeriod":
        """Returns the period from the first use on."""
        until = self.since + self.width * self.count
        first = min((one.first for one in uses), default=until)
        return UsePeriod.of(min(until, first), until) if first > self.since else self

    def read(self, past: BucketSource, device: str) -> DeviceReadings:
        def series(metric: str, more: int = 0) -> Sequence[Bucket]:
            points = self.count + more
            return past.history(
                device, metric, self.since, self.since + self.width * points, points
            )

        later = math.ceil(LONGEST_SPAN_SECONDS / self.width)
        used = [series(metric, later) for metric in USED]
        return DeviceReadings(series("utilization_percent"), series("power_watts"), used)


def by_day(
    uses: Iterable[UsageInterval],
    readings: Mapping[str, DeviceReadings],
    day_of: DayOf,
    holdings: Iterable[Holding] = (),
) -> Days:
    """Returns the usage by day and user. Energy is the ledger's; where that has none, as for the
    last minute, the mean of the readings counts. Unknown time is neither idle nor has energy. A
    bucket belongs to the day in which it begins."""
    listed, held = list(uses), list(holdings)
    found: Days = {}
    for device, read in readings.items():
        mine: list[UsageInterval | Holding] = [use for use in listed if use.device == device]
        holders = [*mine, *(one for one in held if one.device == device)]
        covered, in_use = _covered(read), _present(mine, read.busy, together=True)
        for place, present in _present(mine, read.busy).items():
            seconds = in_use[place][""]
            if place in covered:
                sums = (one[place] for one in read.used)
                used = [None if one.mean is None else one.mean * one.count for one in sums]
            else:
                used = _estimated(read, place, seconds)
            _count(found, day_of(read.busy[place].since), present, seconds, used)
        _count_held(found, _present(holders, read.busy), read.busy, day_of)
    return found


def add_runs(
    days: Days, runs: Iterable[tuple[float, str | None, float | None]], day_of: DayOf
) -> None:
    """Adds runs to the days. `runs` has the begin, user and waiting time of each."""
    for at, who, waited in runs:
        usage = _of(days, day_of(at), who or UNKNOWN_USER)
        usage.runs += 1
        usage.waits += [] if waited is None else [waited]


def _of(found: Days, day: str, user: str) -> UserUsage:
    return found.setdefault((day, user), UserUsage(user))


def _covered(read: DeviceReadings) -> set[int]:
    """Returns the buckets whose use is in the ledger: those with a point, and shortly before."""
    found = set[int]()
    for place, bucket in (pair for one in read.used for pair in enumerate(one) if pair[1].count):
        before = math.ceil(LONGEST_SPAN_SECONDS / (bucket.until - bucket.since))
        found.update(range(place - before, place + 1))
    return found


def _estimated(read: DeviceReadings, place: int, seconds: float) -> list[float | None]:
    """Returns energy, known and idle seconds of a bucket, estimated from its readings."""
    busy, watts = read.busy[place], read.power[place].mean if read.power else None
    joules = None if watts is None else watts * seconds
    return [joules, seconds if busy.count else None, seconds * (busy.max == ZERO_READING)]


def _present(
    uses: Sequence[UsageInterval | Holding], buckets: Sequence[Bucket], together: bool = False
) -> dict[int, dict[str, float]]:
    """Returns seconds by bucket and user; several processes of one user count once, and those of
    all users if they count `together`."""
    found: dict[int, dict[str, float]] = {}
    ends: dict[str, float] = {}
    if not buckets:
        return found
    origin, width = buckets[0].since, buckets[0].until - buckets[0].since
    for use in sorted(uses, key=lambda one: one.first):
        user = "" if together else use.user or UNKNOWN_USER
        first, last = max(use.first, ends.get(user, origin)), min(use.last, buckets[-1].until)
        ends[user] = max(ends.get(user, origin), use.last)
        for place in range(int((first - origin) // width), int((last - origin) // width) + 1):
            begin = origin + width * place
            seconds = min(last, begin + width) - max(first, begin)
            if seconds > 0:
                row = found.setdefault(place, {})
                row[user] = row.get(user, 0.0) + seconds
    return found


def _count(
    found: Days,
    day: str,
    present: Mapping[str, float],
    in_use: float,
    used: Sequence[float | None],
) -> None:
    """Counts a bucket in which the device was in use for so many seconds. Time counts for each
    user, and energy is divided among them."""
    joules, known, idle = used
    whole = sum(present.values())
    for user, seconds in present.items():
        usage = _of(found, day, user)
        usage.device_seconds += seconds
        usage.known_seconds += (known or 0.0) * seconds / in_use
        usage.idle_seconds += (idle or 0.0) * seconds / in_use
        if joules is not None:
            usage.powered_seconds += seconds
            usage.joules += joules * seconds / whole


def _count_held(
    found: Days,
    present: Mapping[int, Mapping[str, float]],
    buckets: Sequence[Bucket],
    day_of: DayOf,
) -> None:
    """Counts idle spells by user: one that is long enough counts, on the days that it covers."""
    spells: dict[str, list[tuple[str, float]]] = {}
    for place, bucket in enumerate(buckets):
        users = present.get(place, {}) if bucket.count else {}
        idle = bucket.max == ZERO_READING
        for user, seconds in users.items():
            day = day_of(bucket.since)
            _of(found, day, user).held_seconds += seconds
            if idle:
                spells.setdefault(user, []).append((day, seconds))
        for user in [user for user in spells if user not in users or not idle]:
            _end_spell(found, user, spells.pop(user))
    for user, spell in spells.items():
        _end_spell(found, user, spell)


def _end_spell(found: Days, user: str, spell: Sequence[tuple[str, float]]) -> None:
    if sum(seconds for _, seconds in spell) >= HELD_IDLE_SECONDS:
        for day, seconds in spell:
            _of(found, day, user).held_idle_seconds += seconds
