"""A hub in this process with one node, whose reports a test makes; stores are in memory."""

import itertools
import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.digest import decoded, digest_of, encoded
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.fleet.rules.thresholds import changes_of
from andon.history.rules.notes import KnownNotes
from andon.history.rules.series import Bucket
from andon.leases.rules.verdict import by_readings
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import LeaseList
from andon.model.run.record import RunKind, RunRow, RunState
from andon.model.wire import snapshot_to_json
from andon.stores.memory import MemoryAlertStore, MemoryRunIndex, MemoryStore
from andon.web.fleet.hub import Hub
from andon.web.fleet.nodes import Fleet
from andon.web.fleet.reported import ReportedNode
from tests.support.run_records import BEGAN
from tests.support.snapshots import farm

NAME, RUN, SECRET = "n17", "kqzvmtra", "s3cret"


class ReportingNode:
    """Fills NodeStore and NodePasts, as far as nodes are read."""

    def __init__(self) -> None:
        self.rulebook = Rulebook()
        self.noted: KnownNotes | None = KnownNotes()
        self._numbers, self._beats, self._added = itertools.count(1), list[Heartbeat](), 0.0
        self._store, self._alerts, self._runs = MemoryStore(), MemoryAlertStore(), MemoryRunIndex()
        self._runs.put([
            RunRow(RUN, "train", RunKind.COMMAND, RunState.SUCCEEDED, NAME, BEGAN, "", "ada",
                   BEGAN + 60, 60.0, f"python {SECRET}.py"),
        ])  # fmt: skip
        self.fleet = Fleet(Hub(lambda: self), lambda: self, "andon")  # type: ignore[arg-type,return-value]
        self.report()

    @property
    def node(self) -> ReportedNode:
        return self.fleet.node(NAME)

    def report(self) -> None:
        """One heartbeat, with the farm's devices and a job."""
        now = time.time()
        snapshot = replace(farm(), node=NAME, at=now)
        leases = LeaseList(now, devices=by_readings(snapshot.devices))
        job = JobView(7, "7", SECRET, JobState.RUNNING, SECRET, "/", "ada", now - 9, "1")
        digest = digest_of(snapshot, leases, (), {}, {}, "m", "1.0")
        parts = {
            "snapshot": snapshot_to_json(snapshot),
            "leases": leases,
            "jobs": [job],
            "thresholds": changes_of(self.rulebook),
            "noted": self.noted,
        }
        beat = Heartbeat(NAME, "s", next(self._numbers), now, now, encoded(digest), deflated(parts))
        self._beats = [*self._beats[-9:], beat]
        self.fleet.hub.hear(beat, decoded(beat.digest))

    def add_again(self) -> None:
        """Another hub removes the node with its history, and adds one of this name."""
        self._beats, self._added = [], self._added + 1
        self.fleet.hub.nodes(-1.0)

    # What a hub's database does.

    def nodes(self) -> Sequence[FleetNode]:
        node = FleetNode(NAME, "x", self._added)
        for last in self._beats[-1:]:
            node = replace(node, heard=last.at, sent=last.sent, digest=last.digest)
        return [node]

    def beats(self, name: str, since: float | None = None) -> Sequence[Heartbeat]:
        found = self._beats
        return found[-1:] if since is None else [one for one in found if one.at > since]

    def history(self, name: str) -> Any:
        return self._store

    def courses(self, names: Sequence[str], *_: object) -> Any:
        return {name: [Bucket(0.0, 1.0, 2, 40.0, 50.04, 60.0), Bucket(1.0, 2.0)] for name in names}

    def alerts(self, name: str) -> Any:
        return self._alerts

    def runs(self, name: str | None) -> Any:
        return self._runs
