"""How the rules judge the node itself, and the troubles that andon reports about itself."""

from collections.abc import Iterable, Iterator

from andon.core.conditions.finding import NEITHER, UNKNOWN, Judgement
from andon.core.conditions.rules import BY_NAME
from andon.core.conditions.state import OwnTrouble
from andon.core.conditions.thresholds import (
    CPU_CLEAR_PERCENT,
    DISK_CLEAR_FREE_GIB,
    DISK_CLEAR_PERCENT,
    DISK_CRITICAL_CLEAR_FREE_GIB,
    DISK_CRITICAL_FREE_GIB,
    DISK_CRITICAL_PERCENT,
    DISK_FREE_GIB,
    NODE_MEMORY_CLEAR_PERCENT,
    NODE_MEMORY_CRITICAL_CLEAR_PERCENT,
    NODE_MEMORY_CRITICAL_PERCENT,
    SMALLEST_DISK_GIB,
    Thresholds,
)
from andon.model.device import Disk, Host, Snapshot
from andon.units import GIB


def node_findings(snapshot: Snapshot, figures: Thresholds) -> dict[str, Judgement]:
    """The findings of the node's rules; a rule that is missing is calm."""
    host = snapshot.host
    found = {
        "node_cpu": _cpu(host, figures),
        "node_memory": _memory(host, figures),
        "node_disk": _disks(host, figures),
    }
    return {name: finding for name, finding in found.items() if finding is not None}


def trouble_findings(troubles: Iterable[OwnTrouble]) -> Iterator[tuple[str, str, Judgement]]:
    """Subject, rule and finding for every part of andon that reports a problem."""
    for trouble in troubles:
        rule = trouble.subject.partition(":")[0]
        if rule in BY_NAME:
            yield trouble.subject, rule, Judgement(1, details=(trouble.reason, trouble.hint))


def _cpu(host: Host, figures: Thresholds) -> Judgement | None:
    now, least = host.cpu_percent, figures.node_cpu_percent
    if now is None:
        return UNKNOWN
    if now <= least - CPU_CLEAR_PERCENT:
        return None
    return Judgement(1, 0, now, least) if now >= least else NEITHER


def _memory(host: Host, figures: Thresholds) -> Judgement | None:
    if host.memory_used_bytes is None or not host.memory_total_bytes:
        return UNKNOWN
    now = round(100.0 * host.memory_used_bytes / host.memory_total_bytes, 1)
    least = figures.node_memory_percent
    if now <= least - NODE_MEMORY_CLEAR_PERCENT:
        return None
    worse = least + NODE_MEMORY_CRITICAL_PERCENT
    holds = (now >= least) | (now >= worse) << 1
    calm = (now <= worse - NODE_MEMORY_CRITICAL_CLEAR_PERCENT) << 1
    return Judgement(holds, calm, now, least, host.memory_total_bytes)


def _disks(host: Host, figures: Thresholds) -> Judgement | None:
    if not host.disk:
        return UNKNOWN
    least = figures.node_disk_percent
    worse = least + DISK_CRITICAL_PERCENT
    large = [disk for disk in host.disk if disk.total_bytes >= SMALLEST_DISK_GIB * GIB]
    full = [d for d in large if _is_full(d, least - DISK_CLEAR_PERCENT, DISK_CLEAR_FREE_GIB)]
    if not full:
        return None
    worst = max(full, key=_percent)
    warning = any(_is_full(disk, least, DISK_FREE_GIB) for disk in full)
    critical = any(_is_full(disk, worse, DISK_CRITICAL_FREE_GIB) for disk in full)
    near = worse - DISK_CLEAR_PERCENT, DISK_CRITICAL_CLEAR_FREE_GIB
    calm = 0 if any(_is_full(disk, *near) for disk in full) else 0b10
    holds = warning | critical << 1
    return Judgement(holds, calm, _percent(worst), least, worst.total_bytes, (worst.mount, worst))


def _is_full(disk: Disk, percent: float, free_gib: float) -> bool:
    free = disk.total_bytes - disk.used_bytes
    return _percent(disk) >= percent and free < free_gib * GIB


def _percent(disk: Disk) -> float:
    return round(100.0 * disk.used_bytes / disk.total_bytes, 1)
