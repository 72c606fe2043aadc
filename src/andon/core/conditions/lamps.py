"""The board over the line: a lamp for every device, its word, and one headline for the node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from andon.core.conditions.lease_words import program
from andon.core.sampling.bands import Band, band
from andon.model.alert import Alert, Level, Party, Phase
from andon.model.device import DeviceStatus, Snapshot, State, device_labels
from andon.units import human_seconds


class Lamp(StrEnum):
    """What a person sees from across the room."""

    GREEN = "green"  # fine
    AMBER = "amber"  # somebody should look
    RED = "red"  # needs help now
    GREY = "grey"  # nothing is known

    @property
    def rank(self) -> int:
        """Greater needs a person sooner."""
        return ("green", "grey", "amber", "red").index(self.value)


@dataclass(frozen=True, slots=True)
class DeviceLamp:
    """One device on the board."""

    uuid: str
    index: int
    lamp: Lamp
    status: str  # one or two words: "working", "too hot"
    reason: str | None = None  # a sentence, where it is not fine
    affected_user: str | None = None  # the user whose work it concerns
    alerts: tuple[str, ...] = ()  # ids of what is pending or firing, worst first


@dataclass(frozen=True, slots=True)
class LampBoard:
    """The whole board."""

    at: float
    headline: str
    lamp: Lamp
    devices: tuple[DeviceLamp, ...] = ()
    simulated: bool = False


PHRASES: Mapping[str, tuple[str, str]] = {
    "thermal": ("too hot", "is too hot"),
    "throttle_thermal": ("too hot", "is slowed down by heat"),
    "throttle_power": ("capped", "is slowed down by its power cap"),
    "throttle_hardware": ("slowed down", "is slowed down by the hardware"),
    "device_lost": ("lost", "is lost"),
    "driver_hung": ("silent", "does not answer"),
    "ecc": ("memory errors", "has memory errors"),
    "xid": ("error", "reports an error"),
    "fan": ("fan stands", "has a fan that stands still"),
    "unattributed_memory": ("memory held", "has memory that no process explains"),
    "memory_leak": ("filling up", "is filling up"),
    "idle": ("held and idle", "is held and idle"),
    "squatter": ("shared unasked", "is used outside its lease"),
    "leftover_memory": ("memory held", "has memory of a lease that ended"),
}
"""The word under a lamp, and how a headline goes on after `GPU 3`."""
_STATES = {
    State.LOST: (Lamp.RED, "lost"),
    State.STALE: (Lamp.GREY, "silent"),
    State.ASLEEP: (Lamp.GREY, "asleep"),
}
_LAMPS = {Level.INFO: Lamp.GREEN, Level.WARNING: Lamp.AMBER, Level.CRITICAL: Lamp.RED}
_WORDS = {
    Band.IDLE: "idle", Band.LIGHT: "light work", Band.MODERATE: "working", Band.HEAVY: "working",
}  # fmt: skip


def board(snapshot: Snapshot, alerts: Iterable[Alert]) -> LampBoard:
    """The lamps of a snapshot, under the alerts that are pending or firing now."""
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
    """The worst lamp; cards that sleep, beside others that do not, are no news."""
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
        told = _of_device(snapshot, first, mine.get(first.uuid, []), numbers[first.uuid])
        more = len(troubled) - 1
        return told if not more else f"{told}; {more} more {_need(more)} help"
    if others:
        return others[0].message
    return _calm_headline(devices, numbers)


def _calm_headline(devices: tuple[DeviceLamp, ...], numbers: Mapping[str, str]) -> str:
    count = len(devices)
    if not devices:
        return "No GPU is known on this node"
    silent = [d for d in devices if d.status == "silent"]
    asleep = [d for d in devices if d.status == "asleep"]
    if silent:
        named = ", ".join(numbers[d.uuid] for d in silent)
        return f"GPU {named} has not answered lately"
    if len(asleep) == count:
        return "The GPU is asleep" if count == 1 else f"All {count} GPUs are asleep"
    fine = "The GPU is fine" if count == 1 else f"All {count} GPUs are fine"
    return fine if not asleep else f"{fine}, {len(asleep)} asleep"


def _of_device(snapshot: Snapshot, lamp: DeviceLamp, alerts: list[Alert], number: str) -> str:
    worst = next((alert for alert in alerts if _counts(alert)), None)
    rule = "device_lost" if worst is None else worst.rule
    told = f"GPU {number} {PHRASES.get(rule, ('', 'needs help'))[1]}"
    status = next(s for s in snapshot.devices if s.device.uuid == lamp.uuid)
    whom = "" if worst is None else _whose(snapshot, status, worst.affected)
    return f"{told}: {whom}" if whom else told


def _whose(snapshot: Snapshot, status: DeviceStatus, who: tuple[Party, ...]) -> str:
    """`alice's train.py, 71 min at 98 %`; nothing where nobody is known."""
    if not who:
        return ""
    first = who[0]
    name = program(first)
    told = f"{first.user}'s {name}" if first.user else name
    busy = status.sample.utilization_percent if status.answered and status.sample else None
    lasted = None if first.started is None else snapshot.at - first.started
    if lasted is not None and lasted >= 0:
        told = f"{told}, {human_seconds(lasted)}"
        return told if busy is None else f"{told} at {busy} %"
    return told if busy is None else f"{told}, {busy} %"


def _need(count: int) -> str:
    return "needs" if count == 1 else "need"


def _counts(alert: Alert) -> bool:
    return alert.state is Phase.FIRING and alert.level is not Level.INFO


def _urgency(alert: Alert) -> tuple[bool, int, float, str]:
    """What fires before what is pending, and among those the worst; heat before idleness."""
    return alert.state is not Phase.FIRING, -alert.severity, alert.since, alert.id
