"""A machine behind a server, asked over HTTP: every part of a node by its REST interface."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from andon.explain.conditions.rulebook import Rulebook
from andon.model.device import Snapshot
from andon.node.rest import Notify, RestServer

if TYPE_CHECKING:
    from andon.node.remote.alerts import RemoteAlerts
    from andon.node.remote.jobs import ServerDesk
    from andon.node.remote.leases import RemoteLeases
    from andon.node.remote.live import RemoteLive
    from andon.node.remote.past import RemotePast
    from andon.node.remote.runs import RemoteRuns


class RemoteNode:
    """A server's node; the server decides what this user may see, and its devices may be
    simulated."""

    simulated = recording = False
    current: bool = True
    """Whether the state of the machine is known now."""
    remark: str | None = None
    """What a list of nodes shows about it besides its readings."""

    def __init__(
        self,
        server: RestServer,
        rulebook: Callable[[], Rulebook],
        notify: Notify = lambda _: None,
        completed: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot,
    ) -> None:
        """`completed` adds to a snapshot what this user may see and the server withholds."""
        self.url: str | None = server.url
        self._completed = completed
        self._server, self._rulebook, self._notify = server, rulebook, notify

    @cached_property
    def live(self) -> "RemoteLive":
        from andon.node.remote.live import RemoteLive

        return RemoteLive(self._server, self._rulebook, self._notify, self._completed)

    @cached_property
    def alerts(self) -> "RemoteAlerts":
        from andon.node.remote.alerts import RemoteAlerts

        return RemoteAlerts(self._server)

    @cached_property
    def leases(self) -> "RemoteLeases":
        from andon.node.remote.leases import RemoteLeases

        return RemoteLeases(self.live)

    @cached_property
    def past(self) -> "RemotePast":
        from andon.node.remote.past import RemotePast

        return RemotePast(self._server)

    @cached_property
    def runs(self) -> "RemoteRuns":
        from andon.node.remote.runs import RemoteRuns

        return RemoteRuns(self._server, self._notify)

    @cached_property
    def jobs(self) -> "ServerDesk":
        from andon.node.remote.jobs import ServerDesk

        return ServerDesk(self._server.as_user(), self._notify)

    def shared(self) -> "RemoteNode":
        return self

    def close(self) -> None:
        for name in ("leases", "runs", "jobs"):
            if (part := self.__dict__.pop(name, None)) is not None:
                part.close()
