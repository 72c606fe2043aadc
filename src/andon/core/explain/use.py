"""Explains low use: held but idle, waiting for data, mostly inactive, or shared."""

from andon.core.explain.measures import (
    idle_seconds,
    measured,
    memory_percent,
    power_percent,
    recent_seconds,
    utilization_max_percent,
    utilization_mean_percent,
    utilization_min_percent,
)
from andon.core.explain.memory import idle_memory
from andon.core.explain.phrasing import CERTAIN, LIKELY, POSSIBLE, Clause, conclude, listed, say
from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.core.explain.view import View
from andon.core.sampling.idleness import BARELY_BUSY_PERCENT
from andon.model.device import Process
from andon.model.throttling import IDLE

LONG_SECONDS = 300.0
SOME_SECONDS = 30.0
SETTLED_SECONDS = 60.0
LOW_PERCENT = 40.0
BURST_PERCENT = 60
BURST_MEAN_PERCENT = 75.0
BURST_SAMPLES = 4
VIDEO_PERCENT = 50  # a device that decodes video may compute little
CPU_BUSY_PERCENT = 90.0
ALWAYS_PERCENT = 95.0
LOW_OCCUPANCY_SM_PERCENT = 40.0
LOW_OCCUPANCY_POWER_PERCENT = 40.0
MEMORY_BOUND_PERCENT = 60
COMPETING_PERCENT = 80
PART_PERCENT = 5
PART_SHARE = 0.1


def idle_held(view: View) -> Reason | None:
    """A process holds it, but nothing runs on it."""
    lasted, most = idle_seconds(view), utilization_max_percent(view)
    if not _settled(view) or not lasted or most is None or most > BARELY_BUSY_PERCENT:
        return None  # one sample, or a pause in the last minute, does not mean idle
    if any(p.utilization_percent for p in view.compute) or idle_memory(view):
        return None
    sentence = say("Idle but occupied: {u}", u=view.read("utilization_percent"))
    sentence = sentence + say(" for {s}", s=measured(view, idle_seconds))
    holder = view.holder(view.compute) or (view.compute[0] if len(view.compute) == 1 else None)
    sentence = sentence + Clause(", ") + _holding(view, holder)
    more = [view.derived("processes", len(view.processes)), *view.who(holder)]
    advice = (
        "Ask its owner whether it is still needed. A notebook holds it until its kernel ends; an "
        "inference server without requests looks the same."
    )
    return conclude(ReasonCode.IDLE_HELD, _confidence(lasted), sentence, more, holder, advice)


def starved(view: View) -> Reason | None:
    """There is work, but the device waits: low or bursty utilisation."""
    mean, most = utilization_mean_percent(view), utilization_max_percent(view)
    if not _settled(view) or mean is None or most is None or most <= BARELY_BUSY_PERCENT:
        return None
    if view.at_least("decoder_percent", VIDEO_PERCENT) or _competing(view):
        return None
    low, bursty = mean < LOW_PERCENT, _is_bursty(view)
    if not low and not bursty:
        return None
    sentence = _how_busy(view, bursty)
    cpu = view.host("cpu_percent")
    strained = (view.snapshot.host.cpu_percent or 0) >= CPU_BUSY_PERCENT
    sentence = sentence + say(", and the node's CPU is {c} busy", c=cpu if strained else None)
    span = recent_seconds(view) or 0.0
    confidence = LIKELY if strained or span >= SOME_SECONDS else POSSIBLE
    worker = view.worker()
    more = [measured(view, power_percent), cpu, *view.who(worker)]
    advice = (
        "It waits for data, the CPU or requests: try more loader workers, faster storage or larger "
        "batches. Normal for a server with few requests."
    )
    return conclude(ReasonCode.STARVED, confidence, sentence, more, worker, advice)


def low_occupancy(view: View) -> Reason | None:
    """Always busy, but little of the chip is active."""
    least = utilization_min_percent(view)
    if least is None or least < ALWAYS_PERCENT:
        return None
    active, power = view.sample.sm_active_percent, power_percent(view)
    if active is not None:
        if active >= LOW_OCCUPANCY_SM_PERCENT:
            return None
        shown = say("only {a} of the chip is active", a=view.read("sm_active_percent"))
    elif power is not None and power < LOW_OCCUPANCY_POWER_PERCENT and not _slow_for_a_reason(view):
        shown = say("draws only {p} of its power limit", p=measured(view, power_percent))
    else:
        return None
    sentence = say("Always busy ({u}), but ", u=view.read("utilization_percent")) + shown
    worker = view.worker()
    names = ("power_watts", "tensor_active_percent", "memory_utilization_percent")
    more = [*(view.read(name) for name in names), *view.who(worker)]
    confidence = CERTAIN if active is not None else POSSIBLE
    advice = "Larger batches, fused kernels or several processes at once would use more of it."
    return conclude(ReasonCode.LOW_OCCUPANCY, confidence, sentence, more, worker, advice)


