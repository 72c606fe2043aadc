"""Numbers the items of a run and their attempts, and keeps their times."""

import math
import operator

from msgspec import Struct, field

from andon.model.run.record import ItemState, RunItem

MOST = 2**53


class _KnownItem(Struct):
    index: int
    attempt: int = 0
    started: float | None = None


class ItemLog(Struct):
    """The items of a run by name; one that has ended is kept as two numbers."""

    items: dict[str, _KnownItem] = field(default_factory=dict)

    def line(
        self,
        at: float,
        item: str,
        state: ItemState,
        index: int | None = None,
        device: str | None = None,
        attempt: int | None = None,
        runtime_seconds: float | None = None,
        output: str | None = None,
    ) -> RunItem:
        """Returns an item's line. Missing or invalid values are derived: the index from the order,
        the attempt from the starts, the time from the last start."""
        index, attempt, runtime_seconds = _count(index), _count(attempt), _seconds(runtime_seconds)
        known = self.items.setdefault(item, _KnownItem(len(self.items) if index is None else index))
        if state is ItemState.START:
            known.attempt += 1
            known.started = at
        elif runtime_seconds is None and known.started is not None:
            runtime_seconds = round(max(0.0, at - known.started), 6)  # the clock may be set back
        return RunItem(
            at=at,
            state=state,
            index=known.index if index is None else index,
            item=item,
            device=device,
            attempt=attempt or max(1, known.attempt),
            runtime_seconds=runtime_seconds,
            output=output,
        )


def _count(value: object) -> int | None:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - the program's own class
        return None
    return number if 0 <= number < MOST else None


def _seconds(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001
        return None
    return number if math.isfinite(number) and 0 <= number < MOST else None
