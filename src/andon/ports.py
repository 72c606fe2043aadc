"""All Protocols on one page: the interfaces that adapters implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from andon.errors import AndonError
from andon.model.device import Card, Device, Host, Process, Reading
from andon.model.event import Event
from andon.model.place import DevicePlace

if TYPE_CHECKING:  # imported at every start; history and alerts are not
    from andon.alerts.rules.outbox import Delivery, SavedAlerts
    from andon.alerts.rules.past import Query
    from andon.fleet.rules.nodes import FleetNode, Heartbeat, NamedToken
    from andon.history.rules.intervals import UsageInterval
    from andon.history.rules.series import Bucket, NodeReadings
    from andon.history.rules.tiers import DueRoll, Maintenance, StoreContents, StoredBlock, Tier
    from andon.model.alert import Alert, Notice
    from andon.model.execution import CreatedWork, WorkEnd, WorkOrder
    from andon.model.job.cluster import ClusterJob, ClusterNode, HostOffer, NoteFolder
    from andon.model.job.desk import Able, LogPart, Submission
    from andon.model.run.record import RunRow
    from andon.runs.rules.baselines import RunBaseline
    from andon.runs.rules.matching import RunCounts, RunQuery
    from andon.settings.store_url import StoreUrl


class Backend(Protocol):
    """Reads one vendor's cards. Calls may block forever, so only a reader process makes them.

    `open`, `describe` and `read` raise `Unavailable` when the vendor as a whole cannot be read, and
    `Gone` when one card is lost; a single value that fails is None with a reason in `missing`.
    """

    name: str

    def glance(self) -> Sequence[Card]:
        """The cards that the operating system lists; wakes no device and calls no driver."""

    def open(self) -> Sequence[Card]:
        """Load what is needed and list the cards."""

    def describe(self, card: Card) -> Sequence[Device]:
        """Returns the card's device and its partitions; called again about once a minute."""

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        """One reading per device of the card; expensive fields only when they are due."""

    def versions(self) -> Mapping[str, str]:
        """Driver and library versions, by name."""

    def close(self) -> None:
        """Release what `open` acquired. May be called twice."""


@runtime_checkable
class Announcing(Protocol):
    """A backend whose devices also report events between readings."""

    def announce(self, report: Callable[[Sequence[Event]], None]) -> None:
        """Called once, before `open`; report events as they happen, from any thread."""


