"""An idle process holds memory that others could use; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.memory.phrases import hoarder, idle_confidence, is_full
from andon.explain.conditions.open_files import find_who
from andon.explain.evidence.measures import measured, memory_percent, process_idle_seconds
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Process

IDLE_MEMORY = ReasonKind("idle_memory", "memory held by an idle process", 46, mild=38)
"""Milder: there is memory left."""
ADVICE = "Ask its owner whether it is still needed; stopping it frees the memory."


def explain(view: View) -> Description | None:
    """Explains memory that an idle process holds and others could use."""
    process = hoarder(view)
    if process is None:
        return None
    lasted, roomy = process_idle_seconds(view, process), not is_full(view)
    share = measured(view, memory_percent)
    text = _holding(view, process, lasted)
    text = text + phrase("; memory is {share} full", share=None if roomy else share)
    more = [share, view.read("utilization_percent")]
    advice = ""
    if process.user is None and process.name is None:
        advice = f"It is not visible here: it crashed, or is in another container. {find_who(view)}"
    confidence = idle_confidence(lasted)
    return Description(text, more, process, advice, confidence=confidence, mild=roomy)


def _holding(view: View, process: Process, idle_seconds: float | None) -> Clause:
    held = view.of_process(process, "memory_bytes")
    text = Clause("Idle process holds memory: ") + view.naming(process)
    text = text + phrase(" holds {held}", held=held)
    if not idle_seconds:
        return text + Clause(" and is idle")
    lasted = view.derived("process.idle_seconds", idle_seconds)
    return text + phrase(" and has been idle for {s}", s=lasted)


CONDITION = Condition(
    name="idle_memory",
    title="Idle process holds memory",
    why="An idle process holds memory that others could use.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(IDLE_MEMORY,),
)
