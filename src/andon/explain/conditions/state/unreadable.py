"""Important values of a device cannot be read; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.phrasing import Clause, listed, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import MemoryKind, State
from andon.units import GIB

VALUES = {
    "utilization_percent": "utilisation",
    "memory_used_bytes": "memory",
    "temperature_celsius": "temperature",
    "power_watts": "power",
    "processes": "processes",
}
JUDGED_BY = ("utilization_percent", "memory_used_bytes")
HELD_SHARE = 0.1
UNREADABLE = ReasonKind("unreadable", "important values cannot be read", 42, mild=6)
"""Milder: enough can be read to judge it."""
ADVICE = "andon status --verbose lists every reason; andon doctor suggests fixes."


def explain(view: View) -> Description | None:
    """Explains important values that cannot be read; no problem if enough is known."""
    if view.status.state is not State.OK:
        return None
    unknown = [name for name in VALUES if _is_unknown(view, name)]
    if not unknown or (view.device.parent is not None and view.status.answered):
        return None
    text = listed(Clause(VALUES[name]) for name in unknown)
    text = Clause("Unknown: " + text.text) + _common_reason(view, unknown)
    more = [_absence(view, name) for name in unknown]
    judged = not any(name in unknown for name in JUDGED_BY) and not _unowned(view)
    mild = bool(view.instances) or judged
    return Description(text, more, advice=ADVICE, mild=mild)


def _is_unknown(view: View, name: str) -> bool:
    if name == "processes":
        return "processes" in view.status.missing
    if name == "memory_used_bytes" and view.device.memory_kind is MemoryKind.UNIFIED:
        return False  # the condition `unified` reports that
    return getattr(view.sample, name) is None


def _unowned(view: View) -> bool:
    """Whether memory is held by processes that cannot be listed."""
    used, total = view.sample.memory_used_bytes or 0, view.device.memory_total_bytes or 0
    return not view.knows_processes and used >= max(GIB, HELD_SHARE * total)


def _absence(view: View, name: str) -> Evidence:
    why = view.status.missing.get(name)
    return Evidence(f"missing.{name}", why, "", view.at) if why else Evidence(name, None)


def _common_reason(view: View, unknown: list[str]) -> Clause:
    """Returns the reason, if all share it; otherwise each is in the evidence."""
    reasons = {view.status.missing.get(name) or view.status.reason for name in unknown}
    why = reasons.pop() if len(reasons) == 1 else None
    return phrase(" ({why})", why=view.derived("reason", why))


CONDITION = Condition(
    name="unreadable",
    title="Values cannot be read",
    why="Important values are unknown, so trouble may go unnoticed.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(UNREADABLE,),
)
