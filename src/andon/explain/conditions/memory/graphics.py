"""A desktop uses memory; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.memory.phrases import is_full
from andon.explain.evidence.measures import graphics_memory_bytes, measured
from andon.explain.evidence.phrasing import phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.units import MIB

DESKTOP_BYTES = 128 * MIB
DESKTOP_SHARE, DESKTOP_MUCH = 0.1, 0.25
GRAPHICS = ReasonKind("graphics", "a desktop uses memory", 15, mild=3)
"""Milder: it uses little."""
ADVICE = "Nothing to do unless memory is short; then log out of the desktop, or move it."


def explain(view: View) -> Description | None:
    """Explains memory that a desktop uses; a problem if little is left."""
    held = graphics_memory_bytes(view)
    if held is None or held < DESKTOP_BYTES:
        return None
    text = phrase("A desktop uses {held} of its memory", held=measured(view, graphics_memory_bytes))
    total = view.device.memory_total_bytes
    share = 0.0 if not total else held / total
    much = share >= DESKTOP_MUCH or (is_full(view) and share >= DESKTOP_SHARE)
    process = view.holder(view.graphics)
    return Description(text, [view.total()], process, ADVICE, mild=not much)


CONDITION = Condition(
    name="graphics",
    title="Memory used by a desktop",
    why="A desktop uses part of its memory; a problem only if little is left.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(GRAPHICS,),
)
