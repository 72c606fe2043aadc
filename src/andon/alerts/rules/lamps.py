"""The lamp of every device and its word, decided here for every view."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from andon.alerts.rules.listing import (
    covered,
    handled_text,
    is_clearing,
    is_handled,
    is_listed,
    is_soon,
    lamp_of,
    needs_attention,
    order,
)
from andon.explain.conditions.rulebook import BY_NAME, DEFAULTS, may_be_present
from andon.explain.evidence.blame import Blame, blamed, listed_users, owned
from andon.model.alert import Alert, Phase
from andon.model.device import DeviceStatus, Snapshot, State
from andon.model.event import Party
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.naming import device_labels, title
from andon.units import counted, fitting, human_seconds

if TYPE_CHECKING:
    from andon.explain.conditions.condition import Condition
    from andon.explain.conditions.finding import Finding, Rungs
    from andon.explain.evidence.view import View


class LampBoard(Struct, frozen=True):
    """The lamps and the headline."""

    at: float
    headline: str
    lamp: Lamp
    devices: tuple[DeviceLamp, ...] = ()
    simulated: bool = False
    headline_alert: str | None = None  # the id of the alert that the headline is about

    def of(self, uuid: str) -> DeviceLamp | None:
        return next((one for one in self.devices if one.uuid == uuid), None)


_STATES = {
    State.LOST: Lamp.RED, State.STALE: Lamp.GREY, State.ASLEEP: Lamp.GREY, State.UNKNOWN: Lamp.GREY,
}  # fmt: skip


def board(snapshot: Snapshot, alerts: Iterable[Alert]) -> LampBoard:
    """Returns the lamps of a snapshot, given the alerts that are pending or firing now."""
    mine, numbers = _by_subject(alerts), device_labels(snapshot.devices)
    devices = _lamps(snapshot, mine, numbers)
    with_lamps = {one.uuid for one in devices}
    others = [
        a for subject, on in mine.items() if subject not in with_lamps for a in on if _fires(a)
    ]
    headline = _headline(snapshot, devices, mine, others, numbers)
    lamp = _overall(devices, others)
    return LampBoard(snapshot.at, headline.text, lamp, devices, snapshot.simulated, headline.alert)


def lamps_of(snapshot: Snapshot, alerts: Iterable[Alert]) -> tuple[DeviceLamp, ...]:
    """Returns the lamps without the headline, for which the alerts of the node matter too."""
    return _lamps(snapshot, _by_subject(alerts), device_labels(snapshot.devices))


def _lamps(
    snapshot: Snapshot, mine: Mapping[str, list[Alert]], numbers: Mapping[str, str]
) -> tuple[DeviceLamp, ...]:
    uuids = [(status, status.device.uuid) for status in snapshot.devices]
    return tuple(
        _device_lamp(snapshot, status, mine.get(uuid, []), numbers[uuid]) for status, uuid in uuids
    )


def _by_subject(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    """Groups alerts that are not over by subject, the worst first."""
    mine: dict[str, list[Alert]] = {}
    for alert in sorted(covered(alerts), key=order):
        if alert.state is not Phase.RESOLVED:
            mine.setdefault(alert.subject, []).append(alert)
    return mine


def lights(alert: Alert) -> bool:
    """Whether an alert lights a lamp: it fires, or will within a minute if it lasts, and is more
    than information."""
    return is_soon(alert) or _fires(alert)


def _fires(alert: Alert) -> bool:
    return alert.state is Phase.FIRING and lamp_of(alert) is not Lamp.GREEN


class _Light(Struct, frozen=True):
    """A cause for which a device's lamp is lit."""

    lamp: Lamp
    rule: "Condition"
    severity: int
    reason: str
    word: str
    advice: str
    affected: tuple[Party, ...] = ()
    handled: bool = False


