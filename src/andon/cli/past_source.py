"""Where `history` and `who` get the past: a named server, this user's file, or the server here."""

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from andon.cli.snapshot_source import connected
from andon.cli.sources import settings_of
from andon.errors import AndonError
from andon.model.vendors import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.cli.terminal import Choices
    from andon.history.rules.intervals import UsageInterval
    from andon.history.rules.series import Bucket
    from andon.model.device import Device


class Past(Protocol):
    """A read-only store, or a server's history."""

    def devices(self) -> "Sequence[Device]": ...

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> "Sequence[Bucket]": ...

    def usage(
        self, device: str | None, since: float, until: float
    ) -> "Sequence[UsageInterval]": ...

    def close(self) -> None: ...


def find_past(choices: "Choices") -> Past | None:
    """Returns where the history is; None if nothing has been recorded.

    On a shared machine one server records for everyone: a user without a server has no history
    of their own.
    """
    if choices.url is not None:
        from andon.node.history import RemoteHistory

        return RemoteHistory(connected(choices, choices.url))
    from andon import app

    if choices.simulate and (simulated := _of_the_server(choices)) is not None:
        return simulated  # it keeps its past in memory
    settings = settings_of(choices)
    own = app.find_store(settings)
    if own is not None or settings.history_store:
        return own
    return _of_the_server(choices)


def open_past(choices: "Choices") -> Past:
    """Returns where the history is; raises Unavailable if nothing has been recorded."""
    from andon import app

    return find_past(choices) or app.open_past(settings_of(choices))


def _of_the_server(choices: "Choices") -> Past | None:
    """Returns the history of this machine's server; with --simulate only if it simulates too."""
    from andon.cli.lamp_source import watching_server
    from andon.node.history import RemoteHistory

    found = watching_server(replace(choices, simulate=None))
    if found is None:
        return None
    past = RemoteHistory(found.server)
    try:
        devices = past.devices()
    except AndonError:  # it keeps none, or shows it to others only
        return None
    unreal = all(device.vendor == SIMULATED.name for device in devices)
    return None if choices.simulate and not unreal else past
