"""How alerts are listed in every view: one order, one count, related ones in one entry."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from andon.explain.conditions.rulebook import BY_NAME
from andon.model.alert import Alert, Level, Phase
from andon.model.lamp import Lamp
from andon.model.naming import label_in
from andon.units import counted, human_seconds

LEVEL_LAMPS = {Level.INFO: Lamp.GREEN, Level.WARNING: Lamp.AMBER, Level.CRITICAL: Lamp.RED}
_LEVELS = {lamp: level for level, lamp in LEVEL_LAMPS.items()}
_PHASES = (Phase.FIRING, Phase.PENDING, Phase.RESOLVED)
SOON_SECONDS = 60.0  # what is further away often passes
_NO_DEVICE = (1 << 30,)  # the node, leases and andon itself come after the devices

Order = tuple[int, int, float, tuple[int, ...], str, str]


class Entry(NamedTuple):
    """One alert as people count it, with the alerts that it explains."""

    alert: Alert
    related: tuple[Alert, ...] = ()

    @property
    def level(self) -> Level:
        """The worst level shown for any of them in the same phase."""
        return max(map(shown_level, self._alike), key=lambda level: level.rank)

    @property
    def lamp(self) -> Lamp:
        """The worst lamp of these alerts in the same phase."""
        return max(map(lamp_of, self._alike), key=lambda lamp: lamp.rank)

    @property
    def severity(self) -> int:
        return max(alert.severity for alert in self._alike)

    @property
    def _alike(self) -> list[Alert]:
        return [self.alert, *(one for one in self.related if one.state is self.alert.state)]


class Counts(NamedTuple):
    """How many entries there are: the first two need attention, each is counted once."""

    critical: int = 0
    warning: int = 0
    info: int = 0
    pending: int = 0  # those of more than information
    clearing: int = 0  # they fire, and no longer hold
    handled: int = 0  # acknowledged or silenced


def lamp_of(alert: Alert) -> Lamp:
    """Returns the lamp of an alert: its level's colour, or a ring before and after it holds."""
    colour = _colour(alert)
    ring = alert.state is Phase.PENDING or is_clearing(alert)
    return Lamp.RING if ring and colour is not Lamp.GREEN else colour


def shown_level(alert: Alert) -> Level:
    """Returns the level that people see: that of its lamp's colour."""
    return _LEVELS[_colour(alert)]


def _colour(alert: Alert) -> Lamp:
    """Returns the lamp colour of the alert's level, unless its rung has its own."""
    rule = BY_NAME.get(alert.rule)
    own = (one.lamp for one in (rule.rungs if rule else ()) if one.level is alert.level)
    return next((lamp for lamp in own if lamp is not None), LEVEL_LAMPS[alert.level])


def is_clearing(alert: Alert) -> bool:
    """Whether the alert fires although its condition no longer holds, so that it will end; never
    for an event."""
    rule = BY_NAME.get(alert.rule)
    waits = alert.state is Phase.FIRING and alert.clears_in_seconds is not None
    return waits and rule is not None and not rule.momentary


def is_handled(alert: Alert) -> bool:
    """Whether a person has acknowledged or silenced the alert: it comes last, and notifies
    nobody."""
    return alert.acknowledged is not None or alert.silenced_until is not None


def handled_text(alert: Alert, at: float) -> str:
    """Returns `acknowledged by ana` or `silenced for 40 min more`."""
    if alert.silenced_until is not None:
        return f"silenced for {human_seconds(max(0.0, alert.silenced_until - at))} more"
    by = "" if alert.acknowledged is None else alert.acknowledged.by
    return f"acknowledged by {by}" if by else "acknowledged"


def needs_attention(alert: Alert) -> bool:
    """Whether a person should act: such alerts count in badges, filters and headlines."""
    return (
        alert.state is Phase.FIRING
        and is_listed(alert)
        and lamp_of(alert) in (Lamp.AMBER, Lamp.RED)
        and not is_handled(alert)
    )


def is_listed(alert: Alert) -> bool:
    """Whether an alert is listed for people: one about a device in use is not."""
    rule = BY_NAME.get(alert.rule)
    return rule is None or rule.listed


def is_soon(alert: Alert) -> bool:
    """Whether it fires within a minute if it lasts, and people should know already."""
    left = alert.fires_in_seconds
    waits = alert.state is Phase.PENDING and alert.level is not Level.INFO and is_listed(alert)
    return waits and left is not None and left <= SOON_SECONDS and not is_handled(alert)


def listed(alerts: Iterable[Alert], everything: bool = False) -> list[Alert]:
    """Returns the listed alerts, in order; with `everything` also those that are not for people."""
    return sorted((a for a in alerts if everything or is_listed(a)), key=order)


