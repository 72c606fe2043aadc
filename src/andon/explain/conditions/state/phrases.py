"""What the explanations of a missing device share, and what `why` says if there is none."""

from andon.explain.conditions.description import Description, conclude
from andon.explain.evidence.blame import listed_users
from andon.explain.evidence.measures import measured, memory_percent, state_seconds
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, Clause, phrase
from andon.explain.evidence.reasons import Evidence, Reason, ReasonKind
from andon.explain.evidence.view import View, after_colon, part_of_whole
from andon.model.device import Fault, Process, ProcessKind

FIND_CAUSE = "Find the cause: sudo dmesg | grep -i -e xid -e nvrm"
HEALTH = ("utilization_percent", "temperature_celsius")

LOST = ReasonKind("lost", "the driver reports it as lost", 100)
VERSION_MISMATCH = ReasonKind(
    "version_mismatch", "the driver and its library differ in version", 99
)
NO_PERMISSION = ReasonKind("no_permission", "andon may not read it", 98)
NO_DRIVER = ReasonKind("no_driver", "its driver is not installed or not loaded", 97)
NO_DEVICE = ReasonKind("no_device", "the node has none", 20)
FAULT_KINDS = (VERSION_MISMATCH, NO_PERMISSION, NO_DRIVER, NO_DEVICE)
HEALTHY = ReasonKind("healthy", "nothing is wrong", 10)
UNREPORTED = ReasonKind("unreported", "its node does not report to the hub", 60)
ALERT = ReasonKind("alert", "an alert that the last readings do not explain", 30)


def healthy(view: View) -> Reason | None:
    """Explains that nothing is wrong, with the readings that show it; None without readings."""
    known = [name for name in HEALTH if view.read(name) is not None]
    if not known:
        return None
    holder = None if view.works else view.holder(view.processes)
    whom = view.worker() or holder
    complete = len(known) == len(HEALTH) and view.sample.throttle is not None
    more = [view.read("throttle"), view.read("sm_clock_mhz")]
    text = phrase("OK") + _readings(view, holder)
    sure = CERTAIN if complete else LIKELY
    return conclude(HEALTHY, Description(text, more, whom, confidence=sure), view)


def nothing_found() -> Reason:
    """Returns why a node shows no device if no backend reported anything."""
    advice = "Check whether there is one: lspci | grep -i -e vga -e 3d -e display"
    text = phrase("No GPU found on this node")
    return conclude(NO_DEVICE, Description(text, advice=advice, confidence=LIKELY))


def unreported(view: View) -> Reason:
    """Explains a device whose node no longer reports to the hub."""
    advice = "Look at that machine: does it run, and reach the hub? There: andon doctor"
    known = [state_evidence(view), *last_readings(view)]
    reason = phrase(": {reason}", reason=view.derived("reason", view.status.reason or None))
    return conclude(UNREPORTED, Description(phrase("Unknown") + reason, known, advice=advice))


def vanished(uuid: str, seen_at: float, at: float) -> Reason:
    """Explains a device that was present in the past and is no longer listed."""
    ago = Evidence("unlisted_seconds", max(0.0, at - seen_at), "s", at)
    text = phrase("Last seen {ago} ago; no longer listed", ago=ago)
    more, advice = [Evidence("uuid", uuid)], f"{FIND_CAUSE}."
    return conclude(LOST, Description(text, more, advice=advice, confidence=LIKELY))


def kind_of(reason: str, otherwise: ReasonKind) -> ReasonKind:
    """The kind of a backend's reason text, by the phrases that backends use."""
    text = reason.lower()
    if "mismatch" in text or ("version" in text and "differ" in text):
        return VERSION_MISMATCH
    if any(phrase in text for phrase in ("permission", "denied", "not permitted", "blocked")):
        return NO_PERMISSION
    if any(phrase in text for phrase in ("no device", "no gpu", "no card", "device was found")):
        return NO_DEVICE
    if any(p in text for p in ("not loaded", "not installed", "was not found", "no driver")):
        return NO_DRIVER
    return otherwise


def last_users(view: View) -> Evidence | None:
    """Returns who was last on it."""
    return view.derived("last.users", listed_users(view.status.last_users) or None)


def lasting(view: View) -> Clause:
    """Returns ` for at least 3 min`, or nothing."""
    lasted = measured(view, state_seconds)
    return phrase(" for at least {s}", s=lasted) if (state_seconds(view) or 0) >= 1 else Clause()


def state_evidence(view: View) -> Evidence:
    return Evidence("state", str(view.status.state), "", view.at)


def last_readings(view: View) -> list[Evidence]:
    """Returns the last temperature and power with their time: heat and power cuts cause losses."""
    sample = view.status.sample
    found = [("temperature_celsius", "°C"), ("power_watts", "W")] if sample else []
    pairs = [(name, getattr(sample, name), unit) for name, unit in found]
    at = sample.at if sample else None
    return [Evidence(f"last.{n}", value, unit, at) for n, value, unit in pairs if value is not None]


def as_sentence(text: str) -> str:
    """Returns the text with a capital and a full stop."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if not text or text[-1] in ".!?" else f"{text}."


def kind_of_fault(fault: Fault) -> ReasonKind:
    """Returns the kind of a fault by its code, or by its text if a backend gives no code."""
    if fault.cards == 0:
        return NO_DEVICE
    known = {kind.code: kind for kind in FAULT_KINDS}
    return known.get(fault.code) or kind_of("" if fault.code else fault.reason, NO_DRIVER)


def of_fault(fault: Fault, at: float | None) -> Reason:
    """Returns the reason that a backend reported."""
    source, reason = Evidence("source", fault.source), Evidence("fault", fault.reason, "", at)
    text = phrase("{source}: {reason}", source=source, reason=reason)
    advice = as_sentence(fault.hint) or "Run andon doctor for details."
    more = [None if fault.cards is None else Evidence("cards", fault.cards, "", at)]
    return conclude(kind_of_fault(fault), Description(text, more, advice=advice))


def _readings(view: View, holder: Process | None) -> Clause:
    """`: 97 % busy, 61 °C, 310 W of 400 W, memory 80 % full`."""
    busy = view.read("utilization_percent")
    return after_colon(
        phrase("{u} busy", u=busy if view.works else None),
        phrase("idle ({u})", u=busy if view.idle else None),
        phrase("{t}", t=view.read("temperature_celsius")),
        part_of_whole(view, "power_watts", view.read("power_limit_watts")),
        phrase("memory {m} full", m=measured(view, memory_percent)),
        _free(view),
        _held(view, holder) if view.idle and holder else Clause(),
    )


def _held(view: View, holder: Process) -> Clause:
    size = view.of_process(holder, "memory_bytes")
    return view.naming(holder) + phrase(" holds {size}", size=size) if size else Clause()


def _free(view: View) -> Clause:
    held = [p for p in view.processes if p.kind is ProcessKind.COMPUTE]
    if not view.idle or not view.knows_processes or held:
        return Clause()
    return phrase("no compute processes", n=view.derived("processes", 0))
