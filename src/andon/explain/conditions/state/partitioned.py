"""A board is divided into MIG instances, or the device is one of them; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View, part_of_whole

PARTITIONED = ReasonKind("partitioned", "divided into MIG instances, or one of them", 18, mild=5)
"""Milder: its utilisation is still known."""
OF_BOARD = "For memory and processes, ask about an instance."
OF_INSTANCE = "Ask about the board: what slows or heats it also affects this instance."


def explain(view: View) -> Description | None:
    """Explains a MIG instance, which has few readings, or a board used through instances."""
    parent, parts = view.device.parent, len(view.instances)
    if not view.status.answered or (parent is None and not parts):
        return None
    return _board(view, parts) if parent is None else _instance(view, parent)


def _board(view: View, parts: int) -> Description:
    count = view.derived("instances", parts)
    text = phrase("Divided into {n} MIG instances, each a device of its own", n=count)
    known = view.sample.utilization_percent is not None
    return Description(text, advice=OF_BOARD, mild=known)


def _instance(view: View, parent: str) -> Description:
    board = view.derived("parent", parent)
    used = part_of_whole(view, "memory_used_bytes", view.total())
    text = phrase("MIG instance") + (Clause(" (") + used + Clause(" used)") if used else used)
    text = text + Clause(": utilisation, temperature and power are measured only for its board")
    return Description(text, [board], advice=OF_INSTANCE)


CONDITION = Condition(
    name="partitioned",
    title="Divided into instances",
    why="A MIG instance has few readings, and its board is used through its instances.",
    advice=f"{OF_BOARD} {OF_INSTANCE}",
    judged=OnRequest(explain),
    kinds=(PARTITIONED,),
)