def _device_lamp(
    snapshot: Snapshot, status: DeviceStatus, alerts: list[Alert], number: str
) -> DeviceLamp:
    """The lamp for the state of a device, unless something else about it is as bad or worse."""
    device, found = status.device, _worst(snapshot, status, alerts, number)
    lamp = _STATES.get(status.state, Lamp.GREEN)
    word = status.state.text if lamp is not Lamp.GREEN else _working(status)
    reason = status.reason if status.state is not State.OK else None
    ids = tuple(alert.id for alert in alerts if is_listed(alert))
    if found is None or found.lamp.rank < lamp.rank:
        return DeviceLamp(device.uuid, device.index, lamp, word, reason, None, ids)
    users = _affected_users(status, found.affected)
    return DeviceLamp(
        device.uuid, device.index, found.lamp, found.word, found.reason, users, ids,
        found.severity, found.rule.name, found.handled, found.advice,
    )  # fmt: skip


def _worst(
    snapshot: Snapshot, status: DeviceStatus, alerts: list[Alert], number: str
) -> _Light | None:
    """Returns the worst cause for a lamp; handled ones count only if all are handled."""
    found = [_of_alert(alert) for alert in alerts if lights(alert)]
    lit_rules = {one.rule.name for one in found}
    found += [one for one in _present(snapshot, status, number) if one.rule.name not in lit_rules]
    return max(found, key=_urgency, default=None)


def _urgency(one: _Light) -> tuple[bool, int, int]:
    calls = one.lamp is not Lamp.RING and not one.handled
    return calls, one.lamp.rank, one.severity


def _of_alert(alert: Alert) -> _Light:
    rule, lamp = BY_NAME[alert.rule], lamp_of(alert)
    word = rule.label
    if lamp is Lamp.RING:
        word = (rule.rising or word) if alert.state is Phase.PENDING else f"was {word}"
    return _Light(
        lamp, rule, alert.severity, alert.message, word, alert.advice, alert.affected,
        is_handled(alert),
    )  # fmt: skip


def _present(snapshot: Snapshot, status: DeviceStatus, number: str) -> Iterable[_Light]:
    """Yields what the current reading shows, whatever the state of the alert about it."""
    for rule in may_be_present(status):
        from andon.explain.conditions.judging import found_on
        from andon.explain.evidence.track import Track
        from andon.explain.evidence.view import View

        view = View(snapshot, status, DEFAULTS, Track(0.0), None)
        finding = found_on(rule.judged, view, DEFAULTS)
        if finding is not None and finding.holds:
            yield _light(rule, finding, view, number)


def _light(rule: "Condition", finding: "Finding", view: "View", number: str) -> _Light:
    from andon.explain.conditions.condition import described, severity
    from andon.explain.conditions.description import ConditionFacts
    from andon.explain.conditions.finding import CALM

    pairs = zip(rule.rungs, finding.rungs, strict=True)
    rung = next(rung for rung, state in pairs if state is not CALM)
    description = described(rule, ConditionFacts(title(number), finding, view, number))
    text, advice = (
        (rule.title, "") if description is None else (description.text.text, description.advice)
    )
    lamp = Lamp.AMBER if rung.lamp is None else rung.lamp
    weight = severity(rung.level, rule)
    return _Light(lamp, rule, weight, text, rule.label, advice or rule.advice)


def _working(status: DeviceStatus) -> str:
    """Returns how busy it is, in one word; "fine" if that is unknown."""
    return "fine" if status.band is None else str(status.band)


def _overall(devices: tuple[DeviceLamp, ...], others: list[Alert]) -> Lamp:
    """Returns the worst lamp; handled alerts do not count, and sleeping cards only if all sleep."""
    awake = [d for d in devices if d.status != State.ASLEEP.text]
    counted = [Lamp.RING if d.handled else d.lamp for d in awake]
    counted += [Lamp.RING if is_handled(alert) else lamp_of(alert) for alert in others]
    return max(counted, key=lambda lamp: lamp.rank, default=Lamp.GREY)


# The headline.


class _Headline(Struct, frozen=True):
    """The headline, and the id of the alert that it is about."""

    text: str
    alert: str | None = None


