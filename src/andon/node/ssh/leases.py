"""The leases of a host over SSH, and which of its devices are free."""

from collections.abc import Sequence

from andon.errors import Invalid
from andon.leases.rules.offer import Offer, offer_by
from andon.model.codec import read_document
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict
from andon.node.remote.leases import RemoteLeases
from andon.node.ssh.client import LEASES, STATUS
from andon.node.ssh.failures import only_smi
from andon.node.ssh.live import SshLive


class SshLeases(RemoteLeases):
    """Leases as `andon leases` lists them there, and verdicts of the last status."""

    def __init__(self, live: SshLive) -> None:
        super().__init__(live)
        self._ssh = live

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        command = (*LEASES, "--mine") if mine else LEASES
        status, listed = self._ssh.host.ask(STATUS, command)
        if not isinstance(listed, dict):
            raise only_smi()
        try:
            return snapshot or self._ssh.take(status), read_document(LeaseList, listed), ()
        except Invalid as exc:
            raise self._ssh.host.of_another_version(exc.reason) from exc

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return self._ssh.verdicts()

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._ssh.read()
        return offer_by(snapshot, {one.uuid: one for one in self._ssh.verdicts()}, request)