def shared(view: View) -> Reason | None:
    """Several users compete for it, for its time or for its memory."""
    kind = "utilization_percent" if _competing(view) else "memory_bytes"
    parts = _active(view) if _competing(view) else _crowding(view)
    if len(parts) < 2:
        return None
    count = view.derived("users", len(parts))
    sentence = say("{n} users compete for it: ", n=count)
    sentence = sentence + listed(_part(view, user, kind, part) for user, part in parts)
    more = [view.read("utilization_percent"), measured(view, memory_percent)]
    advice = (
        "Take turns, share by memory (--shared), or move one job: "
        "andon free shows what is available."
    )
    return conclude(ReasonCode.SHARED, CERTAIN, sentence, more, advice=advice)


def _settled(view: View) -> bool:
    """Whether a process has had time to start: loading is not idling."""
    ages = [0.0 if p.started is None else p.started for p in view.compute]
    return any(view.at - began >= SETTLED_SECONDS for began in ages)


def _confidence(seconds: float) -> float:
    if seconds < SOME_SECONDS:
        return POSSIBLE
    return CERTAIN if seconds >= LONG_SECONDS else LIKELY


def _holding(view: View, holder: Process | None) -> Clause:
    if holder is None:
        return say("{n} processes hold it", n=view.derived("compute", len(view.compute)))
    held = say(" holds {held}", held=view.of_process(holder, "memory_bytes"))
    return view.naming(holder) + (held or Clause(" holds it"))


def _is_bursty(view: View) -> bool:
    least, most = utilization_min_percent(view), utilization_max_percent(view)
    mean = utilization_mean_percent(view)
    if least is None or most is None or mean is None or len(view.past) < BURST_SAMPLES:
        return False
    return most - least >= BURST_PERCENT and mean < BURST_MEAN_PERCENT


def _how_busy(view: View, bursty: bool) -> Clause:
    mean, span = measured(view, utilization_mean_percent), measured(view, recent_seconds)
    least, most = measured(view, utilization_min_percent), measured(view, utilization_max_percent)
    if bursty:
        sentence = say("Bursty: between {a} and {b} busy", a=least, b=most)
    else:
        sentence = say("Mostly idle: {m} busy", m=mean)
    more = [one for one in (mean, least, most) if one is not None]
    return sentence + say(" over the last {s}", s=span) + Clause("", tuple(more))


def _slow_for_a_reason(view: View) -> bool:
    """Whether low power is due to limited clocks or to waiting for memory."""
    reasons = [name for name in view.sample.throttle or () if name != IDLE.name]
    return bool(reasons) or view.at_least("memory_utilization_percent", MEMORY_BOUND_PERCENT)


def _parts(view: View, name: str) -> list[tuple[str, int]]:
    """What each known user uses, the most first."""
    parts: dict[str, int] = {}
    for process in view.compute:
        value = getattr(process, name)
        if process.user is not None and value is not None:
            parts[process.user] = parts.get(process.user, 0) + value
    return sorted(parts.items(), key=lambda part: (-part[1], part[0]))


def _competing(view: View) -> bool:
    return len(_active(view)) > 1 and view.at_least("utilization_percent", COMPETING_PERCENT)


def _active(view: View) -> list[tuple[str, int]]:
    return [one for one in _parts(view, "utilization_percent") if one[1] >= PART_PERCENT]


def _crowding(view: View) -> list[tuple[str, int]]:
    """Users with a large part of nearly full memory, if none of them is idle."""
    share, total = memory_percent(view), view.status.device.memory_total_bytes
    if share is None or total is None or share < view.figures.memory_percent or idle_memory(view):
        return []
    return [one for one in _parts(view, "memory_bytes") if one[1] >= PART_SHARE * total]


def _part(view: View, user: str, kind: str, part: int) -> Clause:
    named = Evidence("process.user", user, "", view.at)
    value = view.derived(f"users.{user}.{kind}", part)
    return say("{user} ({part})", user=named, part=value)