def _headline(
    snapshot: Snapshot,
    devices: tuple[DeviceLamp, ...],
    mine: Mapping[str, list[Alert]],
    others: list[Alert],
    numbers: Mapping[str, str],
) -> _Headline:
    """Returns one headline: what needs a person, what may, what is handled, or that all is fine."""
    unread = _unread(snapshot, others)
    troubled = [d for d in devices if d.is_troubled and d.uuid not in unread]
    if troubled:
        first = max(troubled, key=lambda one: one.urgency)
        worst = _cause_of(first, mine)
        text = _of_device(snapshot, first, worst, numbers[first.uuid])
        more = len(troubled) - 1
        if more:
            text += f"; {more} more {fitting(more, 'needs', 'need')} attention"
        return _Headline(text, None if worst is None else worst.id)
    calling = [alert for alert in others if needs_attention(alert)]
    if calling:
        return _Headline(calling[0].message, calling[0].id)
    if (silent := _silent_headline(devices, numbers)) is not None:
        return _Headline(silent)
    rings = [d for d in devices if d.lamp is Lamp.RING and not d.handled]
    on_rings = [alert for d in rings if (alert := _cause_of(d, mine)) is not None]
    clearing = [alert for alert in others if not is_handled(alert)]
    if on_rings or clearing:
        return _of_ring(min([*on_rings, *clearing], key=order), numbers)
    handled = [alert for d in devices if d.handled and (alert := _cause_of(d, mine)) is not None]
    if handled or others:
        return _of_handled(snapshot, devices, [*handled, *others], numbers)
    return _Headline(_calm_headline(devices))


def _cause_of(lamp: DeviceLamp, mine: Mapping[str, list[Alert]]) -> Alert | None:
    alerts = mine.get(lamp.uuid, [])
    return next((a for a in alerts if a.rule == lamp.rule and lights(a)), None)


def _unread(snapshot: Snapshot, others: list[Alert]) -> frozenset[str]:
    """Returns the devices whose whole driver cannot be read: the driver's alert covers them."""
    from andon.explain.conditions.judging import OnFault

    drivers = {a.subject for a in others if isinstance(BY_NAME[a.rule].judged, OnFault)}
    lost = (s.device for s in snapshot.devices if drivers and s.state is State.LOST)
    return frozenset(d.uuid for d in lost if f"reader:{d.vendor}" in drivers)


def _of_ring(alert: Alert, numbers: Mapping[str, str]) -> _Headline:
    """Returns `GPU 2 is getting too hot: 91 °C (alert in 16 s)`, or a clearing alert's message."""
    if alert.state is not Phase.PENDING:
        return _Headline(alert.message, alert.id)
    rule = BY_NAME[alert.rule]
    what = f"is {rule.rising}" if rule.rising else rule.headline or "needs attention"
    value = _value(alert)
    left = human_seconds(alert.fires_in_seconds or 0)
    text = f"{title(numbers[alert.subject])} {what}{f': {value}' if value else ''}"
    return _Headline(f"{text} (alert in {left})", alert.id)


def _of_handled(
    snapshot: Snapshot,
    devices: tuple[DeviceLamp, ...],
    alerts: list[Alert],
    numbers: Mapping[str, str],
) -> _Headline:
    """Returns `7 of 8 GPUs are fine; GPU 2 is too hot (silenced for 40 min more)`."""
    fine, first = sum(not d.handled for d in devices), alerts[0]
    start = f"{fine} of {len(devices)} GPUs {fitting(fine, 'is', 'are')} fine; " if fine else ""
    if fine == len(devices):
        start = f"{_calm_headline(devices)}; "
    rule = BY_NAME[first.rule]
    known = first.subject in numbers and rule.headline and not is_clearing(first)
    what = f"{title(numbers[first.subject])} {rule.headline}" if known else first.message
    more = len(alerts) - 1
    tail = f"; {more} more {fitting(more, 'is', 'are')} handled" if more else ""
    text = f"{what} ({handled_text(first, snapshot.at)}){tail}"
    return _Headline(start + text, first.id)


def _silent_headline(devices: tuple[DeviceLamp, ...], numbers: Mapping[str, str]) -> str | None:
    unknown = [d for d in devices if d.status == State.UNKNOWN.text]
    if unknown:
        return f"{counted(len(unknown), 'GPU')}: {unknown[0].reason}"
    silent = [d for d in devices if d.status == State.STALE.text and d.lamp is Lamp.GREY]
    if not silent:
        return None
    named = ", ".join(numbers[d.uuid] for d in silent)
    return f"{title(named)} {fitting(len(silent), 'is', 'are')} not responding"


