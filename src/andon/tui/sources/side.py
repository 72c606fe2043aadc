"""Reads leases, runs, reasons and the past in its own thread, so that a hanging file system delays
no key."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from andon.cli.show.process_rows import between, local_pids
from andon.errors import AndonError
from andon.explain.why import explain
from andon.leases.book import places
from andon.model.device import Process, Snapshot
from andon.model.lease_list import LeaseList
from andon.runs.rules.matching import RunQuery
from andon.tui.scene import ProcessEnvironment
from andon.tui.sources.feed import Feed
from andon.tui.sources.past import PastReader
from andon.tui.state import TopView

if TYPE_CHECKING:
    from andon.host.processes.facts import ProcessTable
    from andon.host.processes.procfs import ProcessCounters
    from andon.node.port import Node

SHOWN_RUNS = 200
EVERY_SECONDS = {"leases": 1.0, "alerts": 2.0, "hosts": 3.0, "tree": 2.0, "why": 2.0, "runs": 5.0,
                 "jobs": 2.0, "past": 0.2, "environment": 0.2}  # fmt: skip
NO_LEASES = "a recording has no leases"
SHOWN_SECONDS = 3.0  # while they are what is looked at
AT_LEAST_SECONDS = 10.0  # a lock or the use of a device may change without a trace here
Traces = tuple[frozenset[tuple[str, int]], tuple[int, ...]]


class ScreenNeeds(Struct):
    """What the screen shows now: written by the app, read by the background reader."""

    view: TopView = TopView.DEVICES
    device: str | None = None
    pid: int | None = None
    tree: bool = False
    span_seconds: float = 300.0
    environment: int | None = None  # the pid whose environment is requested
    done: dict[str, float] = field(default_factory=dict)


OnUpdate = Callable[[Mapping[str, Any], bool], None]
"""Changes of the scene, and whether they are to be shown at once."""


class BackgroundReader:
    """One thread that does what is due, one thing after the other."""

    def __init__(
        self, node: "Node", root: Path, feed: Feed, needs: ScreenNeeds, on_update: OnUpdate
    ) -> None:
        self._node, self._root = node, root
        self._feed, self._needs, self._on_update = feed, needs, on_update
        self._is_local = self._node.url is None and not self._node.recording
        self._woken, self._closed = threading.Condition(), False
        self._snapshot: Snapshot | None = None
        self._table: ProcessTable | None = None
        self._counters: tuple[float, Mapping[int, ProcessCounters]] | None = None
        self._leases = LeaseReader(feed)
        self._has_more = False  # devices whose past is not read yet
        self.past = PastReader(self._node)
        self._thread = threading.Thread(target=self._run, name="background reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def seen(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.wake()

    def wake(self, *again: str) -> None:
        """Makes the thread look for due tasks; those in `again` are due at once."""
        for name in again:
            self._needs.done.pop(name, None)
        with self._woken:
            self._woken.notify_all()

    def close(self) -> None:
        self._closed = True
        self.wake()

    # The thread.

    def _run(self) -> None:
        while not self._closed:
            snapshot = self._snapshot
            if snapshot is not None:
                for name in self._due():
                    if self._closed:
                        return
                    self._needs.done[name] = time.monotonic()
                    self._do(name, snapshot)
            with self._woken:
                if not self._closed:
                    self._woken.wait(EVERY_SECONDS["past"] if self._has_more else 1.0)

    def _due(self) -> list[str]:
        now, needs = time.monotonic(), self._needs
        needed = {
            "leases": True,
            "alerts": self._feed.is_server,
            "hosts": self._is_local,
            "tree": needs.tree and self._is_local,
            "why": needs.view is TopView.DEVICE,
            "runs": needs.view is TopView.RUNS,
            "jobs": needs.view is TopView.JOBS,
            "past": True,
            "environment": needs.environment is not None,
        }
        return [
            name
            for name, every in EVERY_SECONDS.items()
            if needed[name] and now - needs.done.get(name, -1000.0) >= every
        ]

    def _do(self, name: str, snapshot: Snapshot) -> None:
        try:
            getattr(self, f"_read_{name}")(snapshot)
        except AndonError as error:
            self._on_update({"notes": {name: error.reason}}, False)
        except OSError as error:
            self._on_update({"notes": {name: str(error)}}, False)

    def _read_leases(self, snapshot: Snapshot) -> None:
        if self._node.recording:
            self._on_update({"notes": {"leases": NO_LEASES}}, False)
            return
        first = "leases_read" not in self._needs.done
        looked_at = self._needs.view in (TopView.LEASES, TopView.USERS)
        if (found := self._leases.read(snapshot, looked_at)) is not None:
            self._needs.done["leases_read"] = 0.0
            self._on_update({"leases": found}, first or looked_at)

    def _read_alerts(self, snapshot: Snapshot) -> None:
        self._feed.read_alerts(snapshot)

    def _processes(self) -> "ProcessTable":
        if self._table is None:
            from andon.host.processes.facts import ProcessTable

            self._table = ProcessTable(self._root)
        return self._table

    def _read_hosts(self, snapshot: Snapshot) -> None:
        pids = local_pids(snapshot)
        if not pids:
            return
        now, found = time.monotonic(), self._processes().usage(pids)
        before, self._counters = self._counters, (now, found)
        if before is None:
            self._needs.done["hosts"] = now - EVERY_SECONDS["hosts"] + 0.5  # CPU is a difference
            self._on_update({"hosts": between(found, found, 0.0)}, False)
            return
        self._on_update({"hosts": between(before[1], found, now - before[0])}, False)

    def _read_tree(self, snapshot: Snapshot) -> None:
        pids = local_pids(snapshot)
        links = self._processes().lineage(pids)
        others = [Process(pid) for pid in links if pid not in pids]
        ancestors = {one.pid: one for one in self._processes().attribute(others)}
        self._on_update({"links": links, "ancestors": ancestors}, True)

    def _read_why(self, snapshot: Snapshot) -> None:
        uuid = self._needs.device
        if uuid is None:
            return
        shared = self._feed.shared
        lamp = None if shared.lamps is None else shared.lamps.of(uuid)
        found = explain([*shared.past] or [snapshot], uuid, self._feed.rulebook, lamp=lamp)
        self._on_update({"why": found, "why_device": uuid}, True)

    def _read_runs(self, snapshot: Snapshot) -> None:
        rows = tuple(self._node.runs.find(RunQuery(limit=SHOWN_RUNS)))
        self._on_update({"runs": rows}, True)

    def _read_jobs(self, snapshot: Snapshot) -> None:
        self._on_update({"jobs": self._node.jobs.listing().views}, True)

    def _read_past(self, snapshot: Snapshot) -> None:
        needs = self._needs
        uuids = [status.device.uuid for status in snapshot.devices]
        found = self.past.next(uuids, needs.device, needs.span_seconds, snapshot.at)
        self._has_more = bool(found)
        if found:
            self._on_update({"past": found}, True)

    def _read_environment(self, snapshot: Snapshot) -> None:
        from andon.host.processes.environment import read_environment, shown_environment

        pid, self._needs.environment = self._needs.environment, None
        if pid is None:
            return
        seen = ProcessEnvironment(pid, reason="it is not a process of this machine")
        if pid in local_pids(snapshot) and self._is_local:
            try:
                variables = read_environment(pid, self._root)
                seen = ProcessEnvironment(pid, *shown_environment(variables))
            except AndonError as error:
                seen = ProcessEnvironment(pid, reason=error.reason)
        self._on_update({"environment": seen}, True)


class LeaseReader:
    """Reads leases when books or processes have changed, and otherwise every ten seconds."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._traces: Traces | None = None
        self._read_at = 0.0

    def read(self, snapshot: Snapshot, looked_at: bool) -> LeaseList | None:
        """Returns the leases; None if nothing has changed since the last reading."""
        now, traces = time.monotonic(), _traces(snapshot)
        age = now - self._read_at
        fresh = age < (SHOWN_SECONDS if looked_at else AT_LEAST_SECONDS)
        if traces == self._traces and fresh:
            return None
        self._traces, self._read_at = traces, now
        return self._feed.shown.leases.listing(snapshot=snapshot)[1]


def _traces(snapshot: Snapshot) -> Traces:
    """Returns a key that changes with almost every grant and release: processes, and the books'
    folders."""
    pids = frozenset((s.device.uuid, p.pid) for s in snapshot.devices for p in s.processes)
    stamps = []
    for book in places.books(os.environ):
        for part in places.MODES:
            with suppress(OSError):
                stamps.append((book / part).stat().st_mtime_ns)
    return pids, tuple(stamps)
