"""The lamp of every device, and the word under it: decided here for every view."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from andon.core.alerting.listing import is_listed, is_soon, lamp_of, order
from andon.core.conditions.catalogue import BY_NAME, PRESENT
from andon.core.conditions.condition import AlertFacts, Condition, severity
from andon.core.conditions.judgement import CALM, Judgement
from andon.core.conditions.judging import OnFault
from andon.core.conditions.wording import RECOVERED
from andon.core.evidence.blame import Blame, blamed, listed_users, owned
from andon.model.alert import Alert, Party, Phase
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
    status: str  # one or two words: "heavy", "too hot"
    reason: str | None = None  # a sentence, if it is not fine
    affected_user: str | None = None  # the user or users whose work is affected
    alerts: tuple[str, ...] = ()  # ids of pending or firing alerts, worst first
    severity: int = 0  # 0 to 100, of what lights the lamp; 0 if nothing does
    rule: str | None = None  # the condition that lights the lamp

    @property
    def urgency(self) -> tuple[int, int]:
        """Greater is worse; a sleeping device is as calm as a healthy one."""
        calm = self.status == State.ASLEEP.words
        return NOT_URGENT if calm else (self.lamp.rank, self.severity)


@dataclass(frozen=True, slots=True)
class LampBoard:
    """The whole board."""

    at: float
    headline: str
    lamp: Lamp
    devices: tuple[DeviceLamp, ...] = ()
    simulated: bool = False
    headline_alert: str | None = None  # the id of the alert that the headline is about

    def of(self, uuid: str) -> DeviceLamp | None:
        return next((one for one in self.devices if one.uuid == uuid), None)


NOT_URGENT = (0, 0)
"""The urgency of a device that needs nothing."""
_STATES = {State.LOST: Lamp.RED, State.STALE: Lamp.GREY, State.ASLEEP: Lamp.GREY}


def board(snapshot: Snapshot, alerts: Iterable[Alert]) -> LampBoard:
    """The lamps of a snapshot, given the alerts that are pending or firing now."""
    mine: dict[str, list[Alert]] = {}
    for alert in sorted(alerts, key=order):
        if alert.state is not Phase.RESOLVED:
            mine.setdefault(alert.subject, []).append(alert)
    numbers = device_labels(snapshot.devices)
    lit = {
        s.device.uuid: _lit(s, mine.get(s.device.uuid, []), numbers[s.device.uuid])
        for s in snapshot.devices
    }
    others = [a for subject, on in mine.items() if subject not in lit for a in on if lights(a)]
    devices = tuple(lit.values())
    lamp = _overall(devices, others)
    headline, about = _headline(snapshot, devices, mine, others, numbers)
    return LampBoard(snapshot.at, headline, lamp, devices, snapshot.simulated, about)


def lights(alert: Alert) -> bool:
    """Whether an alert lights a lamp: it fires, and is more than information."""
    return alert.state is Phase.FIRING and lamp_of(alert) is not Lamp.GREEN


@dataclass(frozen=True, slots=True)
class _Light:
    """Something that lights the lamp of a device."""

    lamp: Lamp
    rule: Condition
    severity: int
    reason: str
    affected: tuple[Party, ...] = ()


def _lit(status: DeviceStatus, alerts: list[Alert], number: str) -> DeviceLamp:
    """The state of a device, unless something else about it is as bad or worse."""
    device, found = status.device, _worst(status, alerts, number)
    lamp = _STATES.get(status.state, Lamp.GREEN)
    word = status.state.words if lamp is not Lamp.GREEN else _working(status)
    reason = status.reason if status.state is not State.OK else None
    ids = tuple(alert.id for alert in alerts if is_listed(alert))
    if found is None or found.lamp.rank < lamp.rank:
        return DeviceLamp(device.uuid, device.index, lamp, word, reason, None, ids)
    users = _affected_users(status, found.affected)
    return DeviceLamp(
        device.uuid, device.index, found.lamp, found.rule.label, found.reason, users, ids,
        found.severity, found.rule.name,
    )  # fmt: skip


def _worst(status: DeviceStatus, alerts: list[Alert], number: str) -> _Light | None:
    found = [
        _Light(lamp_of(a), BY_NAME[a.rule], a.severity, a.message, a.affected)
        for a in alerts
        if lights(a)
    ]
    lit = {one.rule.name for one in found}
    found += [one for one in _present(status, number) if one.rule.name not in lit]
    return max(found, key=lambda one: (one.lamp.rank, one.severity), default=None)


def _present(status: DeviceStatus, number: str) -> Iterable[_Light]:
    """What the current reading shows, whatever the state of the alert about it."""
    for rule in PRESENT:
        finding = None if rule.present is None else rule.present(status)
        if finding is not None:
            yield _light(rule, finding, title(number))


def _light(rule: Condition, finding: Judgement, it: str) -> _Light:
    pairs = zip(rule.rungs, finding.rungs, strict=True)
    rung = next(rung for rung, state in pairs if state is not CALM)
    said = rule.title if rule.sentence is None else rule.sentence(AlertFacts(it, finding))
    lamp = Lamp.AMBER if rung.lamp is None else rung.lamp
    return _Light(lamp, rule, severity(rung.level, rule), said)


def _working(status: DeviceStatus) -> str:
    """How busy it is, in one word; "fine" if that is unknown."""
    return "fine" if status.band is None else str(status.band)


def _overall(devices: tuple[DeviceLamp, ...], others: list[Alert]) -> Lamp:
    """The worst lamp; sleeping cards do not count unless all of them sleep."""
    awake = [one.lamp for one in devices if one.status != State.ASLEEP.words]
    counted = awake + [lamp_of(alert) for alert in others]
    return max(counted, key=lambda lamp: lamp.rank, default=Lamp.GREY)


# The headline.


def _headline(
    snapshot: Snapshot,
    devices: tuple[DeviceLamp, ...],
    mine: Mapping[str, list[Alert]],
    others: list[Alert],
    numbers: Mapping[str, str],
) -> tuple[str, str | None]:
    """The headline, and the id of the alert that it is about."""
    unread = _unread(snapshot, others)
    troubled = [d for d in devices if d.lamp in (Lamp.RED, Lamp.AMBER) and d.uuid not in unread]
    if troubled:
        first = max(troubled, key=lambda one: one.urgency)
        alerts = mine.get(first.uuid, [])
        worst = next((a for a in alerts if a.rule == first.rule and lights(a)), None)
        text = _of_device(snapshot, first, worst, numbers[first.uuid])
        more = len(troubled) - 1
        said = text if not more else f"{text}; {more} more {_need(more)} attention"
        return said, None if worst is None else worst.id
    if others:
        return others[0].message, others[0].id
    soon = [a for d in devices if d.lamp is Lamp.GREEN for a in mine.get(d.uuid, []) if is_soon(a)]
    if soon:
        first_soon = min(soon, key=order)
        return _soon_headline(first_soon, numbers), first_soon.id
    return _calm_headline(devices, numbers), None


def _unread(snapshot: Snapshot, others: list[Alert]) -> frozenset[str]:
    """The devices whose whole driver cannot be read: its alert speaks for all of them."""
    drivers = {a.subject for a in others if isinstance(BY_NAME[a.rule].judged, OnFault)}
    lost = (s.device for s in snapshot.devices if drivers and s.state is State.LOST)
    return frozenset(d.uuid for d in lost if f"reader:{d.vendor}" in drivers)


def _soon_headline(alert: Alert, numbers: Mapping[str, str]) -> str:
    """Nothing fires, and yet not all is fine: a tile says that an alert is near."""
    what = BY_NAME[alert.rule].headline or "needs attention"
    return f"No active alerts yet; {title(numbers[alert.subject])} {what}"


def _calm_headline(devices: tuple[DeviceLamp, ...], numbers: Mapping[str, str]) -> str:
    count = len(devices)
    if not devices:
        return "No GPU found on this node"
    silent = [d for d in devices if d.status == State.STALE.words]
    asleep = [d for d in devices if d.status == State.ASLEEP.words]
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


def _of_device(snapshot: Snapshot, lamp: DeviceLamp, worst: Alert | None, number: str) -> str:
    rule = BY_NAME[lamp.rule or "device_lost"]
    text = f"{title(number)} {rule.headline or 'needs attention'}"
    status = next(s for s in snapshot.devices if s.device.uuid == lamp.uuid)
    if not status.answered:
        since = status.since if worst is None else worst.since
        return f"{text}{_what_happened(status, snapshot.at - since)}{_on_it(lamp, status)}"
    if worst is not None and RECOVERED in worst.message:
        return worst.message
    whom = "" if worst is None else _whose(snapshot, status, worst.affected)
    return f"{text}: {whom}" if whom else text


def _what_happened(status: DeviceStatus, lasted: float) -> str:
    """`: it has fallen off the bus, 26 min ago`; a reason that states its time is enough."""
    ago = human_seconds(lasted)
    if status.reason is None:
        return "" if lasted < 1 else f" for {ago}"
    told = status.state is State.STALE or lasted < 1
    return f": {status.reason}" if told else f": {status.reason}, {ago} ago"


def _on_it(lamp: DeviceLamp, status: DeviceStatus) -> str:
    """Who was on it has not caused it: their programs' names and times would say so."""
    users = listed_users(status.last_users) or lamp.affected_user
    return f". On it: {users}" if users else ""


