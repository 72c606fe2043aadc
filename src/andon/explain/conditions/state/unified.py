"""The device shares the system's memory, so not all of it is its own; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View, part_of_whole
from andon.model.device import MemoryKind

UNIFIED = ReasonKind("unified", "shares the system's memory", 17, mild=4)
"""Milder: how much is used is known."""
ADVICE = "Nothing to do: this chip shares system memory by design."


def explain(view: View) -> Description | None:
    """Explains that the device shares the system's memory."""
    if view.device.memory_kind is not MemoryKind.UNIFIED or not view.status.answered:
        return None
    text = phrase("Shares the system's memory")
    used = part_of_whole(view, "memory_used_bytes", view.total())
    text = text + (Clause(" with programs on the CPU: ") + used if used else used)
    kind = view.derived("memory_kind", str(view.device.memory_kind))
    return Description(text, [kind], advice=ADVICE, mild=bool(used))


CONDITION = Condition(
    name="unified",
    title="Shares the system's memory",
    why="Programs on the CPU use the same memory: not all of what is used is its own.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(UNIFIED,),
)
