"""A node as one caller may see it, for routes, live events and pages."""

from functools import cached_property

from andon.access.roles import ANONYMOUS, BLIND, OF_A_HUB, Identity, sight_of
from andon.node.of_server import NodeOfServer
from andon.node.seen.alerts import SeenAlerts
from andon.node.seen.jobs import SeenJobs
from andon.node.seen.leases import SeenLeases
from andon.node.seen.live import SeenLive
from andon.node.seen.past import SeenPast
from andon.node.seen.runs import SeenRuns
from andon.node.served import ServedNode


class SeenNode(NodeOfServer):
    """One caller's view of a node, made for each request; it stores nothing. On another machine, or
    in a recording, the same user name may be another person's: there the caller is anonymous,
    unless a hub gave the role.
    """

    def __init__(self, node: ServedNode, who: Identity) -> None:
        self.who = who if node.of_this_machine or who.role in OF_A_HUB else ANONYMOUS
        self._node, self.sight = node, sight_of(self.who)
        namesakes = node.recording and not self.sight.everything
        self._sight_of_readings = BLIND if namesakes else self.sight

    @property
    def simulated(self) -> bool:
        return self._node.simulated

    @property
    def recording(self) -> bool:
        return self._node.recording

    @property
    def has_local_processes(self) -> bool:
        """Whether its processes run on the server's own machine."""
        return self._node.of_this_machine and not (self.simulated or self.recording)

    @cached_property
    def live(self) -> SeenLive:
        return SeenLive(self._node.live, self._sight_of_readings)

    @cached_property
    def alerts(self) -> SeenAlerts:
        return SeenAlerts(self._node.alerts, self.who, self._sight_of_readings)

    @cached_property
    def leases(self) -> SeenLeases:
        return SeenLeases(self._node.leases, self.who, self.sight, self._node.user)

    @cached_property
    def past(self) -> SeenPast:
        return SeenPast(self._node.past, self._sight_of_readings, self.who)

    @property
    def runs(self) -> SeenRuns:
        return SeenRuns(self._node.runs, self.sight, self.who)

    @property
    def jobs(self) -> SeenJobs:
        return SeenJobs(self._node.jobs, self._node.leases, self.who, self.sight)

    @property
    def features(self) -> dict[str, bool]:
        """Returns which pages of the board have content, and whether this is the demo."""
        return {
            "alerts": True,
            "leases": self.leases.supported,
            "jobs": self._node.has_jobs,
            "runs": True,
            "demo": self._node.is_demo,
        }
