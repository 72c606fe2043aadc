"""A node with everything in it, which changes what it is asked to: what a server asks of it.

Its parts are the ports and what a server needs beside them. `andon.node.seen` is in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.past import Query
from andon.explain.conditions.rulebook import Rulebook
from andon.jobs.rules.views import JobListing
from andon.leases.rules.occupants import Holder
from andon.model.alert import Alert, Silence
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.node.exact_desk import OwnDesk
from andon.node.port import LiveReadings, NodeAlerts, NodeLeases, NodePast
from andon.node.seen.texts import SnapshotTexts
from andon.node.watched.run_courses import CourseReader
from andon.node.watched.runs import FoundRuns
from andon.node.watched.users import RunsOfUser, SharedUsers
from andon.ports import RunIndex
from andon.sampling.sampler import Costs

if TYPE_CHECKING:  # locks are not on every system
    from andon.leases.network import NetworkLeases


class LiveToShow(LiveReadings, Protocol):
    """Readings in memory: `latest` waits for no device."""

    interval_seconds: float
    texts: SnapshotTexts
    """As JSON for each sight: kept, and made again only where something has changed."""

    def minutes_key(self) -> Hashable | None:
        """Says which snapshots `minutes` returns, where that reads more than memory."""

    def newest(self) -> Snapshot:
        """Returns the latest, for those who are no reason for expensive readings."""

    def costs(self) -> Costs | None: ...

    def listen(self, listener: Callable[[Snapshot], object]) -> Callable[[], None]: ...

    def mark_watched(self) -> None: ...


class AlertsToShow(NodeAlerts, Protocol):
    @property
    def rulebook(self) -> Rulebook: ...

    def current(self) -> Sequence[Alert]: ...

    def firing(self) -> Mapping[str, int]: ...

    def silences(self) -> tuple[Silence, ...]: ...

    def page(
        self, since: float | None = None, devices: Sequence[str] = (), wanted: Query | None = None
    ) -> AlertOverview: ...

    def subscribe(self, listener: Callable[[tuple[Alert, ...]], None]) -> Callable[[], None]: ...


class LeasesToShow(NodeLeases, Protocol):
    @property
    def kept(self) -> bool: ...

    @property
    def book(self) -> NetworkLeases: ...

    def book_with(self, name: str) -> NetworkLeases: ...

    def listed(self, within_seconds: float = 0.0) -> LeaseList: ...

    def holders(self, snapshot: Snapshot) -> tuple[dict[str, list[Holder]], str | None]: ...


class RunsToShow(RunsOfUser, Protocol):
    """Those of the server's own user."""

    whose: str
    users: SharedUsers | None
    """Set if root runs the server."""
    everywhere: Callable[[], RunIndex] | None
    """Opens the index of the runs of all nodes of a hub."""
    courses: CourseReader

    def clock(self) -> float: ...

    def look(self, afresh: bool = False) -> FoundRuns: ...


class JobsToShow(OwnDesk, Protocol):
    """Everyone's; a number is a job of the server's own user."""

    own: OwnDesk
    users: SharedUsers | None
    """Set if root runs the server."""

    def on_clusters(self) -> JobListing: ...

    def why_not(self) -> str | None:
        """Returns why none may be submitted over the network, or None."""

    def submit_document(self, document: dict[str, Any], /) -> Sequence[int]:
        """Queues the jobs in a job file's document; returns their numbers."""


class ServedNode(Protocol):
    user: str | None
    simulated: bool
    recording: bool
    has_jobs: bool
    of_this_machine: bool
    """Whether its accounts are those of the machine that the server runs on."""

    @property
    def live(self) -> LiveToShow: ...

    @property
    def alerts(self) -> AlertsToShow: ...

    @property
    def leases(self) -> LeasesToShow: ...

    @property
    def past(self) -> NodePast: ...

    @property
    def runs(self) -> RunsToShow: ...

    @property
    def jobs(self) -> JobsToShow: ...
