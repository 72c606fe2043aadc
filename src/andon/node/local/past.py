"""The history of this machine: this user's file, or what the machine's server records."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from andon.errors import AndonError
from andon.host.state.user_folder import node_path
from andon.model.vendors import SIMULATED
from andon.node.local.context import LocalContext
from andon.node.usual_server import may_be_running
from andon.node.watched.past import ServedPast
from andon.ports import Store

if TYPE_CHECKING:
    from andon.history.notes import NoteBook
    from andon.history.rules.notes import EndedLease, HistoryNote
    from andon.node.remote.past import RemotePast


class LocalPast(ServedPast):
    """The history in this user's own store, opened for reading."""

    def __init__(self, context: LocalContext, found: Store | None) -> None:
        super().__init__(lambda: found or context.parts.open_past(context.settings))
        self._found, self._context = found, context

    @property
    def recorded(self) -> bool:
        return self._found is not None

    def close(self) -> None:
        if self._found is not None:
            self._found.close()

    @cached_property
    def book(self) -> "NoteBook":
        from andon.history.notes import FILE, NoteBook

        return NoteBook(node_path() / FILE)

    @cached_property
    def _running(self) -> "RemotePast | None":
        return _of_the_server(self._context)

    def notes(self, device: str | None, since: float, until: float) -> "Sequence[HistoryNote]":
        return (self._running.notes if self._running else super().notes)(device, since, until)

    def ended_leases(
        self, device: str | None, since: float, until: float
    ) -> "Sequence[EndedLease]":
        there = self._running.ended_leases if self._running else super().ended_leases
        return there(device, since, until)

    def add_note(self, note: "HistoryNote") -> "HistoryNote":
        return self._server().add_note(note)

    def remove_note(self, number: str) -> None:
        self._server().remove_note(number)

    def _server(self) -> "RemotePast":
        """Returns what alone writes notes; raises Unavailable if it is not running."""
        if self._running is None:
            from andon.node.local.alerts import refuse_without_server

            refuse_without_server()
        return self._running


def past_of(context: LocalContext) -> "LocalPast | RemotePast":
    """Returns this user's own history, else that of this machine's server: on a shared machine one
    records for everyone."""
    if context.settings.simulate and (simulated := _of_the_server(context)) is not None:
        return simulated  # it keeps its past in memory
    own = context.parts.find_store(context.settings)
    there = None if own is not None or context.settings.history_store else _of_the_server(context)
    return there or LocalPast(context, own)


def _of_the_server(context: LocalContext) -> "RemotePast | None":
    """Returns the history of this machine's server; None if there is none, or it is of real devices
    while this command simulates."""
    server = context.any_server() if not context.settings.replay and may_be_running() else None
    if server is None:
        return None
    past = server.past
    try:
        devices = past.devices()
    except AndonError:  # it keeps none, or shows it to others only
        return None
    unreal = all(device.vendor == SIMULATED.name for device in devices)
    return None if context.settings.simulate and not unreal else past
