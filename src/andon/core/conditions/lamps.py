"""The board: a lamp and a short label for every device, and one headline for the node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from andon.core.conditions.lease_texts import program
from andon.core.sampling.bands import Band, band
from andon.model.alert import Alert, Level, Party, Phase
from andon.model.device import DeviceStatus, Snapshot, State
from andon.model.naming import device_labels, title
from andon.units import human_seconds


class Lamp(StrEnum):
    """The colour of a lamp, as seen from across the room."""

    GREEN = "green"  # fine
    AMBER = "amber"  # needs attention
    RED = "red"  # needs help now
    GREY = "grey"  # unknown

    @property
    def rank(self) -> int:
        """Greater is more urgent."""
        return ("green", "grey", "amber", "red").index(self.value)


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
PHRASES: Mapping[str, tuple[str, str]] = {
    "thermal": ("too hot", "is too hot"),
    "throttle_thermal": ("too hot", "is thermally throttled"),
    "throttle_power": ("power limited", "is slowed by its power limit"),
    "throttle_hardware": ("throttled", "is throttled by the hardware"),
    "device_lost": ("lost", "is lost"),
    "driver_hung": (SILENT, "is not responding"),
    "ecc": ("memory errors", "has memory errors"),
    "xid": ("error", "reports an error"),
    "fan": ("fan stopped", "has a stopped fan"),
    "unattributed_memory": ("memory held", "has memory held by no visible process"),
    "memory_leak": ("filling up", "is running out of memory"),
    "idle": ("held but idle", "is held but idle"),
    "squatter": ("unleased use", "is used outside its lease"),
    "leftover_memory": ("memory held", "has memory left by an ended lease"),
}
"""The label under a lamp, and how a headline continues after `GPU 3`."""
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
    if worst is not None and _LAMPS[worst.level].rank >= lamp.rank:
        lamp, word = _LAMPS[worst.level], PHRASES.get(worst.rule, (worst.rule, ""))[0]
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
    lamps = [lamp.lamp for lamp in devices] + [_LAMPS[alert.level] for alert in others]
    awake = [lamp.lamp for lamp in devices if lamp.status != "asleep"]
    if not lamps or (not awake and not others):
        return Lamp.GREY
    counted = awake + [_LAMPS[alert.level] for alert in others]
    return max(counted, key=lambda lamp: lamp.rank)


def _headline(
    snapshot: Snapshot,
    devices: tuple[DeviceLamp, ...],
    mine: Mapping[str, list[Alert]],
    others: list[Alert],
    numbers: Mapping[str, str],
) -> str:
    troubled = [d for d in devices if d.lamp in (Lamp.RED, Lamp.AMBER)]
    if troubled:
        first = max(troubled, key=lambda lamp: lamp.lamp.rank)
        text = _of_device(snapshot, first, mine.get(first.uuid, []), numbers[first.uuid])
        more = len(troubled) - 1
        return text if not more else f"{text}; {more} more {_need(more)} attention"
    if others:
        return others[0].message
    return _calm_headline(devices, numbers)


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
    text = f"{title(number)} {PHRASES.get(rule, ('', 'needs attention'))[1]}"
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


def _counts(alert: Alert) -> bool:
    return alert.state is Phase.FIRING and alert.level is not Level.INFO


def _urgency(alert: Alert) -> tuple[bool, int, float, str]:
    """Firing before pending, then by severity: heat before idleness."""
    return alert.state is not Phase.FIRING, -alert.severity, alert.since, alert.id
