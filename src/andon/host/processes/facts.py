"""What the operating system knows about a process: user, program, container and job."""

import math
import os
import select
import sys
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from andon.host.background_lookup import BackgroundLookup
from andon.host.processes.containers import ContainerNames, shared_names
from andon.host.processes.procfs import (
    ProcessCounters,
    ProcessFacts,
    ProcessParent,
    ProcFolder,
    Stamp,
    command_line,
)
from andon.host.rules.attribution import ProcessMembership, describe
from andon.model.device import Process
from andon.units import printable

# Checks whether a set of processes is still alive with one system call.
#
# A pidfd refers to one process and never to a later one with the same pid, and becomes readable
# when the process ends: one poll replaces reading /proc for each.

MOST_PROCESSES = 256  # descriptors are limited; more processes than this are read one by one


class Liveness:
    """Detects the end of processes in a set. Not thread-safe."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._poll = select.poll() if hasattr(select, "poll") else None

    def watch(self, pids: Iterable[int]) -> bool:
        """Watches these from now on; returns False if that is not possible."""
        self.close()
        wanted = list(pids)
        if self._poll is None or not hasattr(os, "pidfd_open") or len(wanted) > MOST_PROCESSES:
            return False
        try:
            for pid in wanted:
                self._open(pid)
        except OSError:  # an old kernel, or out of descriptors
            self.close()
            return False
        return True

    def all_live(self) -> bool:
        """Whether none has ended since `watch`."""
        return self._poll is not None and not self._poll.poll(0)

    def close(self) -> None:
        for descriptor in self._descriptors:
            if self._poll is not None:
                self._poll.unregister(descriptor)
            os.close(descriptor)
        self._descriptors = []

    def _open(self, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # in another namespace or exited: nothing to watch
        self._descriptors.append(descriptor)
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLIN)

    def __del__(self) -> None:
        self.close()


FOREIGN = (
    "these are pids of the host, whose processes are not visible in this container: "
    "start it with --pid host"
)
HIDDEN = "/proc is mounted with hidepid, so other users' processes are hidden"
LATE = "still being looked up"
RECHECK_SECONDS = 30.0
SAME_START_SECONDS = 2.0  # between two ways of reading when a process was started
_NAME_WAIT_SECONDS = 0.2  # in total per round, and only for new containers
_MAX_ANCESTORS = 64


class _Source(Protocol):
    def stamp(self, pid: int) -> Stamp | None: ...
    def keep(self, pids: Container[int]) -> None: ...
    def facts(self, pid: int, stamp: Stamp) -> ProcessFacts: ...
    def belonging(self, pid: int) -> ProcessMembership: ...
    def use(self, pid: int) -> ProcessCounters | None: ...
    def link(self, pid: int) -> ProcessParent | None: ...
    def holds_a_device(self, pid: int) -> bool: ...
    def sees_host_pids(self) -> bool: ...
    def hides_pids(self) -> bool: ...


class KnownProcess(NamedTuple):
    """What was last read about a process."""

    stamp: Stamp
    facts: ProcessFacts
    container: str | None
    job: str | None
    unnamed: ProcessMembership | None = None  # its container has an id, and may still get a name


Question = tuple[int, Stamp]
"""A pid, and which process with that pid."""


class Learner:
    """Reads details of a process, which may be slow: its command line and its container."""

    def __init__(self, root: Path = Path("/"), names: ContainerNames | None = None) -> None:
        self._source = _source(root)
        self._names = shared_names(root) if names is None else names
        self._foreign: bool | None = None  # determined once, when needed

    def __call__(self, question: Question) -> KnownProcess | None:
        return self.learn(*question, timeout_seconds=_NAME_WAIT_SECONDS)[0]

    def learn(
        self, pid: int, stamp: Stamp, timeout_seconds: float
    ) -> tuple[KnownProcess | None, float]:
        """Returns details of the process, and how long it waited for its container's name."""
        if self.pids_are_foreign() and not self._source.holds_a_device(pid):
            return None, 0.0  # a process of this container that happens to have the same pid
        facts, belonging = self._source.facts(pid, stamp), self._source.belonging(pid)
        known = KnownProcess(stamp, facts, describe(belonging), belonging.job)
        return self.named(known, belonging, timeout_seconds)

    def named(
        self, known: KnownProcess, belonging: ProcessMembership, timeout_seconds: float = 0.0
    ) -> tuple[KnownProcess, float]:
        """Adds the name of the container, if it is known in time."""
        if belonging.container is None:
            return known, 0.0
        answer = self._names.look_up(belonging.container, timeout_seconds)
        named = known._replace(
            container=describe(belonging, answer.names),
            unnamed=None if answer.final else belonging,
        )
        return named, answer.waited_seconds

    def pids_are_foreign(self) -> bool:
        if self._foreign is None:
            self._foreign = not self._source.sees_host_pids()
        return self._foreign