def order(alert: Alert) -> Order:
    """Returns a sort key: firing before pending before resolved; handled ones last; then the
    worst first, by device and rule. Of resolved ones the latest comes first."""
    past = alert.resolved if alert.state is Phase.RESOLVED else None
    urgency = float(-alert.severity) if past is None else -past
    later = past is None and (2 * is_handled(alert) or is_clearing(alert))
    return _PHASES.index(alert.state), later, urgency, _number(alert), alert.rule, alert.id


def entries(alerts: Iterable[Alert], everything: bool = False) -> list[Entry]:
    """Returns the listed alerts, each with those it explains, in order; none appears twice."""
    shown = listed(alerts, everything)
    by_id = {alert.id: alert for alert in shown}
    fronts = {alert.id: _front(alert, by_id) for alert in shown}
    related: dict[str, list[Alert]] = {}
    for alert in shown:
        if fronts[alert.id] is not alert:
            related.setdefault(fronts[alert.id].id, []).append(alert)
    found = [
        Entry(alert, tuple(related.get(alert.id, ())))
        for alert in shown
        if fronts[alert.id] is alert
    ]
    return sorted(found, key=lambda one: order(replace(one.alert, severity=one.severity)))


def covered(alerts: Iterable[Alert]) -> list[Alert]:
    """Marks alerts that another alert explains as handled with it."""
    found = list(alerts)
    by_id = {alert.id: alert for alert in found}
    fronts = [(alert, _front(alert, by_id)) for alert in found]
    return [
        replace(alert, acknowledged=front.acknowledged, silenced_until=front.silenced_until)
        if front is not alert and is_handled(front)
        else alert
        for alert, front in fronts
    ]


def counts(found: Iterable[Entry]) -> Counts:
    """Counts entries, the same for every view: alerts that another explains are not counted."""
    tally = dict.fromkeys(Counts._fields, 0)
    for entry in found:
        name = _counted_as(entry)
        if name is not None:
            tally[name] += 1
    return Counts(**tally)


def _counted_as(entry: Entry) -> str | None:
    alert = entry.alert
    if alert.state is Phase.RESOLVED:
        return None
    if entry.level is Level.INFO:
        return "info" if alert.state is Phase.FIRING else None
    if is_handled(alert):
        return "handled"
    if alert.state is Phase.PENDING:
        return "pending"
    return "clearing" if is_clearing(alert) else str(entry.level)


def firing_by_level(found: Iterable[Entry]) -> dict[str, int]:
    """Returns how many entries fire at each level, handled or not; for metrics."""
    tally = dict.fromkeys(map(str, reversed(Level)), 0)
    for entry in found:
        if entry.alert.state is Phase.FIRING:
            tally[str(entry.level)] += 1
    return tally


def worst(alerts: Iterable[Alert]) -> Level | None:
    """Returns the highest level of the entries that are counted by level; None if none is."""
    levels = [one.level for one in entries(alerts) if _counted_as(one) == str(one.level)]
    return max(levels, key=lambda level: level.rank, default=None)


def other_counts(found: Counts) -> list[str]:
    """Returns `1 pending`, `1 clearing`, `1 handled`, `3 informational`: alerts that notify
    nobody."""
    rest = (
        (found.pending, "pending"),
        (found.clearing, "clearing"),
        (found.handled, "handled"),
        (found.info, "informational"),
    )
    return [f"{count} {word}" for count, word in rest if count]


def level_counts(found: Counts) -> list[str]:
    """Returns `2 critical`, `1 warning`; counts of 0 are left out."""
    warnings = counted(found.warning, "warning")
    return [
        *([f"{found.critical} critical"] if found.critical else []),
        *([warnings] if found.warning else []),
    ]


def _front(alert: Alert, by_id: dict[str, Alert]) -> Alert:
    """Returns the alert of its entry: the one that explains it, unless that is only pending."""
    seen = {alert.id: alert}
    while (front := by_id.get(alert.inhibited_by or "")) is not None:
        if _PHASES.index(front.state) > _PHASES.index(alert.state):
            break
        if front.id in seen:  # a circle: the worst of it
            return min(seen.values(), key=order)
        seen[front.id] = alert = front
    return alert


def _number(alert: Alert) -> tuple[int, ...]:
    """Returns the parts of a device's number: 3, or 3 and 0 for its first instance."""
    if alert.device is None:
        return _NO_DEVICE
    label = label_in(alert.where) or str(alert.device)
    parts: Sequence[str] = label.split(":")
    return tuple(map(int, parts)) if all(map(str.isdecimal, parts)) else (alert.device,)
