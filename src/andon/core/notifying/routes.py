"""Routing of notices: level, rules, devices, owners and quiet hours of each notifier."""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError
from andon.model.alert import Alert, Level, Notice, NoticeKind
from andon.model.device import DeviceStatus
from andon.model.naming import devices_named, label_in, may_mean

Offset = Callable[[float], float]
"""The seconds by which local time is ahead of UTC at a given time (varies with DST)."""

DAY_SECONDS = 86_400
_CLOCK = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")


class QuietHours(Struct, frozen=True):
    """From one minute of the local day to another; across midnight if the end comes first."""

    begin_minute: int
    end_minute: int

    def holds(self, at: float, offset: Offset) -> bool:
        minute = (at + offset(at)) % DAY_SECONDS / 60
        if self.begin_minute < self.end_minute:
            return self.begin_minute <= minute < self.end_minute
        return minute >= self.begin_minute or minute < self.end_minute

    def ends(self, at: float, offset: Offset) -> float:
        """When the quiet hours next end; also correct when DST changes."""
        ahead = offset(at)
        passed = (at + ahead) % DAY_SECONDS
        left = (self.end_minute * 60 - passed) % DAY_SECONDS or DAY_SECONDS
        guess = at + left
        return max(at, guess + ahead - offset(guess))


def parse_quiet(text: str) -> QuietHours | None:
    """`22:00-07:00`; None for an empty text. Raises ValueError."""
    if not text.strip():
        return None
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time range (use 22:00-07:00)")
    begin, end = (_minute(found[n], found[n + 1], text) for n in (1, 3))
    if begin == end:
        raise ValueError(f"{text!r} is an empty time range: it ends when it begins")
    return QuietHours(begin, end)


def _minute(hour: str, minute: str, text: str) -> int:
    hours, minutes = int(hour), int(minute)
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text!r} is not a time of day (use 00:00 to 23:59)")
    return 60 * hours + minutes


class Route(Struct, frozen=True):
    """What one notifier receives; an empty list means everything."""

    name: str
    level: Level = Level.WARNING
    rules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    quiet: QuietHours | None = None
    bypass_quiet_hours: Level | None = Level.CRITICAL
    """From this level up quiet hours are ignored; None: never."""


def concerns(route: Route, alert: Alert) -> bool:
    """Whether this notifier receives this alert; none receives alerts about itself."""
    return (
        alert.level.rank >= max(route.level.rank, Level.WARNING.rank)
        and (not route.rules or alert.rule in route.rules)
        and (not route.devices or any(names_device(name, alert) for name in route.devices))
        and (not route.owners or any(party.user in route.owners for party in alert.affected))
        and alert.subject != f"notifier:{route.name}"
    )


def names_device(name: str, alert: Alert) -> bool:
    """Whether an alert is about a device of this name; a board's name includes its partitions."""
    if alert.device is None:
        return False
    return may_mean(name, alert.subject, label_in(alert.where) or str(alert.device))


def resolved(routes: Iterable[Route], statuses: Sequence[DeviceStatus]) -> tuple[Route, ...]:
    """The routes with UUIDs in place of the names of devices that are here now.

    Other names stay: an alert about a device that was removed still finds its route.
    """
    return tuple(
        replace(route, devices=tuple(u for name in route.devices for u in _uuids(name, statuses)))
        if route.devices
        else route
        for route in routes
    )


def _uuids(name: str, statuses: Sequence[DeviceStatus]) -> Iterable[str]:
    try:
        return sorted(devices_named(name, statuses))
    except AndonError:
        return (name,)


def due(route: Route, notice: Notice, at: float, offset: Offset) -> float | None:
    """When this notifier should send it: now, when quiet hours end, or never."""
    if notice.kind is NoticeKind.TEST:
        return at
    if not concerns(route, notice.alert):
        return None
    return at if _wakes(route, notice) else when_quiet_ends(route, at, offset)


def when_quiet_ends(route: Route, at: float, offset: Offset) -> float:
    """Now, or the end of the current quiet hours."""
    if route.quiet is None or not route.quiet.holds(at, offset):
        return at
    return route.quiet.ends(at, offset)


def _wakes(route: Route, notice: Notice) -> bool:
    """Resolved notices never override quiet hours."""
    if route.bypass_quiet_hours is None or notice.kind is NoticeKind.RESOLVED:
        return False
    return notice.alert.level.rank >= route.bypass_quiet_hours.rank
