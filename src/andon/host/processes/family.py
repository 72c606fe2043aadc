"""Which process started which, of all that are visible; and what is known about one of them."""

import os
import time
from pathlib import Path

from msgspec import Struct

from andon.host.processes.handles import ProcessHandle, stat_of
from andon.host.processes.procfs import ProcessFacts, ProcFolder
from andon.host.rules.attribution import describe
from andon.host.rules.proc_stat import ENDED, KERNEL_THREAD
from andon.model.programs import program_of
from andon.units import printable


class HeldFacts(Struct, frozen=True):
    """What /proc says about a process while it is held."""

    facts: ProcessFacts
    program: str
    age_seconds: float
    kernel_thread: bool
    container: str | None
    job: str | None


def parents() -> dict[int, int]:
    """The parent of every visible process that has not ended."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names
        if name.isdecimal() and (stat := stat_of(int(name))) and stat.state not in ENDED:
            found[int(name)] = stat.parent
    return found


def ancestry(pid: int) -> frozenset[int]:
    """A process and its ancestors."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        stat = stat_of(pid)
        pid = 0 if stat is None else stat.parent
    return frozenset(found)


def short_name(pid: int) -> str:
    stat = stat_of(pid)
    return "?" if stat is None else printable(os.fsdecode(stat.comm))


def read_facts(handle: ProcessHandle) -> HeldFacts:
    """Read while the process is held: what has another pid's is not believed by its start."""
    folder, stat = ProcFolder(Path("/")), handle.stat
    facts = folder.facts(handle.pid, (stat.start_ticks, stat.comm, 0))
    belonging = folder.belonging(handle.pid)
    return HeldFacts(
        facts,
        program_of(facts.command, facts.name) or printable(os.fsdecode(stat.comm)),
        max(0.0, time.time() - facts.started),
        bool(stat.flags & KERNEL_THREAD),
        describe(belonging),
        belonging.job,
    )
