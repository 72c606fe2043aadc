"""A node as it reported itself, in the parts that a server has for its own: so every reading route
answers for either."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from msgspec.structs import replace

from andon.alerts.rules.listing import entries, firing_by_level
from andon.alerts.rules.past import Query
from andon.alerts.rules.self_checks import StoreStats
from andon.errors import Gone, Invalid, Unavailable
from andon.explain.conditions.condition import SERVED, Precondition
from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.heartbeat import unpacked_ticks
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.past import of_hub, unpacked_past
from andon.fleet.rules.states import NodeRow, NodeState, clock_trouble
from andon.fleet.uplink import EVERY_SECONDS
from andon.history.rules.series import facts_of
from andon.history.rules.tiers import Tier
from andon.model.alert import Alert, Silence
from andon.model.device import MOST_DEVICES, Snapshot, State
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import LeaseList
from andon.model.wire import Json
from andon.ports import NodePasts, RunIndex, Store
from andon.runs.rules.matching import RunQuery
from andon.sampling.snapshot_feed import PAST_SECONDS
from andon.settings.resolution import Settings
from andon.units import counted
from andon.web.fleet.hub import LIST, Hub
from andon.web.fleet.report import Report
from andon.web.fleet.tokens import NamedTokens

Parts = TypeVar("Parts")
FOLD_SECONDS = 5.0
MOST_KEPT = 32
"""Nodes whose parts are kept, those last asked for."""
MOST_RUNS = 5000
"""Of one node; the oldest are forgotten. Their records are on the node."""


class ReportedNode:
    """The parts of one node, as `AppState` has them for a server's own."""

    def __init__(self, hub: Hub, pasts: NodePasts, name: str, settings: Settings) -> None:
        self.name, self._hub, self._pasts = name, hub, pasts
        self.settings = replace(settings, interval_seconds=EVERY_SECONDS, simulate=0, replay="")
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._minutes: dict[tuple[str, int], Snapshot] = {}
        self._store: Store | None = None
        self._folded = float("-inf")
        self._folded_until = 0.0
        self.rulebook = Rulebook()

    def refresh(self) -> None:
        """Reads the last heartbeat; raises Gone or Unavailable if there is none."""
        with self._lock:
            node = self._hub.node(self.name)
            known = self._report
            if known is not None and known.beat.at == node.heard:
                return
            found = self._hub.store.beats(self.name)
            if found:
                self._report = Report(found[-1])
            elif known is None:
                hint = f"andon agent must run on {self.name}"
                raise Unavailable(f"{self.name} has not reported lately", hint=hint)

    @property
    def report(self) -> Report:
        if self._report is None:
            self.refresh()
        assert self._report is not None
        return self._report

    # As a feed of snapshots.

    def latest(self) -> Snapshot:
        """Returns the last snapshot; of a node that is silent, without readings."""
        row = self._hub.row(self.name)
        snapshot = self.report.snapshot
        return snapshot if row.heard else _silent(snapshot, row)

    @property
    def last(self) -> Snapshot:
        return self.latest()

    def past(self) -> list[Snapshot]:
        beats = self._hub.store.beats(self.name, self.report.beat.at - PAST_SECONDS)
        keys = [(beat.session, beat.sequence) for beat in beats]
        known = {key: one for key, one in self._minutes.items() if key in set(keys)}
        for key, beat in zip(keys, beats, strict=True):
            if key not in known:
                known[key] = Report(beat).snapshot
        self._minutes = known
        return [*(known[key] for key in keys[:-1]), self.latest()]

    @property
    def minutes_moment(self) -> tuple[str, float]:
        """Which snapshots `past` returns, without reading them."""
        return self.name, self.report.beat.at

    def age_seconds(self) -> float | None:
        return self._hub.row(self.name).age_seconds

    # As the history.

    def store(self) -> Store:
        """Returns the history, with what came in heartbeats since the last block."""
        with self._lock:
            if self._store is None:
                self._store = self._pasts.history(self.name)
            if time.monotonic() - self._folded > FOLD_SECONDS:
                self.fold(self._store)
                self._folded = time.monotonic()
            return self._store

    def fold(self, store: Store) -> None:
        """Writes ticks of heartbeats to the history, where no block of the node has them."""
        extent = store.contents().extents.get(Tier.RAW)
        until = 0.0 if extent is None else extent.until_ms / 1000
        ticks = list[Any]()
        for beat in self._hub.store.beats(self.name, self._folded_until):
            wrong = clock_trouble(beat.at, beat.sent) is not None
            try:
                found = list(unpacked_ticks(beat.ticks, beat.at - beat.sent if wrong else 0.0))
            except Invalid:
                continue
            ticks += [tick for tick in found if tick.at >= until]
            self._folded_until = beat.at
        if ticks:
            store.write(ticks, (), facts_of(self.report.snapshot))

    @cached_property
    def runs(self) -> RunIndex:
        return self._pasts.runs(self.name)

    def health(self) -> Json:
        return {"state": "ok"}

    def vitals(self) -> StoreStats:
        return StoreStats()

    # As a watcher of alerts.

    def alerts(self) -> tuple[Alert, ...]:
        return self.report.alerts if self._hub.row(self.name).heard else ()

    def firing(self) -> dict[str, int]:
        return firing_by_level(entries(self.alerts()))

    def silences(self) -> tuple[Silence, ...]:
        return self.report.silences

    @property
    def awake(self) -> frozenset[Precondition]:
        return SERVED

    def past_alerts(self, query: Query | None = None) -> Sequence[Alert]:
        return self._pasts.alerts(self.name).episodes(query or Query())

    def find(self, number: str) -> Alert:
        for alert in (*self.alerts(), *self.past_alerts(Query(limit=1000))):
            if alert.id == number:
                return alert
        raise Gone(f"there is no alert {number[:120]!r}", hint="list them: andon alerts")

    # As a lease book.

    def listed(self) -> LeaseList:
        found, row = self.report.leases, self._hub.row(self.name)
        if found is None:
            return LeaseList(self.report.beat.at, note=f"{self.name} has no leases to show")
        if not row.heard:
            return LeaseList(found.at, note=f"{_gone(row)}; {_held_then(found)}")
        return found

    # As a queue of jobs.

    def jobs(self) -> list[JobView]:
        return seen_jobs(self.report.jobs, self._hub.row(self.name))

    def close(self) -> None:
        """Does nothing: the hub closes its connections."""


