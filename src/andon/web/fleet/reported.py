"""A node as it reported itself: the readings, alerts, leases and history that a hub has of it."""

import threading
import time
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from andon.alerts.rules.past import Query
from andon.errors import Conflict, Gone, Invalid, Unavailable
from andon.explain.conditions.condition import SERVED, Precondition
from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.heartbeat import unpacked_ticks
from andon.fleet.rules.states import NodeRow, clock_trouble
from andon.fleet.uplink import EVERY_SECONDS
from andon.history.rules.intervals import Identity, OpenIntervals, UsageInterval
from andon.history.rules.notes import KnownNotes
from andon.history.rules.series import NodeReadings, facts_of
from andon.history.rules.tiers import Tier
from andon.jobs.rules.views import JobListing
from andon.model.alert import Alert, Silence
from andon.model.check import CardResult
from andon.model.device import Host, Snapshot, State
from andon.model.job.desk import JobAct, JobName, JobOutcome, LogPart
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import LeaseList
from andon.model.place import DevicePlace
from andon.node.exact_desk import ExactDesk, OwnDesk
from andon.node.job_schemas import PageScope
from andon.node.of_server import NodeOfServer
from andon.node.watched.alerts import ServedAlerts
from andon.node.watched.leases import ServedLeases
from andon.node.watched.live import PAST_SECONDS, ServedLive
from andon.node.watched.past import ServedPast
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.node.watched.users import SharedUsers
from andon.ports import NodePasts, Store
from andon.sampling.rules.roster import users_of
from andon.units import counted, human_seconds
from andon.web.fleet.hub import Hub
from andon.web.fleet.report import Report

FOLD_SECONDS = 5.0


class ReportedNode(NodeOfServer):
    """A node by its last heartbeats and what it sent beside them; only the node itself can change
    it."""

    user: str | None = None
    simulated = recording = is_demo = False  # its snapshots say so
    has_jobs, of_this_machine = True, False

    def __init__(self, hub: Hub, pasts: NodePasts, name: str, prefix: str) -> None:
        """`prefix` is that of the hub's metrics."""
        self.name, self._hub, self._pasts = name, hub, pasts
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._store: Store | None = None
        self._folded = float("-inf")
        self._folded_until, self._uses = 0.0, OpenIntervals()
        hint = f"on {name}: andon alerts"
        there = Unavailable(f"alerts of {name} are changed there", hint=hint)
        self.live = ReportedLive(self, hub)
        latest = self.live.newest
        self.alerts = ServedAlerts(ReportedAlerts(self, pasts), latest, prefix, there)
        self.live.alerts = self.alerts.current
        self.leases = ServedLeases(lambda _: self.leases_reported(), latest, elsewhere=name)
        self.past = ReportedPast(self)

    @cached_property
    def runs(self) -> ServedRuns:
        index = self._pasts.runs(self.name)
        return ServedRuns(lambda: FoundRuns(index), f"The runs of {self.name}")

    @property
    def jobs(self) -> "ReportedJobs":
        return ReportedJobs(self)

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
                when = "yet" if node.heard is None else "lately"
                hint = f"andon agent must run on {self.name}"
                raise Unavailable(f"{self.name} has not reported {when}", hint=hint)

    @property
    def report(self) -> Report:
        assert self._report is not None, "it is refreshed before anyone gets the node"
        return self._report

    @property
    def row(self) -> NodeRow:
        return self._hub.row(self.name)

    def leases_reported(self) -> LeaseList:
        found, row = self.report.leases, self.row
        if found is None:
            return LeaseList(self.report.beat.at, note=f"{self.name} has no leases to show")
        if not row.heard:
            note = f"{_gone(row)}; {_held_then(found)}"
            return LeaseList(found.at, note=note, reservations=found.reservations)
        return found

    def jobs_reported(self) -> list[JobView]:
        return seen_jobs(self.report.jobs, self.row)

    def store(self) -> Store:
        """Returns the history, with what came in heartbeats since the last block."""
        with self._lock:
            if self._store is None:
                self._store = self._pasts.history(self.name)
            is_due = time.monotonic() - self._folded > FOLD_SECONDS
            if is_due and not self._hub.node(self.name).is_hub:
                self.fold(self._store)
                self._folded = time.monotonic()
            return self._store

    def fold(self, store: Store) -> None:
        """Writes to the history what heartbeats have after the last block of the node, and who used
        its devices in the last minutes, which the node sends only once a minute."""
        extent = store.contents().extents.get(Tier.RAW)
        until = 0.0 if extent is None else extent.until_ms / 1000
        recent = self.report.beat.at - PAST_SECONDS
        ticks, uses = list[NodeReadings](), dict[tuple[Identity, float], UsageInterval]()
        for beat in self._hub.store.beats(self.name, self._folded_until):
            wrong = clock_trouble(beat.at, beat.sent) is not None
            try:
                found = list(unpacked_ticks(beat.ticks, beat.at - beat.sent if wrong else 0.0))
                snapshot = Report(beat).snapshot if beat.at > recent else None
            except Invalid:
                continue
            ticks += [tick for tick in found if tick.at >= until]
            if snapshot is not None:
                self._uses, changed = self._uses.step(snapshot)
                uses |= {(use.identity, use.first): use for use in changed}
            self._folded_until = beat.at
        if ticks or uses:
            store.write(ticks, tuple(uses.values()), facts_of(self.report.snapshot))