def _calm_headline(devices: tuple[DeviceLamp, ...]) -> str:
    count = len(devices)
    if not devices:
        return "No GPU found on this node"
    asleep = [d for d in devices if d.status == State.ASLEEP.text]
    if len(asleep) == count:
        return f"{_all(count)} asleep"
    fine = f"{_all(count)} fine"
    are = fitting(len(asleep), "is", "are")
    return f"{fine}; {len(asleep)} {are} asleep" if asleep else fine


def _all(count: int) -> str:
    if count == 1:
        return "The GPU is"
    return "Both GPUs are" if count == 2 else f"All {count} GPUs are"


def _of_device(snapshot: Snapshot, lamp: DeviceLamp, worst: Alert | None, number: str) -> str:
    rule = BY_NAME[lamp.rule or "device_lost"]
    text = f"{title(number)} {rule.headline or 'needs attention'}"
    status = next(s for s in snapshot.devices if s.device.uuid == lamp.uuid)
    if not status.answered:
        since = status.since if worst is None else worst.since
        return f"{text}{_what_happened(status, snapshot.at - since)}{_on_it(lamp, status)}"
    if worst is None:
        return text
    lasted = snapshot.at - worst.since
    facts = [_value(worst), f"for {human_seconds(lasted)}" if lasted >= 1 else ""]
    known = ", ".join(filter(None, facts))
    whom = _whose(status, worst.affected)
    return f"{text}{f' ({known})' if known else ''}{f' · {whom}' if whom else ''}"


def _value(alert: Alert) -> str:
    """Returns the alert's reading, if it shows how bad it is."""
    return f"{alert.value:.0f} °C" if alert.unit == "celsius" and alert.value is not None else ""


def _what_happened(status: DeviceStatus, lasted: float) -> str:
    """Returns `: it has fallen off the bus, 26 min ago`, without the time if the reason states
    it."""
    ago = human_seconds(lasted)
    if status.reason is None:
        return "" if lasted < 1 else f" for {ago}"
    has_time = status.state in (State.STALE, State.UNKNOWN) or lasted < 1
    return f": {status.reason}" if has_time else f": {status.reason}, {ago} ago"


def _on_it(lamp: DeviceLamp, status: DeviceStatus) -> str:
    """Returns who was on the device; programs and times would suggest that they caused it."""
    users = listed_users(status.last_users) or lamp.affected_user
    return f". On it: {users}" if users else ""


def _whose(status: DeviceStatus, who: tuple[Party, ...]) -> str:
    """Returns `alice's train.py`, `7 processes of dora and bob`; empty if no process is known."""
    if not who:
        return ""
    found = _blamed(status, who)
    return found.text if found is not None and found.one is None else owned(who[0])


def _blamed(status: DeviceStatus, who: tuple[Party, ...]) -> Blame | None:
    """Returns whom an alert blames; None if it is not about the processes on the device now."""
    running = {(p.pid, p.started) for p in status.processes} if status.answered else set()
    if any((party.pid, party.started) not in running for party in who):
        return None
    return blamed(status.processes)


def _affected_users(status: DeviceStatus, who: tuple[Party, ...]) -> str | None:
    found = _blamed(status, who) if who else None
    users = found.users if found is not None else tuple(p.user for p in who if p.user)
    # One user's process may be affected by another's: then only the first user is named.
    if found is None and status.answered:
        users = users[:1]
    return listed_users(tuple(dict.fromkeys(users))) or None


def as_firing(alert: Alert, rule: "Condition", rungs: "Rungs", since: float | None) -> Alert:
    """Returns an alert that holds now as firing; `since` is when its device's state began."""
    from andon.explain.conditions.condition import severity
    from andon.explain.conditions.finding import HOLDS
    from andon.explain.conditions.judging import OnState

    wall = alert.since
    alert = replace(alert, state=Phase.FIRING, fires_in_seconds=None)
    if not isinstance(rule.judged, OnState) or since is None:
        return alert
    # It is known how long a device has been in its state: the level is that of a server's alert.
    reached = [
        rung.level
        for rung, now in zip(rule.rungs, rungs, strict=True)
        if now is HOLDS and wall - since >= rung.for_seconds
    ]
    level = max([alert.level, *reached], key=lambda level: level.rank)
    return replace(alert, level=level, severity=severity(level, rule), since=since)
