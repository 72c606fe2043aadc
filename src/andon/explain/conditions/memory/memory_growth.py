"""Memory rises, though not yet for long enough to be sure; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.memory.memory_leak import LEAK
from andon.explain.evidence.growth import growth
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, phrase
from andon.explain.evidence.view import View

SOON_SECONDS = 3600.0
LONG_SECONDS = 300.0


def explain(view: View) -> Description | None:
    """Explains how much it has risen in the last minutes, and when it would be full."""
    found = growth(view)
    if found is None or not view.owns_memory:
        return None
    text = phrase(
        "Memory grows steadily: by {rise} in {seconds}",
        rise=view.derived("memory_rise_bytes", found.rise_bytes),
        seconds=view.derived("memory_rise_seconds", found.seconds),
    )
    left = view.derived("full_in_seconds", found.full_in_seconds)
    text += phrase("; full in {left} at this rate", left=left)
    rate = view.derived("memory_growth_bytes_per_second", found.bytes_per_second)
    more = [rate, view.read("memory_used_bytes"), view.read("memory_free_bytes")]
    soon = found.full_in_seconds is not None and found.full_in_seconds <= SOON_SECONDS
    return Description(
        text, more, found.process,
        confidence=LIKELY if found.seconds >= LONG_SECONDS else POSSIBLE, mild=not soon,
    )  # fmt: skip


CONDITION = Condition(
    name="memory_growth",
    title="Memory is rising",
    why="It has risen steadily for at least a minute: it may be filling up.",
    advice="Save the work before memory runs out, and check what is kept at each step.",
    judged=OnRequest(explain),
    behind=("memory_leak",),
    explains=("memory_leak",),
    kinds=(LEAK,),
)
