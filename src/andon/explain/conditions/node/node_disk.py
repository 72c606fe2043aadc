"""A disk of the node is nearly full."""

from collections.abc import Mapping

from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    Condition,
    Rung,
    Subject,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import BETWEEN, HOLDS, UNKNOWN, Finding, rung
from andon.explain.conditions.judging import OnNode
from andon.explain.conditions.promql import DEVICE, HALF, PromTerms, Query
from andon.explain.evidence.phrasing import Clause, phrase
from andon.model.device import Disk, Snapshot
from andon.model.thresholds import Figure, Thresholds
from andon.units import GIB

PERCENT = Figure(
    "node_disk_percent", 90.0, "how full a disk of the node may be", 1, 100, switch=True
)
SMALLEST_GIB = 8
CLEAR_PERCENT = 2
FREE_GIB, CLEAR_FREE_GIB = 100, 120
CRITICAL_PERCENT = 7  # above the first threshold
CRITICAL_FREE_GIB, CRITICAL_CLEAR_FREE_GIB = 20, 30


def judge(snapshot: Snapshot, figures: Thresholds) -> Finding | None:
    """Judges by share and by free space: a tenth of a large disk is plenty. Small disks do not
    count."""
    disks, least = snapshot.host.disk, figures.node_disk_percent
    if not disks:
        return UNKNOWN
    large = [disk for disk in disks if disk.total_bytes >= SMALLEST_GIB * GIB]
    full = [disk for disk in large if _is_full(disk, least - CLEAR_PERCENT, CLEAR_FREE_GIB)]
    if not full:
        return None
    worse, worst = least + CRITICAL_PERCENT, max(full, key=_percent)
    near = worse - CLEAR_PERCENT, CRITICAL_CLEAR_FREE_GIB
    rungs = (
        HOLDS if any(_is_full(disk, least, FREE_GIB) for disk in full) else BETWEEN,
        rung(
            any(_is_full(disk, worse, CRITICAL_FREE_GIB) for disk in full),
            not any(_is_full(disk, *near) for disk in full),
        ),
    )
    return Finding(rungs, _percent(worst), least, worst.total_bytes, worst)


def _is_full(disk: Disk, least: float, free_gib: float) -> bool:
    free = disk.total_bytes - disk.used_bytes
    return _percent(disk) >= least and free < free_gib * GIB


def _percent(disk: Disk) -> float:
    return round(100.0 * disk.used_bytes / disk.total_bytes, 1)


def describe(facts: ConditionFacts) -> Description:
    """Which disk it is, and how full."""
    disk: Disk = facts.finding.about
    return Description(
        Clause(f"Disk {disk.mount}") + phrase(" is {now} full", now=facts.value("disk_percent"))
    )


def _numbers(figures: Thresholds) -> Mapping[str, float | str]:
    least, worse = figures.node_disk_percent, figures.node_disk_percent + CRITICAL_PERCENT
    return {
        "least_gib": SMALLEST_GIB,
        "free_gib": FREE_GIB,
        "clear": least - CLEAR_PERCENT,
        "clear_free_gib": CLEAR_FREE_GIB,
        "critical": worse,
        "critical_free_gib": CRITICAL_FREE_GIB,
        "critical_clear": worse - CLEAR_PERCENT,
        "critical_clear_free_gib": CRITICAL_CLEAR_FREE_GIB,
    }


def _full(more: float, free: float, clear_free: float) -> Query:
    """The query for a disk this much above the first threshold, with less than this free."""

    def query(t: PromTerms, fires: str) -> str:
        least = t.figures.node_disk_percent + more
        clear = least - CLEAR_PERCENT
        used, total = t.m("node_disk_used_bytes"), t.m("node_disk_total_bytes")
        share, left = f"100 * {used} / {total}", f"{total} - {used}"
        full = f"{share} >= {least - HALF:g} and {left} < {free:g} * 2^30"
        near = f"{share} >= {clear - HALF:g} and {left} < {clear_free:g} * 2^30"
        mine = fires.replace(DEVICE, "instance, job, mount")
        return f"(({full}) or ({near} and {mine})) and {total} >= {SMALLEST_GIB} * 2^30"

    return query


CONDITION = Condition(
    name="node_disk",
    title="A disk is nearly full",
    subject_kind=Subject.NODE,
    why="Checkpoints, logs and the history cannot be written to a full disk.",
    advice="Free some space: du -xh --max-depth 2 MOUNT | sort -h | tail",
    judged=OnNode(judge),
    rungs=(
        Rung(
            WARNING,
            "a disk of {least_gib} GiB or more has {node_disk_percent} % used and less than "
            "{free_gib} GiB free",
            300, "none with {clear} % used and less than {clear_free_gib} GiB free", 300,
        ),
        Rung(
            CRITICAL,
            "{critical} % used and less than {critical_free_gib} GiB free",
            60,
            "none with {critical_clear} % used and less than {critical_clear_free_gib} GiB free",
            300,
        ),
    ),
    headline="has a nearly full disk",
    describe=describe,
    figures=(PERCENT,),
    numbers=_numbers,
    unit="percent",
    weight=9,
    promql=(
        _full(0, FREE_GIB, CLEAR_FREE_GIB),
        _full(CRITICAL_PERCENT, CRITICAL_FREE_GIB, CRITICAL_CLEAR_FREE_GIB),
    ),
)  # fmt: skip
