"""The Node port: what commands, `andon top` and the API read, whatever kind of node it is.

Six small ports; `andon.app.node` chooses who fills them. Their contract is in
tests/support/node_contract.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from andon.alerts.rules.overview import AlertOverview
from andon.errors import Conflict, Gone
from andon.explain.conditions.rulebook import Rulebook
from andon.model.alert import Alert, Silence
from andon.model.device import Device, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lamp import DeviceLamp
from andon.model.verdict import DeviceVerdict
from andon.settings.resolution import Settings

if TYPE_CHECKING:  # every command that opens a node imports this, and few use all of it
    from andon.history.rules.intervals import UsageInterval
    from andon.history.rules.notes import EndedLease, HistoryNote
    from andon.history.rules.series import Bucket
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.jobs.desk import JobDesk
    from andon.leases.availability import Availability
    from andon.leases.rules.offer import Offer
    from andon.leases.tracker import LeaseTracker
    from andon.model.check import CardResult
    from andon.model.lease_list import LeaseList
    from andon.model.run.record import RunRow
    from andon.ports import Store
    from andon.runs.index import RunFinder
    from andon.runs.rules.matching import RunListing, RunQuery
    from andon.sampling.sampler import Sampler


class Node(Protocol):
    """One machine's GPUs with their readings, alerts, leases, jobs, history and runs: this machine,
    one behind a server, simulated devices or a recording. Each part is opened when first used.

    Every call raises `Unavailable`, `Denied`, `Gone` or `Invalid` in one sentence when it cannot
    answer; what this user may not see is left out, with a reason.
    """

    url: str | None
    """The URL of the server that was named; None for this machine."""

    @property
    def simulated(self) -> bool:
        """Whether devices are simulated here, which no history has."""

    @property
    def recording(self) -> bool:
        """Whether a recording is played, which has neither leases nor processes of this machine."""

    @property
    def live(self) -> LiveReadings: ...

    @property
    def alerts(self) -> NodeAlerts: ...

    @property
    def leases(self) -> NodeLeases: ...

    @property
    def past(self) -> NodePast: ...

    @property
    def runs(self) -> NodeRuns: ...

    @property
    def jobs(self) -> JobDesk:
        """The desk of this node's jobs; running and waiting ones come first in its listing."""

    def shared(self) -> Node | None:
        """Returns this node as its server shows it, so that many viewers share one sampler; None if
        no server watches it."""

    def close(self) -> None:
        """Closes what was opened. May be called twice."""


class SnapshotSession(Protocol):
    """A session of snapshots taken at an interval; a context manager."""

    @property
    def dropped(self) -> int:
        """How many snapshots were not taken in time."""

    @property
    def playing(self) -> Playing | None:
        """What pauses and steps a recording; None where devices are read."""

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        """Returns the next one; None if none came in this time, or the session has ended."""

    def pace(self, interval_seconds: float) -> None:
        """Changes the interval between snapshots."""

    def close(self) -> None: ...

    def __enter__(self) -> SnapshotSession: ...

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[Snapshot]: ...


class Playing(Protocol):
    """A recording at its own pace, for a viewer that may pause it and step both ways."""

    def pause(self, paused: bool) -> None: ...

    def step(self, by: int) -> None:
        """Steps one snapshot forward or back, and stays paused there."""

    def place(self) -> str:
        """Returns the recording's name, and how far it has been played."""


class LiveReadings(Protocol):
    """The present readings of a node's devices."""

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        """Returns the latest snapshot of whoever watches the devices, else a new one.

        `expensive_fields` are those that are read only while someone is watching; `twice` adds
        what only a second reading shows; `commands`: with the command lines that this user may
        see. `meanwhile` is called while a driver is opened."""

    def read(self, expensive_fields: bool = False) -> Snapshot:
        """Returns a new snapshot, whatever a server of this machine knows."""

    def placed(self) -> Snapshot:
        """Returns a snapshot that includes each device's place in the machine."""

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> SnapshotSession:
        """Begins a session; `watching` also reads the expensive fields. For a viewer that `stays`
        leases are followed, late snapshots are dropped, and a recording is played at its own pace.
        """

    def minutes(self) -> Sequence[Snapshot]:
        """Returns the snapshots of the last minutes, oldest first; none if nobody keeps them."""

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        """Adds the versions of the drivers, which a single reading does not have."""

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        """Returns each device's lamp, by a server's alerts or by this snapshot alone."""