@runtime_checkable
class Accounting(Protocol):
    """A backend that reads more of a card on request, for the record of a run."""

    def account(self, card: Card, energy: bool) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Called before `read`, which then has the activity of the chip since the last such call
        and, with `energy`, the energy counter as it is now. Returns by uuid the driver's own
        recent readings of utilisation, oldest first: time and percent. Raises as `read`."""


@runtime_checkable
class Linking(Protocol):
    """A backend that knows how its devices are linked with each other."""

    def linked(self, card: Card, place: DevicePlace) -> DevicePlace:
        """Returns the place of a card's device from the kernel, with what the driver adds.
        Called once, after `describe`; raises as `read`."""


class EventSource(Protocol):
    """Another source of device events, such as the kernel log."""

    def read(self) -> Sequence[Event]:
        """The events since the last call; never blocks."""

    def close(self) -> None:
        """Release it. May be called twice."""


class ProcessSource(Protocol):
    """Looks up the operating system's processes."""

    def attribute(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """Fill in what the vendor's library did not report."""

    expecting: bool
    """Whether names requested by the latest call may arrive shortly."""

    @property
    def note(self) -> str | None:
        """Why processes of the latest call have no name, other than having just ended."""


class HostSource(Protocol):
    """Reads the node's own values."""

    def read(self) -> Host:
        """Returns the current values; differences are since the last read."""


class Directory(Protocol):
    """A store that can list its contents."""

    def devices(self) -> Sequence[Device]:
        """Every recorded device, by index."""

    def metrics(self, device: str) -> Sequence[str]:
        """The metrics stored for a device."""


class Tiers(Protocol):
    """The single steps of a store's maintenance. Which of them is due, and when, is decided by
    `history.rules.tiers` and carried out by `history.writer`; `history.rules.blocks` makes the
    blocks.

    Each step is committed whole or not at all, also while another process writes or maintains.
    """

    def contents(self) -> StoreContents:
        """Returns what the store holds; the plan is made from this."""

    def load(self, devices: Sequence[Device], blocks: Iterable[StoredBlock]) -> None:
        """Store finished blocks, as they were made elsewhere, instead of what there is in their
        windows."""

    def blocks(self, tier: Tier, since: int) -> Sequence[StoredBlock]:
        """Returns the blocks of one window, to be loaded elsewhere."""

    def pack(self, begin: int) -> Maintenance:
        """Turn the ticks of one window of the finest tier into blocks."""

    def shorten(self, tier: Tier, now: int) -> Maintenance:
        """Let a tier end with its last window that is over now; without one it has no extent."""

    def roll(self, due: DueRoll) -> Maintenance:
        """Make one window of a tier from the tier below; the tier is then complete up to
        `rolled_until`. Rows of an earlier block of the window remain where there are none below."""

    def delete(self, tier: Tier, before: int) -> Maintenance:
        """Delete a tier's blocks before this time; the tier begins there."""

    def forget(self, before: float) -> Maintenance:
        """Delete the intervals of use that ended before this time."""


class Store(Directory, Tiers, Protocol):
    """Stores readings and device usage. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing was written, and the
    same call may be made again.
    """

    @property
    def place(self) -> str:
        """Where it is, as text; never with a password."""

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        """Store ticks and intervals; writing the same one twice stores it once."""

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        """The span in `points` buckets of equal length; one without a reading has count 0."""

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        """Who used a device, or any device, within the span; earliest first."""

    def size_bytes(self) -> int:
        """The space it uses on disk with all its files, or in memory."""

    def compact(self, fully: bool = False) -> int:
        """Returns free space to the system, a little or all of it; returns how many bytes."""

    def close(self) -> None:
        """Close files and connections. May be called twice."""


class StoreKind(Protocol):
    """What a URL's scheme means in the registry: a class with these methods.

    Each opens a part of the database for one node: what is written belongs to that node, and
    nothing of another is found, changed or deleted. Only `size_bytes` is that of the whole. `node`
    is the name that the node's snapshots have, not the id of a machine: people and other nodes know
    it by that name, whereas images clone ids and containers have none. It is empty for a file in
    a machine's own folder, which remains that machine's when it is renamed.
    """

    def open(self, url: StoreUrl, node: str, readonly: bool = False) -> Store:
        """Opens the history at this URL. Read-only, it is never created, repaired or changed, and
        `Gone` is raised if nothing has been recorded yet."""

    def open_alerts(self, url: StoreUrl, node: str) -> AlertStore:
        """Opens the alerts that are kept beside the history."""

    def open_runs(self, url: StoreUrl, node: str) -> RunIndex:
        """Opens the index of the runs that this node knows; those of others may be among them."""

    def files(self, url: StoreUrl) -> Mapping[str, Path]:
        """The files it may have on this machine, by purpose, so that doctor can check who may read
        them; none for a store without."""


class NodeStore(Protocol):
    """Stores which nodes may report to a hub, and their heartbeats. Several hubs may use one. A
    call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing was written, and the
    same call may be made again.
    """

    def nodes(self) -> Sequence[FleetNode]:
        """Returns all nodes, by name, each with the digest of its last heartbeat."""

    def put(self, node: FleetNode) -> None:
        """Adds a node, or changes its token and its marks; heartbeats are not touched. `Conflict`
        if another node has the token."""

    def remove(self, name: str) -> bool:
        """Removes a node, which then has no heartbeat; returns whether there was one. Its history
        stays."""

    def take(self, heartbeats: Sequence[Heartbeat]) -> Sequence[Heartbeat]:
        """Stores heartbeats in this order; returns those that are new. One that is not newer than
        the last of its session, or of a node that may not report, is left out."""

    def beats(self, name: str, since: float | None = None) -> Sequence[Heartbeat]:
        """Returns a node's heartbeats that came after this time, oldest first, with all their
        parts; without a time only the last. Parts are kept for an hour or two."""

    def close(self) -> None:
        """Close files and connections. May be called twice."""


class NodePasts(Protocol):
    """Opens what a hub keeps of its nodes beside their heartbeats. All parts share connections:
    a hub has more nodes than a database has connections. Closing a part closes nothing."""

    def history(self, node: str) -> Store: ...

    def courses(
        self, nodes: Sequence[str], metric: str, since: float, until: float, points: int
    ) -> Mapping[str, Sequence[Bucket]]:
        """Returns one reading of each of these nodes, over all of its devices, as `Store.history`
        has that of one; without those that have none, and what came since the last block."""

    def alerts(self, node: str) -> AlertStore: ...

    def runs(self, node: str | None) -> RunIndex:
        """Returns the runs of a node; None: an index that finds those of all."""

    def news(self) -> Sequence[Heartbeat]:
        """Returns the heartbeats with notices that no hub has taken yet: of each node the oldest,
        the oldest first, at most 200; of their parts only the notices."""

    def thin_news(self, most: int) -> Sequence[str]:
        """Forgets all but so many of the latest of each node; returns whose, a name for each."""

    def drop_news(self, taken: Sequence[Heartbeat]) -> None:
        """Forgets these."""

    def clear(self, node: str) -> bool:
        """Deletes all that is stored of a node; returns whether there was one."""

    def tokens(self) -> Sequence[NamedToken]:
        """Returns all named tokens, by name."""

    def add_token(self, token: NamedToken) -> bool:
        """Adds a token; returns False if there is one of that name."""

    def remove_token(self, name: str) -> bool:
        """Removes a token; returns whether there was one."""

    def leads(self) -> bool:
        """Whether this hub acts for all: one of those that share a database does, until it ends
        or loses its connection."""

    def close(self) -> None:
        """Close the connections. May be called twice."""


class Notifier(Protocol):
    """Notifies people, or another program. It may block: each has a thread of its own.

    `send` returns when the other side has acknowledged, and otherwise raises an AndonError whose
    text contains no secrets; the same call is then made again. One that has `refresh_seconds` is
    also sent what is firing at that interval, without any change.
    """

    name: str

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        """Send all of these as one message; `firing` is every alert this notifier knows of."""

    def close(self) -> None:
        """Abort what is in progress. May be called twice, and from another thread."""


class AlertStore(Protocol):
    """Stores alerts and pending notifications. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing was written.
    """

    def load(self) -> SavedAlerts | None:
        """The last saved state; None if there is none."""

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], deliveries: Sequence[Delivery]
    ) -> None:
        """Save the state, the changed alerts and all pending notifications in one transaction."""

    def episodes(self, query: Query) -> Sequence[Alert]:
        """Firing and past alerts, newest first."""

    def prune(self, at: float) -> int:
        """Delete the oldest episodes where there are too many; returns how many."""

    def close(self) -> None:
        """Close files and connections. May be called twice."""


