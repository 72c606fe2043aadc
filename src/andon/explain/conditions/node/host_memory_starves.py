"""The host is out of memory, or busy swapping, while devices with work wait."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import TENTH, OnNode
from andon.explain.conditions.promql import HALF, PromTerms
from andon.explain.evidence.phrasing import LIKELY, Clause, listed, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.model.device import DeviceStatus, Host, Process, ProcessKind, Snapshot, State
from andon.model.thresholds import Figure, Thresholds
from andon.model.utilisation import SCHEDULABLE_IDLE_PERCENT
from andon.units import fitting

PRESSURE = Figure(
    "host_memory_pressure_percent", 20.0,
    "for how much of the time a process may wait for the node's memory while devices wait",
    1, 100, switch=True,
)  # fmt: skip
FULL_PERCENT, CLEAR_FULL_PERCENT = 95.0, 92.0  # of the memory
CLEAR_SHARE = 0.5  # of the threshold
WAITING_SHARE = 0.5  # of the devices with work
STARVES = ReasonKind("host_memory_starves", "the host's memory is full or swapped out", 29)
ADVICE = (
    "See what uses the memory: ps aux --sort -rss | head. Load less at once: fewer loader workers, "
    "less pinned memory, smaller caches."
)


class StarvedHost(NamedTuple):
    """The state of the host's memory, and the users whose devices wait for it."""

    full_percent: float | None
    pressure_percent: float | None
    waiting: int
    working: int  # devices with a compute process
    processes: tuple[Process, ...]  # those on the devices that wait


def judge(snapshot: Snapshot, figures: Thresholds) -> Finding | None:
    """Judges the host first: if it has memory, no device is examined."""
    host, least = snapshot.host, figures.host_memory_pressure_percent
    pressure, full = host.memory_pressure_percent, full_percent(host)
    if pressure is None and full is None:
        return UNKNOWN
    if (pressure or 0.0) < CLEAR_SHARE * least and (full or 0.0) < CLEAR_FULL_PERCENT:
        return None
    about = _starved(snapshot, full, pressure)
    if not about.working or about.waiting < WAITING_SHARE * about.working:
        return UNKNOWN if _is_unsure(snapshot, about) else None
    if (pressure or 0.0) < least - TENTH and (full or 0.0) < FULL_PERCENT - TENTH:
        return NEITHER
    return Finding(ONE, pressure, least, about=about)


def full_percent(host: Host) -> float | None:
    if host.memory_used_bytes is None or not host.memory_total_bytes:
        return None
    return round(100.0 * host.memory_used_bytes / host.memory_total_bytes, 1)


def _starved(snapshot: Snapshot, full: float | None, pressure: float | None) -> StarvedHost:
    working = [status for status in snapshot.devices if _has_work(status)]
    waiting = [status for status in working if is_waiting(status)]
    return StarvedHost(full, pressure, len(waiting), len(working), tuple(_work(waiting)))


def _is_unsure(snapshot: Snapshot, about: StarvedHost) -> bool:
    """Whether devices that do not answer might be those that wait."""
    silent = any(status.state in (State.STALE, State.LOST) for status in snapshot.devices)
    return silent and not about.working


def _has_work(status: DeviceStatus) -> bool:
    known = status.sample is not None and status.sample.utilization_percent is not None
    return status.answered and known and any(True for _ in _work((status,)))


def is_waiting(status: DeviceStatus) -> bool:
    """Whether a device does almost nothing."""
    busy = None if status.sample is None else status.sample.utilization_percent
    return busy is not None and busy < SCHEDULABLE_IDLE_PERCENT


def _work(statuses: Iterable[DeviceStatus]) -> Iterable[Process]:
    return (p for s in statuses for p in s.processes if p.kind is ProcessKind.COMPUTE)


def describe(facts: ConditionFacts) -> Description | None:
    """How short of memory the host is, and what waits; nothing about a device that does not."""
    about: StarvedHost = facts.finding.about
    view = facts.view
    if view is not None and not (view.compute and is_waiting(view.status)):
        return None
    waiting = Evidence("devices_waiting", about.waiting)
    working = Evidence("devices_with_work", about.working)
    text = phrase("The memory of {it} ", facts.it) + _state(about)
    text += phrase(", while {n} of {all} devices with work", n=waiting, all=working)
    text += Clause(fitting(about.waiting, " waits", " wait"))
    more = [] if view is None else view.who(view.holder(view.compute))
    return Description(text, more, confidence=LIKELY)


def _state(about: StarvedHost) -> Clause:
    full, slow = about.full_percent, about.pressure_percent or None
    parts = (
        phrase("is {full} full", full=_percent("host.memory_percent", full)),
        phrase("makes processes wait {slow} of the time",
            slow=_percent("host.memory_pressure_percent", slow)),
    )  # fmt: skip
    return listed(parts)


def _percent(name: str, value: float | None) -> Evidence | None:
    return None if value is None else Evidence(name, value, "%")


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    return {
        "full": FULL_PERCENT,
        "clear_full": CLEAR_FULL_PERCENT,
        "clear": CLEAR_SHARE * figures.host_memory_pressure_percent,
        "idle": SCHEDULABLE_IDLE_PERCENT,
    }


def _query(t: PromTerms, fires: str) -> str:
    least, by = t.figures.host_memory_pressure_percent, "by (instance, job)"
    full = t.percent("node_memory_used_bytes", "node_memory_total_bytes")
    slow = f"100 * {t.m('node_memory_pressure_ratio')}"
    short = f"{slow} >= {least - HALF:g} or {full} >= {FULL_PERCENT - HALF:g}"
    still = f"{slow} >= {CLEAR_SHARE * least:g} or {full} >= {CLEAR_FULL_PERCENT:g}"
    work = f'on (instance, job, device, uuid) {t.m("gpu_processes")}{{kind="compute"}} > 0'
    busy = t.m("gpu_utilization_percent")
    idle = f"count {by} ({busy} < {SCHEDULABLE_IDLE_PERCENT} and {work})"
    waits = f"{idle} >= {WAITING_SHARE:g} * count {by} ({busy} and {work})"
    return f"(({short}) or (({still}) and {fires})) and on (instance, job) ({waits})"


CONDITION = Condition(
    name="host_memory_starves",
    title="Devices wait for the host's memory",
    subject_kind=Subject.NODE,
    why="The host has no memory left, or is busy swapping, and the devices wait for it.",
    advice=ADVICE,
    judged=OnNode(judge),
    rungs=(
        Rung(
            WARNING,
            "processes wait for memory {host_memory_pressure_percent} % of the time, or {full} % "
            "of it is in use, and half of the devices with work are less than {idle} % busy",
            120, "below {clear} % and {clear_full} %, or the devices work", 120,
        ),
    ),
    describe=describe,
    figures=(PRESSURE,),
    numbers=_numbers,
    unit="percent",
    weight=10,
    behind=("node_memory",),
    kinds=(STARVES,),
    promql=(_query,),
)  # fmt: skip
