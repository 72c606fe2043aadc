"""The node of a server's own machine, or of the devices that it simulates or plays."""

from andon.errors import Unavailable
from andon.leases.network import NetworkLeases
from andon.leases.tracker import LeaseTracker
from andon.node.of_server import NodeOfServer
from andon.node.watched.alerts import AlertJudge, PendingNotices, ServedAlerts
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.leases import ServedLeases
from andon.node.watched.live import WatchedLive
from andon.node.watched.recorded_past import NoPast, RecordedPast
from andon.node.watched.runs import ServedRuns
from andon.settings.resolution import Settings


class WatchedNode(NodeOfServer):
    """A node whose parts run in this process."""

    of_this_machine = True

    def __init__(
        self,
        name: str,
        settings: Settings,
        live: WatchedLive,
        past: RecordedPast | NoPast,
        judge: AlertJudge,
        runs: ServedRuns,
        book: "NetworkLeases | None" = None,
        tracker: "LeaseTracker | None" = None,
        user: str | None = None,
        jobs: ServedJobs | None = None,
        notices: PendingNotices | None = None,
        is_demo: bool = False,
    ) -> None:
        """`user` runs the server, and needs no server to end leases; `notices` are the notices for
        people that a hub may take over."""
        self.name, self.user, self.is_demo, self.live, self.past = name, user, is_demo, live, past
        self.simulated, self.recording = bool(settings.simulate), bool(settings.replay)
        self.alerts = ServedAlerts(judge, live.latest, settings.exporter_prefix, judge, notices)
        live.alerts = self.alerts.current
        listed = None if book is None else book.listed
        self.leases = ServedLeases(listed, live.latest, book, tracker)
        self.runs, self.has_jobs, self._jobs = runs, jobs is not None, jobs

    @property
    def jobs(self) -> ServedJobs:
        if self._jobs is None:
            hint = "andon jobs lists those of this machine"
            raise Unavailable("this server has no jobs", hint=hint)
        return self._jobs