class ReportedPast(ServedPast):
    """The past that the node sent; the last few checks of each card, and the latest notes, by its
    report."""

    def __init__(self, node: ReportedNode) -> None:
        super().__init__(node.store)
        self._node = node

    def checks(self) -> Sequence[CardResult]:
        return self._node.report.checks

    @property
    def noted(self) -> KnownNotes:
        found = self._node.report.noted
        return self.book.known() if found is None else found  # which says where they are


class ReportedLive(ServedLive):
    """The readings that the node reported."""

    def __init__(self, node: ReportedNode, hub: Hub) -> None:
        super().__init__(EVERY_SECONDS)
        self._node, self._hub = node, hub
        self._known: dict[tuple[str, int], Snapshot] = {}

    def newest(self) -> Snapshot:
        """Returns the last snapshot; of a node that is silent, without readings."""
        row, snapshot = self._node.row, self._node.report.snapshot
        return snapshot if row.heard else _silent(snapshot, row)

    def read(self, expensive_fields: bool = False) -> Snapshot:
        """Returns the latest, with what came since the last request."""
        self._node.refresh()
        return self.newest()

    def placed(self) -> Snapshot:
        """Returns the latest snapshot; devices' places are not reported, and it says so."""
        name, found = self._node.name, self.newest()
        missing = {"place": f"a hub does not know it; on {name}: andon devices --topology"}
        devices = (
            replace(one, device=replace(one.device, place=DevicePlace(missing=missing)))
            for one in found.devices
        )
        return replace(found, devices=tuple(devices))

    def minutes(self) -> list[Snapshot]:
        since = self._node.report.beat.at - PAST_SECONDS
        beats = self._hub.store.beats(self._node.name, since)
        found = dict[tuple[str, int], Snapshot]()
        for beat in beats:
            key = beat.session, beat.sequence
            found[key] = self._known.get(key) or Report(beat).snapshot
        self._known = found
        return [*list(found.values())[:-1], self.newest()]

    def minutes_key(self) -> Hashable:
        node = self._node
        return node.name, node.report.beat.at, node.row.heard


