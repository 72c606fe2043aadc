"""A machine that is reached by SSH, with or without andon there: the JSON that its commands print
is read as a server's answers are."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from andon.explain.conditions.rulebook import Rulebook
from andon.node.remote import RemoteNode
from andon.node.rest import Notify
from andon.node.ssh.client import SshHost
from andon.node.ssh.live import SshLive

if TYPE_CHECKING:
    from andon.node.ssh.jobs import SshJobs
    from andon.node.ssh.leases import SshLeases
    from andon.node.ssh.past import SshAlerts, SshPast, SshRuns


class SshNode(RemoteNode):
    """One host. Each query opens a connection of its own, unless the host is followed."""

    def __init__(
        self, host: SshHost, rulebook: Callable[[], Rulebook], notify: Notify = lambda _: None
    ) -> None:
        super().__init__(host, rulebook, notify)
        self.host = host

    @cached_property
    def live(self) -> SshLive:
        return SshLive(self.host, self._rulebook, self._notify)

    @cached_property
    def alerts(self) -> "SshAlerts":
        from andon.node.ssh.past import SshAlerts

        return SshAlerts(self.host)

    @cached_property
    def leases(self) -> "SshLeases":
        from andon.node.ssh.leases import SshLeases

        return SshLeases(self.live)

    @cached_property
    def past(self) -> "SshPast":
        from andon.node.ssh.past import SshPast

        return SshPast(self.host)

    @cached_property
    def runs(self) -> "SshRuns":
        from andon.node.ssh.past import SshRuns

        return SshRuns(self.host)

    @cached_property
    def jobs(self) -> "SshJobs":
        from andon.node.ssh.jobs import SshJobs

        return SshJobs(self.host, self._notify)

    @property
    def by(self) -> str | None:
        """The program that answered: `andon 0.1` or nvidia-smi; None until one has."""
        return self.host.by

    def free(self) -> int | None:
        """Returns how many devices were free at the last status; None if that is not known."""
        return self.live.free()

    def close(self) -> None:
        if "runs" in self.__dict__:
            self.runs.close()
        self.host.close()
