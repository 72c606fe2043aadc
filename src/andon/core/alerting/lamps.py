"""The board: a lamp and a short label for every device, and one headline for the node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from andon.core.conditions.catalogue import BY_NAME
from andon.core.conditions.judging import OnFault
from andon.core.conditions.sharing.phrases import program
from andon.core.sampling.bands import Band, band
from andon.model.alert import Alert, Level, Party, Phase
from andon.model.device import DeviceStatus, Snapshot, State
from andon.model.lamp import Lamp
from andon.model.naming import device_labels, title
from andon.units import human_seconds


@dataclass(frozen=True, slots=True)
class DeviceLamp:
    """One device on the board."""

    uuid: str
    index: int
    lamp: Lamp
    status: str  # one or two words: "in use", "too hot"
    reason: str | None = None  # a sentence, if it is not fine
    affected_user: str | None = None  # the user whose work is affected
    alerts: tuple[str, ...] = ()  # ids of pending or firing alerts, worst first


@dataclass(frozen=True, slots=True)
class LampBoard:
    """The whole board."""

    at: float
    headline: str
    lamp: Lamp
    devices: tuple[DeviceLamp, ...] = ()
    simulated: bool = False


SILENT = "not responding"
_STATES = {
    State.LOST: (Lamp.RED, "lost"),
    State.STALE: (Lamp.GREY, SILENT),
    State.ASLEEP: (Lamp.GREY, "asleep"),
}
_LAMPS = {Level.INFO: Lamp.GREEN, Level.WARNING: Lamp.AMBER, Level.CRITICAL: Lamp.RED}
_WORDS = {
    Band.IDLE: "idle", Band.LIGHT: "lightly used", Band.MODERATE: "in use", Band.HEAVY: "in use",
}  # fmt: skip


def board(snapshot: Snapshot, alerts: Iterable[Alert]) -> LampBoard:
    """The lamps of a snapshot, given the alerts that are pending or firing now."""
    mine: dict[str, list[Alert]] = {}
    for alert in sorted(alerts, key=_urgency):
        if alert.state is not Phase.RESOLVED:
            mine.setdefault(alert.subject, []).append(alert)
    numbers = device_labels(snapshot.devices)
    devices = tuple(_lit(status, mine.get(status.device.uuid, [])) for status in snapshot.devices)
    known = {status.device.uuid for status in snapshot.devices}
    others = [a for subject, on in mine.items() if subject not in known for a in on if _counts(a)]
    lamp = _overall(devices, others)
    headline = _headline(snapshot, devices, mine, others, numbers)
    return LampBoard(snapshot.at, headline, lamp, devices, snapshot.simulated)


def _lit(status: DeviceStatus, alerts: list[Alert]) -> DeviceLamp:
    worst = next((alert for alert in alerts if _counts(alert)), None)
    lamp, word = _STATES.get(status.state, (Lamp.GREEN, _working(status)))
    reason = status.reason if status.state is not State.OK else None
    user = None
    if worst is not None and lamp_of(worst).rank >= lamp.rank:
        lamp, word = lamp_of(worst), BY_NAME[worst.rule].label
        reason = worst.message
        user = next((party.user for party in worst.affected if party.user), None)
    device = status.device
    ids = tuple(alert.id for alert in alerts)
    return DeviceLamp(device.uuid, device.index, lamp, word, reason, user, ids)


def _working(status: DeviceStatus) -> str:
    busy = status.sample.utilization_percent if status.sample else None
    found = band(busy)
    return "fine" if found is None else _WORDS[found]


def _overall(devices: tuple[DeviceLamp, ...], others: list[Alert]) -> Lamp:
    """The worst lamp; sleeping cards do not count unless all of them sleep."""
    lamps = [lamp.lamp for lamp in devices] + [lamp_of(alert) for alert in others]
    awake = [lamp.lamp for lamp in devices if lamp.status != "asleep"]
    if not lamps or (not awake and not others):
        return Lamp.GREY
    counted = awake + [lamp_of(alert) for alert in others]
    return max(counted, key=lambda lamp: lamp.rank)


def _headline(
    snapshot: Snapshot,
    devices: tuple[DeviceLamp, ...],
    mine: Mapping[str, list[Alert]],
    others: list[Alert],
    numbers: Mapping[str, str],
) -> str:
    unread = _unread(snapshot, others)
    troubled = [d for d in devices if d.lamp in (Lamp.RED, Lamp.AMBER) and d.uuid not in unread]
    if troubled:
        first = max(troubled, key=lambda lamp: lamp.lamp.rank)
        text = _of_device(snapshot, first, mine.get(first.uuid, []), numbers[first.uuid])
        more = len(troubled) - 1
        return text if not more else f"{text}; {more} more {_need(more)} attention"
    if others:
        return others[0].message
    return _calm_headline(devices, numbers)


def _unread(snapshot: Snapshot, others: list[Alert]) -> frozenset[str]:
    """The devices whose whole driver cannot be read: its alert speaks for all of them."""
    drivers = {a.subject for a in others if isinstance(BY_NAME[a.rule].judged, OnFault)}
    lost = (s.device for s in snapshot.devices if drivers and s.state is State.LOST)
    return frozenset(d.uuid for d in lost if f"reader:{d.vendor}" in drivers)


def _calm_headline(devices: tuple[DeviceLamp, ...], numbers: Mapping[str, str]) -> str:
    count = len(devices)
    if not devices:
        return "No GPU found on this node"
    silent = [d for d in devices if d.status == SILENT]
    asleep = [d for d in devices if d.status == "asleep"]
    if silent:
        named = ", ".join(numbers[d.uuid] for d in silent)
        return f"{title(named)} {'is' if len(silent) == 1 else 'are'} not responding"
    if len(asleep) == count:
        return f"{_all(count)} asleep"
    fine = f"{_all(count)} fine"
    verb = "is" if len(asleep) == 1 else "are"
    return fine if not asleep else f"{fine}; {len(asleep)} {verb} asleep"


def _all(count: int) -> str:
    if count == 1:
        return "The GPU is"
    return "Both GPUs are" if count == 2 else f"All {count} GPUs are"


def _of_device(snapshot: Snapshot, lamp: DeviceLamp, alerts: list[Alert], number: str) -> str:
    worst = next((alert for alert in alerts if _counts(alert)), None)
    rule = "device_lost" if worst is None else worst.rule
    text = f"{title(number)} {BY_NAME[rule].headline or 'needs attention'}"
    status = next(s for s in snapshot.devices if s.device.uuid == lamp.uuid)
    whom = "" if worst is None else _whose(snapshot, status, worst.affected)
    return f"{text}: {whom}" if whom else text


def _whose(snapshot: Snapshot, status: DeviceStatus, who: tuple[Party, ...]) -> str:
    """`alice's train.py, 71 min at 98 %`; empty if no process is known."""
    if not who:
        return ""
    first = who[0]
    name = program(first)
    text = f"{first.user}'s {name}" if first.user else name
    busy = status.sample.utilization_percent if status.answered and status.sample else None
    lasted = None if first.started is None else snapshot.at - first.started
    if lasted is not None and lasted >= 0:
        text = f"{text}, {human_seconds(lasted)}"
        return text if busy is None else f"{text} at {busy} %"
    return text if busy is None else f"{text}, {busy} %"


def _need(count: int) -> str:
    return "needs" if count == 1 else "need"


def lamp_of(alert: Alert) -> Lamp:
    """The lamp that an alert lights: that of its level, unless the rung has one of its own."""
    own = (one.lamp for one in BY_NAME[alert.rule].rungs if one.level is alert.level)
    return next((lamp for lamp in own if lamp is not None), _LAMPS[alert.level])


def _counts(alert: Alert) -> bool:
    return alert.state is Phase.FIRING and lamp_of(alert) is not Lamp.GREEN


def _urgency(alert: Alert) -> tuple[bool, int, float, str]:
    """Firing before pending, then by severity: heat before idleness."""
    return alert.state is not Phase.FIRING, -alert.severity, alert.since, alert.id
