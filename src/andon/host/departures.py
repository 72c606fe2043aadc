"""Looks up which processes were on a device before, and whether they still run."""

import os
from collections.abc import Callable, Iterable, Sequence

from andon.core.evidence.departures import (
    NOTHING_KNOWN,
    Departures,
    Identity,
    departed,
    has_unexplained,
)
from andon.core.history.intervals import UsageInterval
from andon.errors import AndonError
from andon.host.processes import ProcessTable, sees_host_pids
from andon.model.device import DeviceStatus, Process, Snapshot

KEPT_SECONDS = 86_400.0
MOST = 100  # processes of one device: the latest
SAME_START_SECONDS = 2.0

Usage = Callable[[str, float, float], Sequence[UsageInterval]]
"""A device's intervals between two times."""


def departures(snapshots: Sequence[Snapshot], usage: Usage | None, here: bool) -> Departures:
    """For the devices with memory that no process accounts for: nothing is read for others.

    `here`: whether these are processes of this machine, of which it is known whether they run.
    """
    latest = snapshots[-1]
    if not (wanted := has_unexplained(latest)):
        return NOTHING_KNOWN
    uses = {uuid: _used(usage, uuid, latest.at) for uuid in wanted} if usage else {}
    known = Departures(uses)
    if not here or not sees_host_pids():
        return known
    past: dict[str, list[DeviceStatus]] = {uuid: [] for uuid in wanted}
    for status in (status for snapshot in snapshots for status in snapshot.devices):
        past.get(status.device.uuid, []).append(status)
    gone = [one for seen in past.values() for one in departed(seen[-1], seen, known)]
    return Departures(uses, exited(one.process for one in gone))


def exited(processes: Iterable[Process]) -> frozenset[Identity]:
    """Those that surely do not run any more; one whose start is unknown may."""
    wanted = {process.pid: process for process in processes if process.started is not None}
    alive = [Process(pid) for pid in wanted if _is_taken(pid)]
    starts = {one.pid: one.started for one in ProcessTable().attribute(alive)}
    return frozenset(
        (pid, process.started)
        for pid, process in wanted.items()
        if pid not in starts or _is_another(starts[pid], process.started)
    )


def _is_another(found: float | None, started: float | None) -> bool:
    """Whether the pid was given to another process since; an unreadable one may be the same."""
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


def _used(usage: Usage, uuid: str, at: float) -> tuple[UsageInterval, ...]:
    """Nothing where there is no history."""
    try:
        found = usage(uuid, at - KEPT_SECONDS, at)
    except AndonError:
        return ()
    return tuple(sorted(found, key=lambda use: use.last)[-MOST:])
