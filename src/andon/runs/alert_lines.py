"""Alerts on a run's devices while it runs, as lines of its record."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.host.clock import clocks
from andon.model.alert import Alert, Level, Phase
from andon.model.device import Snapshot
from andon.model.run.record import RunAlert

if TYPE_CHECKING:  # hundreds of modules, which a run loads once its command has started
    from andon.alerts.rules.state import AlertState
    from andon.explain.conditions.rulebook import Rulebook


class RunAlerts:
    """Evaluates the run's devices alone, as if there were no others."""

    def __init__(
        self,
        uuids: Collection[str],
        book: "Callable[[], Rulebook]",
        clocks: Callable[[], tuple[float, float]] = clocks,
    ) -> None:
        """`book` is called with the first snapshot: the settings take a moment to read."""
        self.uuids, self._make_book, self._clocks = uuids, book, clocks
        self._book: Rulebook | None = None
        self._state: AlertState | None = None
        self._firing: dict[str, Level] = {}

    def take(self, snapshot: Snapshot) -> list[RunAlert]:
        """Returns the alerts that now fire, become worse or are resolved."""
        from andon.alerts.rules.state import EMPTY
        from andon.alerts.rules.state_machine import step
        from andon.explain.evidence.observation import Moment, Observation

        self._book = self._book or self._make_book()
        mine = tuple(s for s in snapshot.devices if s.device.uuid in self.uuids)
        seen = Observation(
            replace(snapshot, devices=mine, faults=(), events=()), events=snapshot.events
        )
        moment = Moment(*self._clocks())
        outcome = step(self._state or EMPTY, seen, moment, self._book)
        self._state = outcome.state
        news = filter(self._is_changed, outcome.changed)
        return [_line(alert, moment.wall) for alert in news]

    def _is_changed(self, alert: Alert) -> bool:
        if alert.subject not in self.uuids:
            return False
        if alert.state is Phase.RESOLVED:
            return self._firing.pop(alert.id, None) is not None
        before = self._firing.get(alert.id)
        if alert.state is not Phase.FIRING or (before and before.rank >= alert.level.rank):
            return False
        self._firing[alert.id] = alert.level
        return True


def _line(alert: Alert, at: float) -> RunAlert:
    return RunAlert(
        at=at,
        rule=alert.rule,
        level=str(alert.level),
        state=str(alert.state),
        message=alert.message,
        device=None if alert.device is None else str(alert.device),
    )
