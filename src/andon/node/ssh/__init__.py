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
from andon.node.remote import RemoteNode
from andon.node.remote.alerts import RemoteAlerts
from andon.node.remote.leases import RemoteLeases
from andon.node.ssh.client import LEASES, STATUS, SshHost
from andon.node.ssh.failures import only_smi
from andon.node.ssh.live import SshLive

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook
    from andon.node.server import Notify
    from andon.node.ssh.past import SshPast, SshRuns


class SshNode(RemoteNode):
    """One host. Each question is a connection of its own, unless it is followed."""

    def __init__(
        self, host: SshHost, rulebook: "Callable[[], Rulebook]", notify: "Notify" = lambda _: None
    ) -> None:
        super().__init__(host, rulebook, notify)
        self.host = host

    @cached_property
    def live(self) -> "SshLive":
        return SshLive(self.host, self._rulebook, self._notify)

    @cached_property
    def alerts(self) -> "SshAlerts":
        return SshAlerts(self.host)

    @cached_property
    def leases(self) -> "SshLeases":
        return SshLeases(self.live)

    @cached_property
    def past(self) -> "SshPast":
        from andon.node.ssh.past import SshPast

        return SshPast(self.host)

    @cached_property
    def runs(self) -> "SshRuns":
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

    def __init__(self, live: SshLive) -> None:
        super().__init__(live)
        self._ssh = live

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        words = (*LEASES, "--mine") if mine else LEASES
        status, listed = self._ssh.host.ask(STATUS, words)
        if not isinstance(listed, dict):
            raise only_smi()
        try:
            return snapshot or self._ssh.take(status), list_from_json(listed), ()
        except Invalid as exc:
            raise self._ssh.host.of_another_version(exc.reason) from exc

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return self._ssh.verdicts()

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._ssh.read()
        return offer_by(snapshot, {one.uuid: one for one in self._ssh.verdicts()}, request)
