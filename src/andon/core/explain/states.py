"""Why there is nothing to see: lost, hung, asleep, partitioned, unreadable, or no device at all."""

from andon.core.explain.measures import measured, memory_percent, state_seconds
from andon.core.explain.phrasing import CERTAIN, LIKELY, Clause, conclude, listed, say
from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.core.explain.view import View, filled, together
from andon.model.device import Fault, MemoryKind, Process, ProcessKind, Snapshot, State
from andon.units import GIB

VALUES = {
    "utilization_percent": "its utilisation",
    "memory_used_bytes": "its memory",
    "temperature_celsius": "its temperature",
    "power_watts": "its power",
    "processes": "its processes",
}
JUDGED_BY = ("utilization_percent", "memory_used_bytes")
HEALTH = ("utilization_percent", "temperature_celsius")
HELD_SHARE = 0.1
LOOK = "Look for the cause: sudo dmesg | grep -i -e xid -e nvrm"


def lost(view: View) -> Reason | None:
    """The driver says that it is gone; or, where the driver itself is, what that one lacks."""
    status = view.status
    if status.state is not State.LOST:
        return None
    code = _code_of(status.reason or "", ReasonCode.LOST)
    told = say("It is lost") + _lasting(view) + _why(view)
    if code is not ReasonCode.LOST:
        told = say("It cannot be read") + _why(view)
    advice = _sentence(status.hint or "") or f"{LOOK}. Then reset it, or reboot the node."
    return conclude(code, CERTAIN, told, [_state(view), *_last(view)], advice=advice)


def hung(view: View) -> Reason | None:
    """Asked, and no answer."""
    status = view.status
    if status.state is not State.STALE:
        return None
    told = say("It does not answer") + _why(view)
    more = [_state(view), measured(view, state_seconds), *_last(view)]
    advice = _sentence(status.hint or "") or f"{LOOK}. If it stays so, reboot the node."
    return conclude(ReasonCode.HUNG, CERTAIN, told, more, advice=advice)


def asleep(view: View) -> Reason | None:
    """Suspended, and left alone: looking would wake it."""
    if view.status.state is not State.ASLEEP:
        return None
    told = say("It sleeps") + _lasting(view) + _why(view)
    advice = "Nothing: it wakes when a program uses it, and andon does not wake it by looking."
    return conclude(ReasonCode.ASLEEP, CERTAIN, told, [_state(view)], advice=advice)


def partitioned(view: View) -> Reason | None:
    """An instance shows little, and its board is used through its instances."""
    parent, parts = view.status.device.parent, len(view.instances)
    if not view.status.answered or (parent is None and not parts):
        return None
    if parent is None:
        count = view.derived("instances", parts)
        told = say("It is divided into {n} MIG instances, which are devices themselves", n=count)
        advice = "Ask about an instance for its memory and its processes."
        known = view.sample.utilization_percent is not None
        return conclude(ReasonCode.PARTITIONED, CERTAIN, told, advice=advice, mild=known)
    board = view.derived("parent", parent)
    used = filled(view, "memory_used_bytes", view.total())
    told = say("It is a MIG instance") + (Clause(" (") + used + Clause(" used)") if used else used)
    told = told + Clause(": load, temperature and power are measured on its board only")
    advice = "Ask about the board: what slows or heats that slows this."
    return conclude(ReasonCode.PARTITIONED, CERTAIN, told, [board], advice=advice)


def unified(view: View) -> Reason | None:
    """Its memory is the system's: what is used is not all its own."""
    if view.status.device.memory_kind is not MemoryKind.UNIFIED or not view.status.answered:
        return None
    told = say("Its memory is the system's")
    used = filled(view, "memory_used_bytes", view.total())
    told = told + (
        Clause(", of which programs on the CPU take a part too: ") + used if used else used
    )
    kind = view.derived("memory_kind", str(view.status.device.memory_kind))
    advice = "Nothing: it is built so. Free memory counts for both."
    return conclude(ReasonCode.UNIFIED, CERTAIN, told, [kind], advice=advice, mild=bool(used))


def unreadable(view: View) -> Reason | None:
    """Important values that cannot be read, with their reasons; no trouble if enough is known."""
    if view.status.state is not State.OK:
        return None
    gone = [name for name in VALUES if _is_unknown(view, name)]
    if not gone or (view.status.device.parent is not None and view.status.answered):
        return None
    told = listed(Clause(VALUES[name]) for name in gone)
    told = Clause("Unknown: " + told.words) + _common_reason(view, gone)
    more = [_absence(view, name) for name in gone]
    mild = bool(view.instances) or not (any(name in gone for name in JUDGED_BY) or _unowned(view))
    advice = "andon status --verbose gives every reason; andon doctor, how to change it."
    return conclude(ReasonCode.UNREADABLE, CERTAIN, told, more, advice=advice, mild=mild)


