"""A process holds the device and nothing runs on it; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.memory.phrases import hoarder, idle_confidence
from andon.explain.conditions.use.phrases import settled
from andon.explain.evidence.measures import idle_seconds, measured, utilization_max_percent
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Process
from andon.model.utilisation import BARELY_BUSY_PERCENT

IDLE_HELD = ReasonKind("idle_held", "a process holds it, and nothing runs on it", 33)


def explain(view: View) -> Description | None:
    """Explains a device that a process holds and on which nothing runs."""
    lasted, most = idle_seconds(view), utilization_max_percent(view)
    if not settled(view) or not lasted or most is None or most > BARELY_BUSY_PERCENT:
        return None  # one sample, or a pause in the last minute, does not mean idle
    if any(p.utilization_percent for p in view.compute) or hoarder(view) is not None:
        return None
    text = phrase("Occupied but idle: {u}", u=view.read("utilization_percent"))
    text = text + phrase(" for {s}", s=measured(view, idle_seconds))
    holder = view.holder(view.compute) or (view.compute[0] if len(view.compute) == 1 else None)
    text = text + Clause(", ") + _holding(view, holder)
    more = [view.derived("processes", len(view.processes))]
    return Description(text, more, holder, confidence=idle_confidence(lasted))


def _holding(view: View, holder: Process | None) -> Clause:
    if holder is None:
        return phrase("{n} processes hold it", n=view.derived("compute", len(view.compute)))
    held = phrase(" holds {held}", held=view.of_process(holder, "memory_bytes"))
    return view.naming(holder) + (held or Clause(" holds it"))


CONDITION = Condition(
    name="occupied",
    title="Occupied but idle",
    why="A process holds it, and nothing has run on it for a while.",
    advice="Ask its owner whether it is still needed. A notebook holds it until its kernel ends; "
    "an inference server without requests looks the same.",
    judged=OnRequest(explain),
    explains=("idle",),
    kinds=(IDLE_HELD,),
)
