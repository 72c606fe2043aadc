"""A machine that is reached by SSH, with or without andon there: what its commands print as JSON is
read as the answers of a server are."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from andon.errors import Invalid
from andon.leases.rules.offer import Offer, offer_by
from andon.model.device import Snapshot
from andon.model.lease import DeviceRequest
from andon.model.lease_list import LeaseList, list_from_json
from andon.model.verdict import DeviceVerdict
from andon.model.wire import Json
from andon.node.remote import RemoteNode
from andon.node.remote.alerts import RemoteAlerts
from andon.node.remote.leases import RemoteLeases
from andon.node.server import Notify
from andon.node.ssh.client import LEASES, STATUS, SshHost
from andon.node.ssh.live import SshLive

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook
    from andon.node.ssh.past import SshPast, SshRuns


class SshNode(RemoteNode):
    """One host. Each question is a connection of its own, unless it is followed."""

    def __init__(
        self, host: SshHost, rulebook: "Callable[[], Rulebook]", notify: Notify = lambda _: None
    ) -> None:
        super().__init__(host, rulebook, notify)  # type: ignore[arg-type]  # it answers as a server does
        self.host = host

    @cached_property
    def live(self) -> "SshLive":
        return SshLive(self.host, self._rulebook, self._notify)

    @cached_property
    def alerts(self) -> "SshAlerts":
        return SshAlerts(self.host)  # type: ignore[arg-type]

    @cached_property
    def leases(self) -> "SshLeases":
        return SshLeases(self.live, self.host)

    @cached_property
    def past(self) -> "SshPast":
        from andon.node.ssh.past import SshPast

        return SshPast(self.host)

    @cached_property
    def runs(self) -> "SshRuns":  # type: ignore[override]
        from andon.node.ssh.past import SshRuns

        return SshRuns(self.host)

    def shared(self) -> "SshNode":
        """Returns this node, from now on read by one connection that stays."""
        self.live.follow(1.0, patient=False)
        return self

    def close(self) -> None:
        self.host.close()


class SshAlerts(RemoteAlerts):
    """Alerts as `andon alerts` lists them there; nothing is said about them from here."""

    notifies = False

    def check_server(self) -> None:
        self.server.post("")


class SshLeases(RemoteLeases):
    """Leases as `andon leases` lists them there, and verdicts of the last status."""

    def __init__(self, live: SshLive, host: SshHost) -> None:
        super().__init__(live)
        self._ssh, self._host = live, host

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        status, listed = self._host.ask(STATUS, (*LEASES, *(("--mine",) if mine else ())))
        return snapshot or self._ssh.take(status), self._list(listed), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return self._ssh.verdicts()

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._ssh.read()
        return offer_by(snapshot, {one.uuid: one for one in self._ssh.verdicts()}, request)

    def release(self, name: str, note: str) -> str:
        raise self._host.refused()

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        raise self._host.refused()

    def _list(self, value: Json) -> LeaseList:
        try:
            return list_from_json(value)
        except Invalid as exc:
            raise self._host.of_another_version(exc.reason) from exc
