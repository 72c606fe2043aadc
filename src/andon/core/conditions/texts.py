"""The text of alerts: one plain sentence per rule, with its numbers, and what to do."""

from collections.abc import Callable, Iterable, Mapping

from andon.core.conditions import lease_texts
from andon.core.conditions.finding import Judgement
from andon.core.conditions.forecast import Arrival, Trend, arrival
from andon.core.conditions.lease_texts import LASTING, holders_of
from andon.core.conditions.rules import BY_NAME
from andon.core.conditions.track import Track
from andon.core.events.xids import explain_event
from andon.model.alert import Event, EventKind, Party
from andon.model.device import Process, ProcessKind
from andon.units import human_bytes, human_seconds

MOST_PARTIES = 5
SOON_SECONDS = 3600.0

Say = Callable[[str, Judgement], str]


def message(
    rule: str, subject: str, finding: Judgement, lasted_seconds: float = 0.0, gpus: str = ""
) -> str:
    """The sentence for one finding; `subject` is its name for people, `gpus` those of a lease."""
    if rule in _OF_LEASES:
        text = _OF_LEASES[rule](subject, finding, gpus)
    else:
        text = _SENTENCES[rule](subject, finding)
    lasts = rule in LASTING and lasted_seconds >= 1
    return f"{text} for {human_seconds(lasted_seconds)}" if lasts else text


def advice(rule: str, number: str, finding: Judgement) -> str:
    """What to do; a driver error or a reported problem may have more specific advice."""
    first = finding.details[0] if finding.details else None
    if isinstance(first, Event):
        return explain_event(first).advice(number)
    if (specific := lease_texts.advice(rule, finding)) is not None:
        return specific
    hint = finding.details[1] if rule in _HINTED and len(finding.details) > 1 else None
    return str(hint) if hint else BY_NAME[rule].advice


def evidence(rule: str, finding: Judgement) -> Mapping[str, float | str]:
    """Further numbers behind a sentence: a forecast, a share of the last hour."""
    if rule == "memory_leak" and len(finding.details) == 2:
        found, when = finding.details
        if isinstance(found, Trend) and isinstance(when, Arrival):
            return {"growth_bytes_per_second": found.slope, **_bounds("full_in", when)}
    share = _held_back(finding)
    if share is not None:
        return {"last_hour_percent": share}
    if rule == "thermal":
        when = _slows_down(finding)
        return {} if when is None else _bounds("slowdown_in", when)
    return lease_texts.evidence(finding)


def parties(processes: Iterable[Process]) -> tuple[Party, ...]:
    """Who is affected: compute processes first, then by what they use."""
    ranked = sorted(processes, key=_rank)[:MOST_PARTIES]
    return tuple(Party(p.pid, p.user, p.name, p.command, p.started) for p in ranked)


def _rank(process: Process) -> tuple[bool, int, int, int]:
    graphics = process.kind is not ProcessKind.COMPUTE
    used, held = process.utilization_percent or 0, process.memory_bytes or 0
    return graphics, -used, -held, process.pid


def _held_back(finding: Judgement) -> float | None:
    """For what share of the last hour a throttle reason was active."""
    reasons, track = finding.details if len(finding.details) == 2 else (None, None)
    if not isinstance(track, Track) or not isinstance(reasons, frozenset | tuple):
        return None
    return track.held_back_percent(reasons)


def _lately(finding: Judgement) -> str:
    share, track = _held_back(finding), finding.details[1] if len(finding.details) == 2 else None
    if share is None or not isinstance(track, Track):
        return ""
    known = track.readings[-1][0] - track.readings[0][0]
    span = "hour" if known > 3500 else human_seconds(known)
    return f", {share:.0f} % of the last {span}"


def _slowed(gpu: str, f: Judgement) -> str:
    return f"{gpu} is thermally throttled{_lately(f)}"


def _thermal(gpu: str, f: Judgement) -> str:
    slowed = bool(f.details and f.details[0])
    text = f"{gpu} is thermally throttled" if slowed else f"{gpu} is too hot"
    text = f"{text}: {f.value or 0:.0f} °C"
    if f.limit is None:
        return f"{text} (threshold {f.threshold or 0:.0f} °C)"
    text = f"{text} (slowdown threshold {f.limit:.0f} °C)"
    when = _slows_down(f)
    return text if when is None else f"{text}, reached in {_span(when)} at this rate"


def _slows_down(f: Judgement) -> Arrival | None:
    """When it reaches its slowdown temperature, if it warms steadily and that is near."""
    found = f.details[1] if len(f.details) > 1 else None
    if not isinstance(found, Trend) or f.limit is None or f.value is None or f.value >= f.limit:
        return None
    when = arrival(found, f.limit - f.value)
    return when if when is not None and when.seconds <= SOON_SECONDS else None


