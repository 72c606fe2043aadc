"""What runs in a server, for its routes and its node."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from andon.alerts.watcher import Watcher
from andon.model.device import Snapshot
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.web.answers.health import HealthPart
from andon.web.answers.texts import SnapshotTexts
from andon.web.fleet.reported import Fleet
from andon.web.history_reader import HistoryReader
from andon.web.jobs.seen import ServerJobs
from andon.web.runs.shown import ServerRuns
from andon.web.server_history import ServerHistory
from andon.web.transport.keys import Keys

if TYPE_CHECKING:  # locks are not on every system
    from andon.leases.network import NetworkLeases
    from andon.leases.tracker import LeaseTracker

FILES_THREADS = 4  # the files of one user may hang, and must not delay another's


class AppState(Struct, frozen=True):
    """The running parts, and the threads that answer requests."""

    feed: SnapshotFeed
    keys: Keys
    history: ServerHistory
    parts: dict[str, HealthPart]
    expose: Callable[[], str] | None = None
    texts: SnapshotTexts = field(default_factory=SnapshotTexts)
    watcher: Watcher | None = None
    remote_leases: "NetworkLeases | None" = None
    leases: "LeaseTracker | None" = None
    sign_in: str | None = None
    """The name of the socket at which this machine's users get their links."""
    past: HistoryReader = field(default_factory=HistoryReader)
    """For requests that read the store."""
    minutes: HistoryReader = field(default_factory=HistoryReader)
    """For requests that read all of the last two minutes."""
    runs: ServerRuns | None = None
    records: HistoryReader = field(default_factory=lambda: HistoryReader(FILES_THREADS, what="run"))
    """For requests that read the records of runs."""
    jobs: ServerJobs | None = None
    queue: HistoryReader = field(default_factory=lambda: HistoryReader(FILES_THREADS, what="job"))
    """For requests that read the folder of jobs."""
    fleet: Fleet | None = None
    """The nodes that report to this server, if it is a hub."""
    placed: Callable[[], Snapshot] | None = None
    """The latest snapshot with the places of its devices, which may have to be asked for."""

    @property
    def features(self) -> dict[str, bool]:
        """Which of the board's pages have something to show."""
        demo = {"demo": True} if self.keys.is_demo else {}
        return demo | {
            "alerts": self.watcher is not None,
            "leases": self.remote_leases is not None,
            "jobs": self.jobs is not None,
            "runs": self.runs is not None,
            "nodes": self.fleet is not None,
        }