class NodeAlerts(Protocol):
    """A node's alerts; methods that change something raise `Unavailable` if no server runs."""

    @property
    def notifies(self) -> bool:
        """Whether a server judges and people are notified; else it is a reading of this moment."""

    def page(self, since: float | None = None, devices: Sequence[str] = ()) -> AlertOverview:
        """Returns the active alerts, and those that ended after `since`."""

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        """Yields the active alerts, and those that ended since the last page, every few seconds."""

    def check_server(self) -> None:
        """Raises `Unavailable` if no server keeps silences and acknowledgements."""

    def alert(self, number: str) -> Alert: ...

    def rules(self) -> dict[str, Any]:
        """Returns andon.rules/1."""

    def rule(self, name: str) -> dict[str, Any]:
        """Returns andon.rule/1."""

    def acknowledge(self, number: str, by: str, note: str) -> Alert: ...

    def unacknowledge(self, number: str) -> Alert: ...

    def silence(self, body: Mapping[str, Any]) -> Silence: ...

    def unsilence(self, number: str) -> None: ...

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        """Sends a test message to one notifier or all, and returns the results."""


class NodeLeases(Protocol):
    """Who holds and waits for a node's devices, and what is available."""

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        """Returns the devices, everyone's leases (or one's own), and files that were ignored.
        With a `snapshot` the devices are not read again."""

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        """Whether each device of a snapshot is available for a request of one whole device."""

    def offer(self, request: DeviceRequest) -> Offer:
        """Returns what a request would get now; it holds nothing."""

    def release(self, name: str, note: str) -> str:
        """Ends a lease; returns its id."""

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        """Moves a lease's end this many seconds later; returns its id and its new end."""


class NodePast(Protocol):
    """A node's history. `Unavailable` if nothing has been recorded."""

    @property
    def recorded(self) -> bool: ...

    def devices(self) -> Sequence[Device]: ...

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]: ...

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]: ...

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], Mapping[str, list[float | None]]]: ...

    def checks(self) -> Sequence[CardResult]:
        """Returns what `andon check` found on its devices, the oldest first."""

    def notes(self, device: str | None, since: float, until: float) -> Sequence[HistoryNote]:
        """Returns the notes that touch a range of a device, or of `host`, and those of the node;
        None means all devices."""

    def ended_leases(self, device: str | None, since: float, until: float) -> Sequence[EndedLease]:
        """Returns the leases of a device, or of any, whose end in this range a server saw."""

    def add_note(self, note: HistoryNote) -> HistoryNote:
        """Keeps a note, and returns it with its id. `Unavailable` if no server runs."""

    def remove_note(self, number: str) -> None: ...


class NodeRuns(Protocol):
    """The runs of a node that this user may see."""

    def listed(self, query: RunQuery) -> RunListing: ...

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        try:
            return self.resolve(word).id == word
        except (Gone, Conflict):
            return False

    def resolve(self, word: str) -> RunRow:
        """Returns the run that a command's argument names."""

    def record(self, row: RunRow) -> Path:
        """Returns a file with the record of a run, which can be read until the node is closed."""


class LocalParts(Protocol):
    """Opens the parts of this machine's node; `andon.app` implements it."""

    def open_sampler(self, settings: Settings) -> Sampler: ...

    def open_lease_tracker(self, settings: Settings, sampler: Sampler) -> LeaseTracker | None: ...

    def rulebook(self, settings: Settings) -> Rulebook: ...

    def with_driver_versions(self, snapshot: Snapshot, settings: Settings) -> Snapshot: ...

    def open_availability(
        self,
        settings: Settings,
        sample: Callable[[], Snapshot],
        *,
        simulated: bool,
        broken: Callable[[], Mapping[str, str]] | None = None,
        ask_places: Callable[[], None] | None = None,
    ) -> Availability: ...

    def find_store(self, settings: Settings) -> Store | None: ...

    def open_past(self, settings: Settings) -> Store: ...

    def configured_clusters(self, settings: Settings) -> Sequence[ClusterDesk]: ...

    def open_run_finder(
        self, tell: Callable[[str], None], settings: Settings | None, in_memory: bool = False
    ) -> RunFinder: ...
