"""Explains missing readings: lost, hung, asleep, partitioned, unreadable, or no device."""

from andon.core.explain.measures import measured, memory_percent, state_seconds
from andon.core.explain.phrasing import CERTAIN, LIKELY, Clause, conclude, listed, say
from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.core.explain.view import View, after_colon, part_of_whole
from andon.model.device import Fault, MemoryKind, Process, ProcessKind, Snapshot, State
from andon.units import GIB

VALUES = {
    "utilization_percent": "utilisation",
    "memory_used_bytes": "memory",
    "temperature_celsius": "temperature",
    "power_watts": "power",
    "processes": "processes",
}
JUDGED_BY = ("utilization_percent", "memory_used_bytes")
HEALTH = ("utilization_percent", "temperature_celsius")
HELD_SHARE = 0.1
FIND_CAUSE = "Find the cause: sudo dmesg | grep -i -e xid -e nvrm"


def lost(view: View) -> Reason | None:
    """The driver reports it as lost; or the driver itself is missing or unusable."""
    status = view.status
    if status.state is not State.LOST:
        return None
    code = _code_of(status.reason or "", ReasonCode.LOST)
    sentence = say("Lost") + _lasting(view) + _why(view)
    if code is not ReasonCode.LOST:
        sentence = say("Cannot be read") + _why(view)
    advice = _sentence(status.hint or "") or f"{FIND_CAUSE}. Then reset it, or reboot the node."
    return conclude(code, CERTAIN, sentence, [_state(view), *_last(view)], advice=advice)


def hung(view: View) -> Reason | None:
    """No response to a request."""
    status = view.status
    if status.state is not State.STALE:
        return None
    sentence = say("Not responding") + _why(view)
    more = [_state(view), measured(view, state_seconds), *_last(view)]
    advice = _sentence(status.hint or "") or f"{FIND_CAUSE}. If this persists, reboot the node."
    return conclude(ReasonCode.HUNG, CERTAIN, sentence, more, advice=advice)


def asleep(view: View) -> Reason | None:
    """Suspended, and not sampled: that would wake it."""
    if view.status.state is not State.ASLEEP:
        return None
    lasting = _lasting(view)
    sentence = (say("Has been asleep") + lasting if lasting else say("Asleep")) + _why(view)
    advice = "Nothing to do: it wakes when a program uses it; andon does not wake it."
    return conclude(ReasonCode.ASLEEP, CERTAIN, sentence, [_state(view)], advice=advice)


def partitioned(view: View) -> Reason | None:
    """A MIG instance has few readings, and its board is used through its instances."""
    parent, parts = view.status.device.parent, len(view.instances)
    if not view.status.answered or (parent is None and not parts):
        return None
    if parent is None:
        count = view.derived("instances", parts)
        sentence = say("Divided into {n} MIG instances, each a device of its own", n=count)
        advice = "For memory and processes, ask about an instance."
        known = view.sample.utilization_percent is not None
        return conclude(ReasonCode.PARTITIONED, CERTAIN, sentence, advice=advice, mild=known)
    board = view.derived("parent", parent)
    used = part_of_whole(view, "memory_used_bytes", view.total())
    sentence = say("MIG instance") + (Clause(" (") + used + Clause(" used)") if used else used)
    sentence = sentence + Clause(
        ": utilisation, temperature and power are measured only for its board"
    )
    advice = "Ask about the board: what slows or heats it also affects this instance."
    return conclude(ReasonCode.PARTITIONED, CERTAIN, sentence, [board], advice=advice)


def unified(view: View) -> Reason | None:
    """It shares the system's memory: not all of what is used is its own."""
    if view.status.device.memory_kind is not MemoryKind.UNIFIED or not view.status.answered:
        return None
    sentence = say("Shares the system's memory")
    used = part_of_whole(view, "memory_used_bytes", view.total())
    sentence = sentence + (Clause(" with programs on the CPU: ") + used if used else used)
    kind = view.derived("memory_kind", str(view.status.device.memory_kind))
    advice = "Nothing to do: this chip shares system memory by design."
    return conclude(ReasonCode.UNIFIED, CERTAIN, sentence, [kind], advice=advice, mild=bool(used))


def unreadable(view: View) -> Reason | None:
    """Important values that cannot be read, and why; not a problem if enough is known."""
    if view.status.state is not State.OK:
        return None
    unknown = [name for name in VALUES if _is_unknown(view, name)]
    if not unknown or (view.status.device.parent is not None and view.status.answered):
        return None
    sentence = listed(Clause(VALUES[name]) for name in unknown)
    sentence = Clause("Unknown: " + sentence.text) + _common_reason(view, unknown)
    more = [_absence(view, name) for name in unknown]
    mild = bool(view.instances) or not (
        any(name in unknown for name in JUDGED_BY) or _unowned(view)
    )
    advice = "andon status --verbose lists every reason; andon doctor suggests fixes."
    return conclude(ReasonCode.UNREADABLE, CERTAIN, sentence, more, advice=advice, mild=mild)


