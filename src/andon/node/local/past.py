"""The history of this machine: this user's file, or what the machine's server records."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from andon.errors import AndonError
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Bucket
from andon.model.device import Device
from andon.model.vendors import SIMULATED
from andon.node.local.context import Here
from andon.node.usual_server import may_be_running
from andon.ports import Store

if TYPE_CHECKING:
    from andon.node.remote.past import RemotePast


class LocalPast:
    """On a shared machine one server records for everyone: a user without a server has no
    history of their own."""

    def __init__(self, here: Here) -> None:
        self._here = here

    @property
    def recorded(self) -> bool:
        return self._found is not None

    def devices(self) -> Sequence[Device]:
        return self._past.devices()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        return self._past.history(device, metric, since, until, points)

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        return self._past.usage(device, since, until)

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], Mapping[str, list[float | None]]]:
        from andon.history.rules.throttle_shares import throttle_shares
        from andon.node.remote.past import RemotePast

        if isinstance(past := self._past, RemotePast):
            return past.throttle_shares(device, since, until, points)
        return throttle_shares(past, device, since, until, points)

    def close(self) -> None:
        store = self.__dict__.pop("_found", None)
        if store is not None and hasattr(store, "close"):
            store.close()

    @property
    def _past(self) -> "Store | RemotePast":
        """Raises Unavailable if nothing has been recorded."""
        return self._found or self._here.parts.open_past(self._here.settings)

    @cached_property
    def _found(self) -> "Store | RemotePast | None":
        here = self._here
        if here.settings.simulate and (simulated := self._of_the_server()) is not None:
            return simulated  # it keeps its past in memory
        own = here.parts.find_store(here.settings)
        if own is not None or here.settings.history_store:
            return own
        return self._of_the_server()

    def _of_the_server(self) -> "RemotePast | None":
        """Returns the history of this machine's server; with simulated devices only if it
        simulates too."""
        here = self._here
        server = here.any_server() if not here.settings.replay and may_be_running() else None
        if server is None:
            return None
        past = server.past
        try:
            devices = past.devices()
        except AndonError:  # it keeps none, or shows it to others only
            return None
        unreal = all(device.vendor == SIMULATED.name for device in devices)
        return None if here.settings.simulate and not unreal else past