class ReportedJobs(ExactDesk):
    """The jobs that the node reported, of everyone or of one user."""

    scope = PageScope.NODE
    users: SharedUsers | None = None

    def __init__(self, node: ReportedNode, user: str = "") -> None:
        self._node, self.user = node, user
        self.own: OwnDesk = self

    def of(self, user: str) -> OwnDesk:
        return ReportedJobs(self._node, user)

    def on_clusters(self) -> JobListing:
        return JobListing(())

    def why_not(self) -> str:
        return f"jobs are submitted on {self._node.name}"

    def listing(self, everyone: bool = False) -> JobListing:
        reported, row = self._node.jobs_reported(), self._node.row
        found = [one for one in reported if self.user in ("", one.user)]
        then = f"; {counted(len(found), 'job')} when it last reported"
        return JobListing.of(found, notes=() if row.heard else [_gone(row) + then])

    def view(self, job: JobName) -> JobView:
        found = [one for one in self.listing().views if one.number == job]
        if len(found) > 1:  # a server of root reports the jobs of all its users
            whose = " and one of ".join(one.user for one in found)
            hint = f"in the URL: {' or '.join(f'?user={quote(one.user)}' for one in found)}"
            raise Conflict(f"{self._node.name} reported a job {job} of {whose}", hint=hint)
        if not found:
            raise Gone(f"{self._node.name} reported no job {job}", hint=self._on_node("jobs"))
        return found[0]

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        raise Unavailable(
            "the output of a job stays on its node", hint=self._on_node(f"logs {job}")
        )

    def acted(self, act: JobAct, job: JobName) -> Sequence[JobOutcome]:
        raise Unavailable("jobs are changed on their node", hint=self._on_node("cancel ID"))

    def submit_document(self, document: dict[str, Any]) -> Sequence[int]:
        raise Unavailable("a hub runs nothing on its nodes", hint=self._on_node("submit"))

    def _on_node(self, command: str) -> str:
        return f"on {self._node.name}: andon {command}"


class ReportedAlerts:
    """Knows the alerts that the node reported, and those that ended."""

    awake: frozenset[Precondition] = SERVED

    def __init__(self, node: ReportedNode, pasts: NodePasts) -> None:
        self._node, self._pasts = node, pasts

    @property
    def rulebook(self) -> Rulebook | None:
        return self._node.report.rulebook

    def alerts(self) -> tuple[Alert, ...]:
        return self._node.report.alerts if self._node.row.heard else ()

    def silences(self) -> tuple[Silence, ...]:
        return self._node.report.silences

    def past(self, query: Query | None = None) -> Sequence[Alert]:
        return self._pasts.alerts(self._node.name).episodes(query or Query())

    def find(self, number: str) -> Alert:
        for alert in (*self.alerts(), *self.past(Query(limit=1000))):
            if alert.id == number:
                return alert
        raise Gone(f"there is no alert {number[:120]!r}", hint="list them: andon alerts")


def _silent(snapshot: Snapshot, row: NodeRow) -> Snapshot:
    """Returns the snapshot as of a node that does not report: its devices are not read."""
    since = float(round(time.time() - row.silent_seconds))  # as its reason has it
    now = {"state": State.UNKNOWN, "since": since, "reason": _gone(row), "processes": ()}
    devices = (
        replace(one, last_users=users_of(one.processes) or one.last_users, **now)
        for one in snapshot.devices
    )
    return replace(snapshot, devices=tuple(devices), host=Host())


def seen_jobs(jobs: Sequence[JobView], row: NodeRow) -> list[JobView]:
    """Returns the jobs of a node; the state of those of a silent one is unknown until it
    reports."""
    if row.heard:
        return list(jobs)
    return [replace(one, state=JobState.UNKNOWN, reason=_gone(row)) for one in jobs]


def _gone(row: NodeRow) -> str:
    """`n17 is silent: no report for 3 min`."""
    return f"{row.name} is silent: no report for {human_seconds(row.silent_seconds)}"


def _held_then(found: LeaseList) -> str:
    """Returns who held how many when the node last reported."""
    if not found.leases:
        return "there were no leases when it last reported"
    users = ", ".join(dict.fromkeys(one.user for one in found.leases))
    return f"{counted(len(found.leases), 'lease')} of {users} when it last reported"
