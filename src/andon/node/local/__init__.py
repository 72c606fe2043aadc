"""This machine, simulated devices or a recording: every part of a node without a network.

A server of this machine is asked where it knows more than a single reading: its latest snapshot,
its alerts, the history that it records for everyone.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from andon.node.local.context import LocalContext

if TYPE_CHECKING:
    from andon.jobs.desk import Desks
    from andon.node.local.alerts import LocalAlerts
    from andon.node.local.leases import LocalLeases
    from andon.node.local.live import LocalLive
    from andon.node.local.past import LocalPast
    from andon.node.local.runs import LocalRuns
    from andon.node.remote import RemoteNode
    from andon.node.remote.alerts import RemoteAlerts
    from andon.node.remote.past import RemotePast


class LocalNode:
    """This machine's devices, or simulated or replayed ones."""

    url: str | None = None

    def __init__(self, context: LocalContext) -> None:
        self._context = context

    @property
    def simulated(self) -> bool:
        return bool(self._context.settings.simulate)

    @property
    def recording(self) -> bool:
        return bool(self._context.settings.replay)

    @cached_property
    def live(self) -> "LocalLive":
        from andon.node.local.live import LocalLive

        return LocalLive(self._context)

    @cached_property
    def alerts(self) -> "LocalAlerts | RemoteAlerts":
        from andon.node.local.alerts import alerts_of

        return alerts_of(self._context, self.live)

    @cached_property
    def leases(self) -> "LocalLeases":
        from andon.node.local.leases import LocalLeases

        return LocalLeases(self._context, self.live)

    @cached_property
    def past(self) -> "LocalPast | RemotePast":
        from andon.node.local.past import past_of

        return past_of(self._context)

    @cached_property
    def runs(self) -> "LocalRuns":
        from andon.node.local.runs import open_runs

        return open_runs(self._context)

    @cached_property
    def jobs(self) -> "Desks":
        from andon.node.local.jobs import local_desks

        return local_desks(self._context)

    def shared(self) -> "RemoteNode | None":
        if (server := self._context.watching_server()) is None:
            return None
        from andon.errors import AndonError
        from andon.node.latest_snapshot import is_of_this_machine

        try:
            found = server.live.latest()
        except AndonError:
            return None
        context = self._context
        return server if is_of_this_machine(found, context.settings.node, context.root) else None

    def close(self) -> None:
        for name in ("past", "runs"):
            part = self.__dict__.pop(name, None)
            if hasattr(part, "close"):  # the history of a server has none
                part.close()