class Fleet:
    """The hub's nodes for routes: the state of each, as of a server's own node."""

    def __init__(self, hub: Hub, open_pasts: Callable[[], NodePasts], settings: Settings) -> None:
        self.hub, self._open, self._settings = hub, open_pasts, settings
        self._pasts: NodePasts | None = None
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[ReportedNode, Any]] = {}
        self.tokens = NamedTokens(lambda: self.pasts)

    @property
    def pasts(self) -> NodePasts:
        """What is kept beside the heartbeats; opened when it is first used."""
        with self._opening:
            if self._pasts is None:
                self._pasts = self._open()
            return self._pasts

    def state_of(self, name: str, state: Callable[[ReportedNode], Parts]) -> Parts:
        """Returns the parts of a node as `state` makes them, once; the call may block."""
        with self._lock:
            known = self._kept.pop(name, None)
            self.hub.node(name)  # one that was removed may come back with another past
            if known is None:
                node = ReportedNode(self.hub, self.pasts, name, self._settings)
                known = node, state(node)
            self._kept[name] = known
            while len(self._kept) > MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
        known[0].refresh()
        return known[1]

    def fold(self, name: str, store: Store) -> None:
        """Writes what came with the heartbeats of a node to its history."""
        node = ReportedNode(self.hub, self.pasts, name, self._settings)
        try:
            node.refresh()
        except Unavailable:
            return  # what it sent is not kept any more
        node.fold(store)

    def take_past(self, node: FleetNode, body: bytes) -> None:
        """Stores a part of a node's past; the call blocks."""
        part = unpacked_past(body, time.time())
        store = self.pasts.history(node.name)
        known = {one.uuid for one in (*store.devices(), *part.devices)}
        if len(known) > MOST_DEVICES:
            raise Invalid(f"a node has at most {MOST_DEVICES} devices")
        if part.blocks:
            store.load(part.devices, part.blocks)
        if part.uses:
            store.write((), part.uses, part.devices)
        if part.alerts:
            self.pasts.alerts(node.name).save({}, part.alerts, ())
        if part.runs:
            index = self.pasts.runs(node.name)
            index.put([of_hub(row, node.name) for row in part.runs])
            index.drop([row.id for row in index.find(RunQuery(offset=MOST_RUNS))])

    def remove(self, name: str, with_history: bool) -> None:
        """Removes a node, and what is stored of it if that is asked for; also of one that was
        removed before."""
        found = self.hub.remove(name)
        with self._lock:
            self._kept.pop(name, None)
        if with_history:
            self.hub.check(name)
            found = self.pasts.clear(name) or found
        if not found:
            raise Gone(f"this hub has no node {name[:60]!r}", hint=LIST)

    def close(self) -> None:
        if self._pasts is not None:
            self._pasts.close()
        self.hub.close()


def _silent(snapshot: Snapshot, row: NodeRow) -> Snapshot:
    """Returns the snapshot as of a node that does not report: its devices are not read."""
    state = State.LOST if row.state is NodeState.LOST else State.STALE
    now = {"state": state, "since": snapshot.at, "reason": _gone(row), "processes": ()}
    return replace(snapshot, devices=tuple(replace(one, **now) for one in snapshot.devices))


def seen_jobs(jobs: Sequence[JobView], row: NodeRow) -> list[JobView]:
    """Returns the jobs of a node. Those of a lost one are lost with it, and go on there as far as
    anyone knows: its next report says what became of them."""
    if row.state is not NodeState.LOST:
        return list(jobs)
    return [replace(one, state=JobState.LOST, reason=_gone(row)) for one in jobs]


def _gone(row: NodeRow) -> str:
    return f"{row.name} is {row.state}: {row.reason}"


def _held_then(found: LeaseList) -> str:
    """Returns who held how many when the node last reported."""
    if not found.leases:
        return "there were no leases when it last reported"
    users = ", ".join(dict.fromkeys(one.user for one in found.leases))
    return f"{counted(len(found.leases), 'lease')} of {users} when it last reported"
