"""The history of a server, from its recorder; or the reason why there is none."""

from typing import NoReturn

from andon.alerts.rules.self_checks import StoreStats
from andon.errors import Unavailable
from andon.history.notes import NoteBook
from andon.history.writer import Recorder
from andon.model.shapes import to_json
from andon.model.wire import Json
from andon.node.watched.past import ServedPast


class RecordedPast(ServedPast):
    """The history of the recorder in this process."""

    def __init__(
        self,
        recorder: Recorder,
        budget_bytes: int | None = None,
        book: NoteBook | None = None,
    ) -> None:
        super().__init__(lambda: recorder.store, book)
        self._recorder, self._budget_bytes = recorder, budget_bytes

    def health(self) -> Json:
        found = to_json(self._recorder.health())
        return {"state": "ok" if found.pop("ok") else "failing", **found}

    def vitals(self) -> StoreStats:
        found = self._recorder.health()
        return StoreStats(
            found.reason, found.hint or "", found.dropped_snapshots, found.size_bytes,
            self._budget_bytes,
        )  # fmt: skip


class NoPast(ServedPast):
    """The past of a server without a history: every call raises the reason."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(self._refuse)
        self._reason, self._hint = reason, hint

    @property
    def book(self) -> NoteBook:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Unavailable(self._reason, hint=self._hint)

    def health(self) -> Json:
        return {"state": "off", "reason": self._reason, "hint": self._hint}

    def vitals(self) -> StoreStats:
        """Returns an empty state of the store."""
        return StoreStats()