def _whose(snapshot: Snapshot, status: DeviceStatus, who: tuple[Party, ...]) -> str:
    """`alice's train.py, 71 min at 98 %`; empty if no process is known."""
    if not who:
        return ""
    found = _blamed(status, who)
    busy = status.sample.utilization_percent if status.answered and status.sample else None
    if found is not None and found.one is None:
        return found.words if busy is None else f"{found.words}, {busy} %"
    first = who[0]
    text, lasted = owned(first), None if first.started is None else snapshot.at - first.started
    if lasted is not None and lasted >= 0:
        text = f"{text}, {human_seconds(lasted)}"
        return text if busy is None else f"{text} at {busy} %"
    return text if busy is None else f"{text}, {busy} %"


def _blamed(status: DeviceStatus, who: tuple[Party, ...]) -> Blame | None:
    """Who is blamed, if the alert is about the processes on the device; None if about others."""
    here = {(p.pid, p.started) for p in status.processes} if status.answered else set()
    if any((party.pid, party.started) not in here for party in who):
        return None
    return blamed(status.processes)


def _affected_users(status: DeviceStatus, who: tuple[Party, ...]) -> str | None:
    found = _blamed(status, who) if who else None
    users = found.users if found is not None else tuple(p.user for p in who if p.user)
    # Somebody's process may be affected by that of another: the first one is enough, if it is one.
    if found is None and status.answered:
        users = users[:1]
    return listed_users(tuple(dict.fromkeys(users))) or None


def _need(count: int) -> str:
    return "needs" if count == 1 else "need"
