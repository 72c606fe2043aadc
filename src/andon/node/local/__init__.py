"""This machine, simulated devices or a recording: every part of a node without a network.

A server of this machine is asked where it knows more than a single reading: its latest snapshot,
its alerts, the history that it records for everyone.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook
    from andon.node.local.alerts import LocalAlerts
    from andon.node.local.jobs import LocalJobs
    from andon.node.local.leases import LocalLeases
    from andon.node.local.live import LocalLive
    from andon.node.local.past import LocalPast
    from andon.node.local.runs import LocalRuns
    from andon.node.port import LocalParts
    from andon.node.remote import RemoteNode
    from andon.node.remote.alerts import RemoteAlerts
    from andon.settings.resolution import Settings


class Here(Struct, frozen=True):
    """What the parts of this node share."""

    settings: "Settings"
    parts: "LocalParts"
    notify: Callable[[str], None]
    fresh: bool = False  # reads the devices, whatever a server knows
    own_thresholds: bool = False  # judges by them, which no server does
    leases_simulated: bool = False  # where simulated devices were asked for on the command line
    token_file: str | None = None

    @property
    def is_real(self) -> bool:
        return not self.settings.simulate and not self.settings.replay

    @property
    def root(self) -> Path:
        return Path(self.settings.root)

    @property
    def usual_thresholds(self) -> bool:
        given = self.settings
        own = given.alerts_figures or given.alerts_overrides or given.alerts_disabled_rules
        return not own

    @property
    def rulebook(self) -> "Rulebook":
        return self.parts.rulebook(self.settings)

    def watching_server(self) -> "RemoteNode | None":
        """Returns the trusted server that watches this machine's devices; None if none answers,
        or these devices are not the machine's."""
        from andon.node.usual_server import may_be_running

        return self.any_server() if self.is_real and may_be_running() else None

    def any_server(self) -> "RemoteNode | None":
        """Returns the trusted server of this machine, whatever devices it has."""
        from andon.node.remote import RemoteNode
        from andon.node.running import running_server

        server = running_server(self.token_file)
        return None if server is None else RemoteNode(server, lambda: self.rulebook, self.notify)


class LocalNode:
    """This machine, or devices that are simulated or replayed on it."""

    url: str | None = None

    def __init__(self, here: Here) -> None:
        self._here = here

    @property
    def simulated(self) -> bool:
        return bool(self._here.settings.simulate)

    @property
    def recording(self) -> bool:
        return bool(self._here.settings.replay)

    @cached_property
    def live(self) -> "LocalLive":
        from andon.node.local.live import LocalLive

        return LocalLive(self._here)

    @cached_property
    def alerts(self) -> "LocalAlerts | RemoteAlerts":
        from andon.node.local.alerts import alerts_of

        return alerts_of(self._here, self.live)

    @cached_property
    def leases(self) -> "LocalLeases":
        from andon.node.local.leases import LocalLeases

        return LocalLeases(self._here, self.live)

    @cached_property
    def past(self) -> "LocalPast":
        from andon.node.local.past import LocalPast

        return LocalPast(self._here)

    @cached_property
    def runs(self) -> "LocalRuns":
        from andon.node.local.runs import open_runs

        return open_runs(self._here)

    @cached_property
    def jobs(self) -> "LocalJobs":
        from andon.node.local.jobs import LocalJobs

        return LocalJobs(self._here)

    def shared(self) -> "RemoteNode | None":
        return self._here.watching_server()

    def close(self) -> None:
        for name in ("past", "runs"):
            if (part := self.__dict__.pop(name, None)) is not None:
                part.close()
