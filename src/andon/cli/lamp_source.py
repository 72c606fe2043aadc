"""Where `status`, `watch` and `why` get their lamps: from the server's alerts or this sample."""

from typing import TYPE_CHECKING

from andon.alerts.rules.glance import lamps_now
from andon.alerts.rules.lamps import DeviceLamp, lamps_of
from andon.cli.sources import rulebook_of
from andon.cli.terminal import Choices
from andon.errors import AndonError
from andon.model.device import Snapshot
from andon.node.usual_server import may_be_running

if TYPE_CHECKING:
    from andon.cli.alert_source import FromServer


class LampSource:
    """The lamps of snapshots, by the alerts of the server that watches these devices.

    A server that stops answering, or watches other devices, is ignored.
    """

    def __init__(self, choices: Choices, server: "FromServer | None" = None) -> None:
        self._rulebook = rulebook_of(choices)
        self._server = server or watching_server(choices)

    def of(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        return self._by_alerts(snapshot) or lamps_now(snapshot, self._rulebook)

    def _by_alerts(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...] | None:
        if self._server is None or not snapshot.devices:
            return None
        try:
            page = self._server.page()
        except AndonError:
            self._server = None
            return None
        same = (page.node, page.simulated) == (snapshot.node, snapshot.simulated)
        return lamps_of(snapshot, page.alerts) if same else None


def watching_server(choices: Choices) -> "FromServer | None":
    """The named server, or the trusted one on this machine; None if there is none."""
    if choices.url is None and (choices.simulate is not None or choices.replay is not None):
        return None
    if choices.url is None and not may_be_running():
        return None
    from andon.cli.alert_source import FromServer, source_of

    found = source_of(choices)
    return found if isinstance(found, FromServer) else None