class ContainerEngine(Protocol):
    """Runs commands in containers of this machine, on devices that a lease chose.

    What it makes is found again by its label, also by another process. Raises `Unavailable`,
    `Denied`, `Gone` or `Invalid` in one sentence when it cannot.
    """

    name: str

    def check(self, order: WorkOrder) -> None:
        """Raises an error for what would fail, before anything is claimed: no engine, no image."""

    def create(self, order: WorkOrder) -> CreatedWork:
        """Prepares the work; nothing runs yet, and a failure leaves nothing behind."""

    def client(self, work: CreatedWork) -> Sequence[str]:
        """Returns a command that starts the work, passes on its output and, if ordered, its
        input, and ends with it. Raises an error if it cannot be started."""

    def follow(self, work: CreatedWork, since: float) -> Sequence[str]:
        """Returns a command for work that runs already: it passes on the output from this time
        on, and ends with the work."""

    def find(self, label: str) -> Sequence[CreatedWork]:
        """Returns the work under this label, regardless of who started it."""

    def send(self, work: CreatedWork, number: int) -> None:
        """Signal it, to stop or to kill; no error if it has ended."""

    def ended(self, work: CreatedWork) -> WorkEnd | None:
        """How it ended; None while it runs, `Gone` if there is no such work."""

    def clean(self, work: CreatedWork) -> None:
        """Kill what still runs and remove what is left of it. May be called twice."""

    def not_started(self, work: CreatedWork, stderr: str) -> AndonError:
        """Returns the error for the engine's message about work that did not start."""

    def leftovers(self, living: frozenset[str]) -> Sequence[CreatedWork]:
        """Returns ended work of this user under labels that are not among the living."""