def nothing(view: View) -> Reason | None:
    """Nothing is wrong, with the readings that show it; None without readings."""
    working = say("{u} busy", u=view.read("utilization_percent") if view.works else None)
    idle = say("idle ({u})", u=view.read("utilization_percent") if view.idle else None)
    temperature = say("{t}", t=view.read("temperature_celsius"))
    power = part_of_whole(view, "power_watts", view.read("power_limit_watts"))
    memory = say("memory {m} full", m=measured(view, memory_percent))
    free = (
        say("no compute processes", n=view.derived("processes", 0)) if _is_free(view) else Clause()
    )
    holder = view.worker() if view.works else view.holder(view.processes)
    held = _held(view, holder) if view.idle and holder else Clause()
    sentence = after_colon(working, idle, temperature, power, memory, free, held)
    known = [name for name in HEALTH if view.read(name) is not None]
    if not known:
        return None
    confidence = (
        CERTAIN if len(known) == len(HEALTH) and view.sample.throttle is not None else LIKELY
    )
    more = [view.read("throttle"), view.read("sm_clock_mhz"), *view.who(holder)]
    return conclude(ReasonCode.HEALTHY, confidence, say("OK") + sentence, more, holder)


def _held(view: View, holder: Process) -> Clause:
    size = view.of_process(holder, "memory_bytes")
    return view.naming(holder) + say(" holds {size}", size=size) if size else Clause()


def absence(snapshot: Snapshot | None) -> tuple[Reason, ...]:
    """Why a node shows no device: what each backend reported."""
    faults = snapshot.faults if snapshot else ()
    if not faults:
        advice = "Check whether there is one: lspci | grep -i -e vga -e 3d -e display"
        return (
            conclude(ReasonCode.NO_DEVICE, LIKELY, say("No GPU found on this node"), advice=advice),
        )
    return tuple(_of_fault(fault, snapshot.at if snapshot else None) for fault in faults)


def vanished(uuid: str, seen_at: float, at: float) -> Reason:
    """It was there in the given past, and is no longer listed."""
    ago = Evidence("unlisted_seconds", max(0.0, at - seen_at), "s", at)
    sentence = say("Last seen {ago} ago; no longer listed", ago=ago)
    return conclude(
        ReasonCode.LOST, LIKELY, sentence, [Evidence("uuid", uuid)], advice=f"{FIND_CAUSE}."
    )


def _of_fault(fault: Fault, at: float | None) -> Reason:
    source, reason = Evidence("source", fault.source), Evidence("fault", fault.reason, "", at)
    sentence = say("{source}: {reason}", source=source, reason=reason)
    advice = _sentence(fault.hint) or "Run andon doctor for details."
    return conclude(_code_of(fault.reason, ReasonCode.NO_DRIVER), CERTAIN, sentence, advice=advice)


def _code_of(reason: str, otherwise: ReasonCode) -> ReasonCode:
    """The code for a backend's reason text, by the phrases that backends use."""
    text = reason.lower()
    if "version" in text and ("differ" in text or "mismatch" in text):
        return ReasonCode.VERSION_MISMATCH
    if "mismatch" in text:
        return ReasonCode.VERSION_MISMATCH
    if any(phrase in text for phrase in ("permission", "denied", "not permitted", "blocked")):
        return ReasonCode.NO_PERMISSION
    if any(phrase in text for phrase in ("no device", "no gpu", "no card", "device was found")):
        return ReasonCode.NO_DEVICE
    if any(p in text for p in ("not loaded", "not installed", "was not found", "no driver")):
        return ReasonCode.NO_DRIVER
    return otherwise


def _why(view: View) -> Clause:
    return say(": {reason}", reason=view.derived("reason", view.status.reason or None))


def _lasting(view: View) -> Clause:
    lasted = measured(view, state_seconds)
    return say(" for at least {s}", s=lasted) if (state_seconds(view) or 0) >= 1 else Clause()


def _state(view: View) -> Evidence:
    return Evidence("state", str(view.status.state), "", view.at)


def _last(view: View) -> list[Evidence]:
    """Its last temperature and power with their time: heat and power cuts cause losses."""
    sample = view.status.sample
    found = [("temperature_celsius", "°C"), ("power_watts", "W")] if sample else []
    pairs = [(name, getattr(sample, name), unit) for name, unit in found]
    at = sample.at if sample else None
    return [Evidence(f"last.{n}", value, unit, at) for n, value, unit in pairs if value is not None]


def _is_unknown(view: View, name: str) -> bool:
    if name == "processes":
        return "processes" in view.status.missing
    if name == "memory_used_bytes" and view.status.device.memory_kind is MemoryKind.UNIFIED:
        return False  # UNIFIED reports it
    return getattr(view.sample, name) is None


def _unowned(view: View) -> bool:
    """Whether memory is held by processes that cannot be listed."""
    used, total = view.sample.memory_used_bytes or 0, view.status.device.memory_total_bytes or 0
    return not view.knows_processes and used >= max(GIB, HELD_SHARE * total)


def _absence(view: View, name: str) -> Evidence:
    why = view.status.missing.get(name)
    return Evidence(f"missing.{name}", why, "", view.at) if why else Evidence(name, None)


def _common_reason(view: View, unknown: list[str]) -> Clause:
    """The reason, if all share it; otherwise each is in the evidence."""
    reasons = {view.status.missing.get(name) or view.status.reason for name in unknown}
    why = reasons.pop() if len(reasons) == 1 else None
    return say(" ({why})", why=view.derived("reason", why))


def _is_free(view: View) -> bool:
    held = [p for p in view.processes if p.kind is ProcessKind.COMPUTE]
    return view.idle and view.knows_processes and not held


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".!?" else f"{text}."