def nothing(view: View) -> Reason | None:
    """Nothing is wrong, with the readings that show it; none where there is no reading."""
    working = say("it works at {u}", u=view.read("utilization_percent") if view.works else None)
    idle = say("it is idle ({u})", u=view.read("utilization_percent") if view.idle else None)
    warm = say("{t} warm", t=view.read("temperature_celsius"))
    power = filled(view, "power_watts", view.read("power_limit_watts"))
    memory = say("memory {m} full", m=measured(view, memory_percent))
    nobody = say("nobody holds it", n=view.derived("processes", 0)) if _is_free(view) else Clause()
    holder = view.worker() if view.works else view.holder(view.processes)
    held = _held(view, holder) if view.idle and holder else Clause()
    told = together(working, idle, warm, power, memory, nobody, held)
    known = [name for name in HEALTH if view.read(name) is not None]
    if not known:
        return None
    confidence = (
        CERTAIN if len(known) == len(HEALTH) and view.sample.throttle is not None else LIKELY
    )
    more = [view.read("throttle"), view.read("sm_clock_mhz"), *view.who(holder)]
    return conclude(ReasonCode.HEALTHY, confidence, say("Nothing is wrong") + told, more, holder)


def _held(view: View, holder: Process) -> Clause:
    size = view.of_process(holder, "memory_bytes")
    return view.naming(holder) + say(" holds {size}", size=size) if size else Clause()


def absence(snapshot: Snapshot | None) -> tuple[Reason, ...]:
    """Why a node shows no device: what each backend said that found nothing."""
    faults = snapshot.faults if snapshot else ()
    if not faults:
        advice = "Is there one? lspci | grep -i -e vga -e 3d -e display"
        return (
            conclude(
                ReasonCode.NO_DEVICE, LIKELY, say("No GPU was found on this node"), advice=advice
            ),
        )
    return tuple(_of_fault(fault, snapshot.at if snapshot else None) for fault in faults)


def vanished(uuid: str, seen_at: float, at: float) -> Reason:
    """It was there in the past that was given, and is not listed now."""
    ago = Evidence("unlisted_seconds", max(0.0, at - seen_at), "s", at)
    told = say("It was there {ago} ago and is no longer listed", ago=ago)
    return conclude(ReasonCode.LOST, LIKELY, told, [Evidence("uuid", uuid)], advice=f"{LOOK}.")


def _of_fault(fault: Fault, at: float | None) -> Reason:
    source, reason = Evidence("source", fault.source), Evidence("fault", fault.reason, "", at)
    told = say("{source}: {reason}", source=source, reason=reason)
    advice = _sentence(fault.hint) or "andon doctor says more."
    return conclude(_code_of(fault.reason, ReasonCode.NO_DRIVER), CERTAIN, told, advice=advice)


def _code_of(reason: str, otherwise: ReasonCode) -> ReasonCode:
    """What kind of trouble a driver's words mean; backends write them, so a few words suffice."""
    words = reason.lower()
    if "version" in words and ("differ" in words or "mismatch" in words):
        return ReasonCode.VERSION_MISMATCH
    if "mismatch" in words:
        return ReasonCode.VERSION_MISMATCH
    if any(word in words for word in ("permission", "denied", "not permitted", "blocked")):
        return ReasonCode.NO_PERMISSION
    if any(word in words for word in ("no device", "no gpu", "no card", "device was found")):
        return ReasonCode.NO_DEVICE
    if any(word in words for word in ("not loaded", "not installed", "was not found", "no driver")):
        return ReasonCode.NO_DRIVER
    return otherwise


def _why(view: View) -> Clause:
    return say(": {reason}", reason=view.derived("reason", view.status.reason or None))


def _lasting(view: View) -> Clause:
    lasted = measured(view, state_seconds)
    return say(" for {s}", s=lasted) if (state_seconds(view) or 0) >= 1 else Clause()


def _state(view: View) -> Evidence:
    return Evidence("state", str(view.status.state), "", view.at)


def _last(view: View) -> list[Evidence]:
    """Its last temperature and power, with their own time: heat and power cuts lose cards."""
    sample = view.status.sample
    found = [("temperature_celsius", "°C"), ("power_watts", "W")] if sample else []
    pairs = [(name, getattr(sample, name), unit) for name, unit in found]
    at = sample.at if sample else None
    return [Evidence(f"last.{n}", value, unit, at) for n, value, unit in pairs if value is not None]


def _is_unknown(view: View, name: str) -> bool:
    if name == "processes":
        return "processes" in view.status.missing
    if name == "memory_used_bytes" and view.status.device.memory_kind is MemoryKind.UNIFIED:
        return False  # UNIFIED tells it
    return getattr(view.sample, name) is None


def _unowned(view: View) -> bool:
    """Whether memory is held and nobody can be asked about it."""
    used, total = view.sample.memory_used_bytes or 0, view.status.device.memory_total_bytes or 0
    return not view.knows_processes and used >= max(GIB, HELD_SHARE * total)


def _absence(view: View, name: str) -> Evidence:
    why = view.status.missing.get(name)
    return Evidence(f"missing.{name}", why, "", view.at) if why else Evidence(name, None)


def _common_reason(view: View, gone: list[str]) -> Clause:
    """The reason, where all share it; else each stands in the evidence."""
    reasons = {view.status.missing.get(name) or view.status.reason for name in gone}
    why = reasons.pop() if len(reasons) == 1 else None
    return say(" ({why})", why=view.derived("reason", why))


def _is_free(view: View) -> bool:
    held = [p for p in view.processes if p.kind is ProcessKind.COMPUTE]
    return view.idle and view.knows_processes and not held


def _sentence(words: str) -> str:
    words = words.strip()
    words = words[:1].upper() + words[1:]
    return words if not words or words[-1] in ".!?" else f"{words}."