class Cluster(Protocol):
    """Places jobs on the machines of a cluster, which chooses their devices, elsewhere and later.

    A call may block until the `timeout_seconds` of the cluster's settings. Raises `Unavailable`
    when the cluster does not answer, `Denied`, `Gone` for an id that it does not know, and
    `Invalid` for what it cannot do, in one sentence with a hint. It translates: what clusters have
    in common is done around it, in jobs.clusters.desk.
    """

    @property
    def title(self) -> str:
        """As sentences name it: Slurm."""

    @property
    def able(self) -> frozenset[Able]:
        """What it takes; the rest is refused before it is asked."""

    @property
    def instead(self) -> Mapping[Able, str]:
        """What to use in place of some that it does not take."""

    shared_folder: str | None
    """A folder that this machine and all jobs see; None if they share no files."""
    notes: NoteFolder | None
    """Where its jobs note which records they have; None if they do not."""

    @property
    def identity(self) -> str:
        """Which server is asked, and as whom, in one line without secrets: answers are kept for
        it. Asks nothing."""

    def submit(self, submission: Submission, again: bool = False) -> str:
        """Submits a job or an array; returns its id. With `again` its label was handed over before,
        and no answer came: if the cluster has it, its id is returned and nothing submitted."""

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        """Returns this user's jobs that have not ended, or ended after `since`, andon's and others;
        with `everyone`, those of all users that this one may see."""

    def job(self, job: str) -> ClusterJob:
        """Returns one job, whoever's it is, with all that the cluster says of why it waits or how
        it ended; of an array, one that has not ended."""

    def cancel(self, ids: Sequence[str]) -> None:
        """Asks jobs to end, or whole arrays; no error if they have ended. `Gone` names the first
        unknown one, after the others were asked."""

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        """Returns the output from this position on, or the end of it; at most this many bytes, of
        whole characters. Empty while the job has not started."""

    def nodes(self) -> Sequence[ClusterNode]:
        """Returns the machines with GPUs, by name, and who has these."""


class Foreground(Cluster, Protocol):
    """A cluster that is able to run a job at this terminal: Able.FOREGROUND."""

    own_lines: Sequence[str]
    """Regular expressions, which begin with a word, of the lines that the command below adds to the
    error output by itself: they are not shown."""

    def foreground(self, submission: Submission) -> Sequence[str]:
        """Returns a command that submits the job and waits for it: it passes on input and output,
        and ends with the job's exit code."""

    def signal(self, submission: Submission, number: int) -> None:
        """Sends a signal to the job of that command; ends one that has not started."""


class Previewing(Cluster, Protocol):
    """A cluster that is able to show what it would be sent: Able.PREVIEW."""

    def preview(self, submission: Submission) -> str:
        """Returns what `submit` would send, as text; raises what it would refuse."""

    def placed(self, submission: Submission) -> str:
        """Returns which nodes a job that was just submitted prefers, or why none; empty if andon
        states no preference there."""


@runtime_checkable
class Offering(Cluster, Protocol):
    """A machine that says before a job is submitted whether it would start there at once, and takes
    many jobs in one call."""

    def batches(self, submissions: Sequence[Submission]) -> Iterable[Sequence[Submission]]:
        """Returns the jobs in parts that fit into a call each."""

    def submit_all(self, submissions: Sequence[Submission]) -> list[str]:
        """Submits these jobs, or none of them; returns their ids."""

    def offers(self, submissions: Sequence[Submission]) -> Sequence[HostOffer]:
        """Returns an offer for each; raises what `submit` would refuse."""


class RunIndex(Protocol):
    """Finds runs by their records, and keeps what people add to them. The records are
    authoritative: a lost index is rebuilt from them, without tags, notes and baselines that
    people added. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing was written.
    """

    @property
    def place(self) -> str:
        """Where it is, as text."""

    def put(self, rows: Sequence[RunRow]) -> None:
        """Stores the contents of records, by id. A known run keeps its tags and its note."""

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        """The runs that `runs.rules.matching` means, newest first. They are whole: of a run that
        the query's `sight` does not show, the caller must hide what is private."""

    def count(self, query: RunQuery) -> int:
        """How many there are without the query's limit and offset."""

    def counts(self, query: RunQuery) -> RunCounts:
        """The same by device, tag, group and state; tags only of runs that `sight` shows."""

    def beginning(self, text: str, limit: int) -> Sequence[RunRow]:
        """Returns the runs whose id begins with this text, the one with exactly this id first."""

    def paths(self) -> Mapping[str, str]:
        """Returns every record in the index: path → id."""

    def states(self) -> Mapping[str, str]:
        """Returns the state of every run, by id."""

    def annotate(self, run: str, tags: Sequence[str], note: str | None) -> None:
        """Replace the tags and the note of a run; `Gone` if there is no such run."""

    def drop(self, runs: Sequence[str]) -> None:
        """Forget runs; their records are not touched."""

    def baselines(self) -> Sequence[RunBaseline]:
        """Returns all baselines, by name."""

    def put_baseline(self, baseline: RunBaseline) -> None:
        """Stores a baseline in place of another of that name."""

    def drop_baseline(self, name: str) -> bool:
        """Removes a baseline; returns whether there was one."""

    def close(self) -> None:
        """Close files and connections. May be called twice."""
