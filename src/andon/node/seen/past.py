"""A node's history, without the names of other users' programs."""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.access.roles import Action, Identity, Sight, refusal_for, signature
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import HistoryNote
from andon.node.seen.sights import uses_seen_by
from andon.node.watched.past import ServedPast


class SeenPast:
    """The recorded history as one caller may see it."""

    def __init__(self, past: ServedPast, sight: Sight, who: Identity) -> None:
        self._past, self._sight, self._who = past, sight, who
        self.devices, self.history = past.devices, past.history
        self.throttle_shares, self.checks = past.throttle_shares, past.checks
        self.notes, self.ended_leases = past.notes, past.ended_leases

    @property
    def recorded(self) -> bool:
        return self._past.recorded

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        return uses_seen_by(self._sight, self._past.usage(device, since, until))

    def add_note(self, note: HistoryNote) -> HistoryNote:
        """Keeps a note under the caller's name."""
        if refused := refusal_for(self._who, Action.ANNOTATE, is_own=True):
            raise refused
        return self._past.add_note(replace(note, by=signature(self._who, note.by)))

    def remove_note(self, number: str) -> None:
        """Removes a note of the caller's own."""
        if refused := refusal_for(self._who, Action.ANNOTATE, is_own=True):
            raise refused  # before it is said whether there is one
        by = self._past.book.find(number).by
        if refused := refusal_for(
            self._who, Action.ANNOTATE, bool(by) and by == self._who.user, by
        ):
            raise refused
        self._past.remove_note(number)