def _throttle_power(gpu: str, f: Judgement) -> str:
    normal = f"up to {_percent(f.threshold)} is normal"
    loss = f"{gpu} runs {_percent(f.value)} below its maximum clock because of its power limit"
    return f"{loss} ({normal}){_lately(f)}"


def _throttle_hardware(gpu: str, f: Judgement) -> str:
    if f.holds & 0b10:
        return f"{gpu} is throttled: its power supply signals an emergency{_lately(f)}"
    return f"The hardware throttles {gpu} without giving a reason{_lately(f)}"


def _idle(gpu: str, f: Judgement) -> str:
    held = holders_of(f)
    user = held[0].user if held else None
    return f"{gpu} is held by {user} but idle" if user else f"{gpu} is held but idle"


def _xid(gpu: str, f: Judgement) -> str:
    event = f.details[0] if f.details else None
    if not isinstance(event, Event):
        return f"{gpu} reports an error"
    named = event.kind is EventKind.XID and event.code is not None
    number = f"Xid {event.code}" if named else "an error"
    return f"{gpu} reports {number}: {explain_event(event).meaning}"


def _ecc(gpu: str, f: Judgement) -> str:
    more = f" ({f.details[0]})" if f.details and f.details[0] else ""
    count = "" if f.value is None else f"{f.value:.0f} "
    errors = "error" if f.value == 1 else "errors"
    return f"{gpu} has {count}uncorrectable memory {errors}{more}"


def _leak(gpu: str, f: Judgement) -> str:
    found, when = f.details if len(f.details) == 2 else (None, None)
    if not isinstance(found, Trend) or not isinstance(when, Arrival):
        return f"{gpu}: memory keeps growing"
    rate = human_bytes(found.slope * 60)
    return f"{gpu}: memory grows by {rate} a minute and will be full in {_span(when)}"


def _fan(gpu: str, f: Judgement) -> str:
    return f"The fan of {gpu} has stopped at {f.value or 0:.0f} °C"


def _spare(gpu: str, f: Judgement) -> str:
    return f"{gpu}: no visible process accounts for {human_bytes(f.value or 0)} of its memory"


def _disk(node: str, f: Judgement) -> str:
    disk = f"Disk {f.details[0]}" if f.details else "A disk"
    return f"{disk} is {_percent(f.value)} full"


def _reasoned(start: str) -> Say:
    def say(subject: str, f: Judgement) -> str:
        reason = str(f.details[0]) if f.details and f.details[0] else ""
        return start.format(it=subject) + (f": {reason}" if reason else "")

    return say


def _valued(template: str) -> Say:
    def say(subject: str, f: Judgement) -> str:
        return template.format(it=subject, now=_percent(f.value), least=_percent(f.threshold))

    return say


def _span(when: Arrival) -> str:
    """`about 40 min (35 min to 47 min)`: the best estimate, the earliest and the latest."""
    early, late = human_seconds(when.earliest_seconds), human_seconds(when.latest_seconds)
    guess = f"about {human_seconds(when.seconds)}"
    return guess if early == late else f"{guess} ({early} to {late})"


def _bounds(name: str, when: Arrival) -> dict[str, float | str]:
    return {
        f"{name}_seconds": round(when.seconds),
        f"{name}_earliest_seconds": round(when.earliest_seconds),
        f"{name}_latest_seconds": round(when.latest_seconds),
    }


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} %"


_HINTED = frozenset({"device_lost", "driver_hung", "store", "sampler", "notifier"})
_SENTENCES: Mapping[str, Say] = {
    "thermal": _thermal,
    "memory": _valued("The memory of {it} is {now} full (threshold {least})"),
    "power": _valued("{it} is at its power limit: {now} (threshold {least})"),
    "idle": _idle,
    "throttle_thermal": _slowed,
    "throttle_power": _throttle_power,
    "throttle_hardware": _throttle_hardware,
    "device_lost": _reasoned("{it} is lost"),
    "driver_hung": _reasoned("{it} is not responding"),
    "ecc": _ecc,
    "xid": _xid,
    "fan": _fan,
    "unattributed_memory": _spare,
    "memory_leak": _leak,
    "high_usage": _valued("{it} is in use: {now}"),
    "node_cpu": _valued("The CPU of {it} is {now} busy"),
    "node_memory": _valued("The memory of {it} is {now} full (threshold {least})"),
    "node_disk": _disk,
    "store": _reasoned("The history is not being written"),
    "sampler": _reasoned("Readings are missed"),
    "notifier": _reasoned("{it} is failing"),
    "squatter": lease_texts.squatter,
    "leftover_memory": lease_texts.leftover_memory,
}
_OF_LEASES: Mapping[str, Callable[[str, Judgement, str], str]] = {
    "idle_lease": lease_texts.idle_lease,
    "orphan": lease_texts.orphan,
}
