"""Memory is in use by no visible process: shown, and notified if the device is idle."""

from collections.abc import Mapping

from andon.explain.conditions.condition import INFO, WARNING, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import BETWEEN, CALM, HOLDS, NO_DATA, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.open_files import FIND_WHO, find_who
from andon.explain.conditions.promql import DEVICE, HALF, PromTerms
from andon.explain.evidence.blame import (
    CONTEXT_BYTES,
    LEAST_BYTES,
    least_unattributed_bytes,
    owns_memory,
)
from andon.explain.evidence.departures import EndedProcess
from andon.explain.evidence.measures import memory_unattributed_bytes
from andon.explain.evidence.phrasing import CERTAIN, LIKELY, Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure, Thresholds
from andon.model.utilisation import ZERO_READING
from andon.units import GIB

PERCENT = Figure(
    "unattributed_percent",
    10.0,
    "how much of its memory may be unaccounted for by any process",
    0,
    100,
    switch=True,
)
BYTES = Figure(
    "unattributed_bytes",
    float(GIB),
    "the least such memory that counts, whatever its share",
    0,
    10_000_000_000_000,
)
CLEAR_SHARE = 0.5
UNATTRIBUTED = ReasonKind("unattributed_memory", "memory held by no visible process", 48)


def judge(seen: View) -> Finding | None:
    """Judges memory used by no visible process; people are notified if the device is idle."""
    total, used = seen.device.memory_total_bytes, seen.sample.memory_used_bytes
    if used is not None and used <= LEAST_BYTES:
        return None  # even all of it would not be much
    if not owns_memory(seen.device, seen.divided):
        return None
    spare = seen.status.memory_unattributed_bytes
    if used is None or spare is None:
        return UNKNOWN
    if spare <= least_unattributed_bytes(total, len(seen.status.processes)):
        return None
    if not total:
        return Finding((NO_DATA, NO_DATA), spare, notable=True)
    return _judged(spare, total, seen.sample.utilization_percent, seen.figures)


def _judged(spare: int, total: int, busy: int | None, figures: Thresholds) -> Finding:
    """Judges unattributed memory; the second rung needs an idle device, and is unknown without that
    reading."""
    in_use = NO_DATA if busy is None else CALM
    share = round(100.0 * spare / total, 1)
    large = share >= figures.unattributed_percent and spare >= figures.unattributed_bytes
    calm = share <= CLEAR_SHARE * figures.unattributed_percent
    state = HOLDS if large else CALM if calm else BETWEEN
    least = max(figures.unattributed_bytes, figures.unattributed_percent / 100 * total)
    rungs = (state, state if busy == ZERO_READING else in_use)
    return Finding(rungs, spare, least, total, notable=not large)


def describe(facts: ConditionFacts) -> Description:
    """How much memory it is, and which process may have left it."""
    spare, view = facts.value("memory_unattributed_bytes"), facts.device
    text = phrase(
        "{it}: no visible process accounts for {spare} of its memory", facts.it, spare=spare
    )
    left = _left(view, int(facts.finding.value or 0))
    dead = None if left is None else left.process
    if left is not None:
        text += Clause("; ") + view.naming(left.process) + _held(view, left)
    more = [view.read("memory_used_bytes"), view.derived("processes", len(view.processes))]
    advice = f"Perhaps one that crashed, is in another container, or is hidden. {find_who(view)}"
    return Description(text, more, dead, advice, CERTAIN if dead else LIKELY)


def _held(view: View, left: EndedProcess) -> Clause:
    """Returns ` held 40.0 GiB until 12 min ago and has exited`; a process that still runs may
    have left only this device."""
    held = phrase(
        " held {held} until {ago} ago",
        held=view.of_process(left.process, "memory_bytes"),
        ago=view.derived("process.left_seconds", max(0.0, view.at - left.last)),
    )
    return held + Clause(" and has exited" if left.exited else " and is no longer on this GPU")


def _left(view: View, spare: int) -> EndedProcess | None:
    """Returns the last process that is gone and held about as much as is now unattributed."""
    sized = ((one, one.process.memory_bytes) for one in view.departed())
    near = [one for one, size in sized if size and 0.5 * spare <= size <= 1.5 * spare]
    return near[-1] if near else None


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    return {
        "gib": figures.unattributed_bytes / GIB,
        "clear": figures.unattributed_percent * CLEAR_SHARE,
    }


def _shown(t: PromTerms, fires: str) -> str:
    spare, least = t.m("gpu_memory_unattributed_bytes"), t.figures.unattributed_percent
    share = f"100 * {spare} / {t.m('gpu_memory_total_bytes')}"
    large = f"{share} >= {least - HALF:g} and {spare} >= {t.figures.unattributed_bytes:.15g}"
    counted = f"sum by ({DEVICE}) ({t.m('gpu_processes')})"
    overhead = f"{spare} <= on ({DEVICE}) {CONTEXT_BYTES} * {counted}"
    near = f"{share} > {CLEAR_SHARE * least:g} and {fires}"
    return f"({large} or ({near})) unless on ({DEVICE}) {overhead}"


def _notified(t: PromTerms, fires: str) -> str:
    return f"({_shown(t, fires)}) and {t.m('gpu_utilization_percent')} == {ZERO_READING}"


CONDITION = Condition(
    name="unattributed_memory",
    title="Unattributed memory",
    why="A process that crashed, or that you cannot see, keeps it from others.",
    advice=FIND_WHO,
    judged=OnReading(judge),
    possible_if=(
        f"utilization_percent <= {ZERO_READING}",
        "memory_unattributed_bytes >= unattributed_bytes",
    ),
    rungs=(
        Rung(
            INFO,
            "{unattributed_percent} % of its memory, and {gib} GiB, and more than 256 MiB for "
            "each process",
            600, "{clear} %", 120, notify=False,
        ),
        Rung(WARNING, "that, while its utilisation is 0", 600, "in use, or the above", 120),
    ),
    label="memory held",
    headline="has memory held by no visible process",
    describe=describe,
    measure=memory_unattributed_bytes,
    figures=(PERCENT, BYTES),
    numbers=_numbers,
    unit="bytes",
    weight=5,
    behind=("leftover_memory",),
    kinds=(UNATTRIBUTED,),
    promql=(_shown, _notified),
)  # fmt: skip
