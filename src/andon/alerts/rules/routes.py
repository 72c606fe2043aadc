"""Routing of notices: level, rules, devices, owners and quiet hours of each notifier."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError
from andon.model.alert import RESERVED_BY, Alert, Level, Notice, NoticeKind
from andon.model.device import DeviceStatus
from andon.model.naming import devices_named, label_in, may_mean
from andon.settings.moments import Offset, QuietHours


class Route(Struct, frozen=True):
    """What one notifier receives; an empty list means everything."""

    name: str
    level: Level = Level.WARNING
    rules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    informs: tuple[str, ...] = ()
    """Users who are also sent what is only information about something of theirs."""
    quiet: QuietHours | None = None
    bypass_quiet_hours: Level | None = Level.CRITICAL
    """From this level up quiet hours are ignored; None: never."""


def concerns(route: Route, alert: Alert) -> bool:
    """Whether this notifier receives this alert; none receives alerts about itself."""
    information = alert.level is Level.INFO
    people = route.informs if information else route.owners
    return (
        (bool(people) if information else alert.level.rank >= route.level.rank)
        and (not route.rules or alert.rule in route.rules)
        and (not route.devices or any(names_device(name, alert) for name in route.devices))
        and (not people or any(user in people for user in _concerned(alert)))
        and alert.subject != f"notifier:{route.name}"
    )


def _concerned(alert: Alert) -> Iterator[object]:
    """Yields the users of an alert: those of its processes, and who has reserved its devices."""
    yield from (party.user for party in alert.affected)
    yield alert.evidence.get(RESERVED_BY)


def names_device(name: str, alert: Alert) -> bool:
    """Whether an alert is about a device of this name; a board's name includes its partitions."""
    if alert.device is None:
        return False
    return may_mean(name, alert.subject, label_in(alert.where) or str(alert.device))


def resolved(routes: Iterable[Route], statuses: Sequence[DeviceStatus]) -> tuple[Route, ...]:
    """Returns the routes, with UUIDs in place of the names of present devices.

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
    """Returns when this notifier should send it: now, when quiet hours end, or never."""
    if notice.kind is NoticeKind.TEST:
        return at
    if not concerns(route, notice.alert):
        return None
    return when_awake(route, notice, at, offset)


def when_awake(route: Route, notice: Notice, at: float, offset: Offset) -> float:
    """Returns now, or the end of the current quiet hours for a notice that they hold back."""
    if route.quiet is None or not route.quiet.holds(at, offset) or _wakes(route, notice):
        return at
    return route.quiet.ends(at, offset)


def _wakes(route: Route, notice: Notice) -> bool:
    """Whether a notice overrides quiet hours; resolved ones never do."""
    if route.bypass_quiet_hours is None or notice.kind is NoticeKind.RESOLVED:
        return False
    return notice.alert.level.rank >= route.bypass_quiet_hours.rank