class ProcessTable:
    """Fills in what the vendor's library did not report. One table per thread: it keeps a cache.

    The same processes as last time, all alive, cost one poll and get the same answer; at times, and
    when one started or ended, each costs one read of its stat. Its other facts are read once.
    Processes that the latest call did not ask for are dropped. A process that has ended, is hidden
    (hidepid) or is in another pid namespace keeps its None; `note` says which of the last two. With
    `lookup`, facts that are not known yet are read in its threads and returned by a later call.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        names: ContainerNames | None = None,
        clock: Callable[[], float] = time.monotonic,
        lookup: BackgroundLookup[Question, KnownProcess | None] | None = None,
    ) -> None:
        # Pidfds refer to this system's processes, not to those of another root.
        self._liveness = Liveness() if root == Path("/") else None
        self._clock = clock
        self._again = -math.inf
        self._requested: tuple[Process, ...] = ()
        self._answer: tuple[Process, ...] = ()
        self._source = _source(root)
        self._learner, self._lookup = Learner(root, names), lookup
        self._known: dict[int, KnownProcess] = {}
        self._timeout_seconds = 0.0
        self._hidden: bool | None = None
        self._missed = False
        self._late: set[int] = set()
        self.expecting = False
        """Whether names requested by the latest call may arrive shortly."""

    @property
    def note(self) -> str | None:
        """Why processes of the latest call have no name, other than having just ended."""
        if not self._missed:
            return LATE if self._late else None
        if self._learner.pids_are_foreign():
            return FOREIGN
        if self._hidden is None:
            self._hidden = self._source.hides_pids()
        return HIDDEN if self._hidden else None

    def attribute(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """Returns the same processes in the same order, with names and owners; known values are
        kept."""
        requested = tuple(processes)
        if requested == self._requested and self._unchanged():
            self.expecting = False
            return self._answer
        # Watched before they are read: one that ends in between is noticed next time.
        watched = self._liveness and self._liveness.watch({process.pid for process in requested})
        self._requested, self._answer = requested, self._attribute_all(requested)
        settled = not self._late and all(
            known.facts.settled and not known.unnamed for known in self._known.values()
        )
        self._again = self._clock() + RECHECK_SECONDS if watched and settled else -math.inf
        return self._answer

    def _unchanged(self) -> bool:
        """Whether all are alive and recently read, as only exec changes a name, and rarely."""
        if self._liveness is None or self._clock() >= self._again:
            return False
        return self._liveness.all_live()

    def _attribute_all(self, processes: tuple[Process, ...]) -> tuple[Process, ...]:
        latest: dict[int, KnownProcess] = {}
        self._timeout_seconds, self._missed = _NAME_WAIT_SECONDS, False
        self._late, self.expecting = set(), False
        answer = tuple([self._attributed(process, latest) for process in processes])
        self._known = latest
        self._source.keep(latest.keys() | self._late)  # a pending question needs its open file
        return answer

    def usage(self, pids: Iterable[int]) -> Mapping[int, ProcessCounters]:
        """CPU time and resident memory, where readable."""
        uses = ((pid, self._source.use(pid)) for pid in pids)
        return {pid: use for pid, use in uses if use is not None}

    def belongings(self, pids: Iterable[int]) -> Mapping[int, ProcessMembership]:
        """Container, job and session of these processes, with full container ids."""
        return {pid: self._source.belonging(pid) for pid in pids}

    def lineage(self, pids: Iterable[int]) -> Mapping[int, ProcessParent]:
        """Reads these processes and their ancestors once each; unreadable ones are left out."""
        found: dict[int, ProcessParent] = {}
        for pid in pids:
            link = self._source.link(pid)
            for _ in range(_MAX_ANCESTORS):
                if link is None or link.pid in found:
                    break
                found[link.pid] = link
                link = self._source.link(link.parent) if link.parent > 0 else None
        return found

    def _attributed(self, process: Process, latest: dict[int, KnownProcess]) -> Process:
        if None not in (process.started, process.name, process.user, process.command):
            return process
        known = latest.get(process.pid) or self._look_up(
            process.pid
        )  # it may be on several devices
        if known is None:
            return process
        latest[process.pid] = known
        facts, started = known.facts, process.started
        if started is not None and started != facts.started:
            return process  # the pid was reused
        return Process(  # by position: `replace` takes twice as long
            process.pid,
            process.kind,
            facts.started,
            facts.name if process.name is None else process.name,
            facts.user if process.user is None else process.user,
            facts.command if process.command is None else process.command,
            process.memory_bytes,
            process.utilization_percent,
            known.container if process.container is None else process.container,
            known.job if process.job is None else process.job,
            process.lease,
        )

    def _look_up(self, pid: int) -> KnownProcess | None:
        stamp = self._source.stamp(pid)
        if stamp is None:
            self._missed = True
            return None
        known = self._known.get(pid)
        if known is None or known.stamp != stamp or not known.facts.settled:
            return self._read(pid, stamp, known)
        return known if known.unnamed is None else self._learner.named(known, known.unnamed)[0]

    def _read(self, pid: int, stamp: Stamp, before: KnownProcess | None) -> KnownProcess | None:
        """Returns current details; while those are looked up, the previous ones."""
        if self._lookup is None:
            known, waited = self._learner.learn(pid, stamp, self._timeout_seconds)
            self._timeout_seconds -= waited
        else:
            found = self._lookup.ask((pid, stamp))
            if not found.answered:
                self._late.add(pid)
                self.expecting = self.expecting or found.fresh
                return before if before is not None and _same_process(before.stamp, stamp) else None
            known = found.answer
        if (
            known is None or self._source.stamp(pid) != stamp
        ):  # it ended: part may be of another process
            self._missed = True
            return None
        return known


def _same_process(one: Stamp, other: Stamp) -> bool:
    """Whether it is the same process, even if it now runs another program."""
    return (one[0], one[2]) == (other[0], other[2])


def sees_host_pids(root: Path = Path("/")) -> bool:
    """Whether /proc shows the host's pids; otherwise NVML's pids mean nothing here."""
    return _source(root).sees_host_pids()


def exited(
    processes: Iterable[Process], root: Path = Path("/")
) -> frozenset[tuple[int, float | None]]:
    """Returns those processes, by pid and start, that have certainly ended; empty if pids belong to
    another system. A process with an unknown start may still run."""
    if not sees_host_pids():
        return frozenset()
    wanted = {process.pid: process for process in processes if process.started is not None}
    alive = [Process(pid) for pid in wanted if _is_taken(pid)]
    starts = {one.pid: one.started for one in ProcessTable(root).attribute(alive)}
    return frozenset(
        (pid, process.started)
        for pid, process in wanted.items()
        if pid not in starts or _is_another(starts[pid], process.started)
    )


def _is_another(found: float | None, started: float | None) -> bool:
    """Whether the pid has been given to another process; assumed not if that cannot be read."""
    if found is None or started is None:
        return False
    return abs(found - started) >= SAME_START_SECONDS


def _is_taken(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class _Psutil:
    """Systems without /proc."""

    def stamp(self, pid: int) -> Stamp | None:
        import psutil

        try:
            return psutil.Process(pid).create_time(), b"", 0
        except (psutil.Error, OSError, ValueError):
            return None

    def keep(self, pids: Container[int]) -> None:
        pass

    def facts(self, pid: int, stamp: Stamp) -> ProcessFacts:
        import psutil

        started = round(stamp[0], 2)
        try:
            known = psutil.Process(pid).as_dict(["name", "username", "cmdline"])
        except (psutil.Error, OSError, ValueError):
            return ProcessFacts(started)
        arguments, name = known["cmdline"], known["name"]
        command = None if arguments is None else command_line(name or "", tuple(arguments))
        return ProcessFacts(started, name and printable(name), known["username"], command)

    def belonging(self, pid: int) -> ProcessMembership:
        return ProcessMembership()

    def use(self, pid: int) -> ProcessCounters | None:
        import psutil

        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            return ProcessCounters(times.user + times.system, process.memory_info().rss)
        except (psutil.Error, OSError, ValueError):
            return None

    def link(self, pid: int) -> ProcessParent | None:
        import psutil

        try:
            process = psutil.Process(pid)
            return ProcessParent(pid, process.ppid(), printable(process.name()))
        except (psutil.Error, OSError, ValueError):
            return None

    def holds_a_device(self, pid: int) -> bool:
        return True

    def sees_host_pids(self) -> bool:
        return True

    def hides_pids(self) -> bool:
        return False


def _source(root: Path) -> _Source:
    return ProcFolder(root) if sys.platform.startswith("linux") else _Psutil()
