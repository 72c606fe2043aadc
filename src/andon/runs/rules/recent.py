"""The latest samples of a run, and its program's latest events."""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct, field

from andon.model.run.record import (
    RunAlert,
    RunBegin,
    RunEnd,
    RunEvent,
    RunItem,
    RunLine,
    RunLogged,
    RunSample,
)

Happening = RunEvent | RunItem | RunLogged | RunAlert


class RecentLines(Struct):
    """Keeps the latest `most` samples and as many of the other lines."""

    most: int
    begin: RunBegin | None = None
    end: RunEnd | None = None
    samples: deque[RunSample] = field(default_factory=deque)
    happenings: deque[Happening] = field(default_factory=deque)

    def add_all(self, lines: Iterable[RunLine]) -> None:
        for line in lines:
            self.add(line)

    def add(self, line: RunLine) -> None:
        match line:
            case RunBegin():
                self.begin = self.begin or line
            case RunEnd():
                self.end = line
            case RunSample():
                self._keep(self.samples, line)
            case RunEvent() | RunItem() | RunLogged() | RunAlert():
                self._keep(self.happenings, line)

    @property
    def is_full(self) -> bool:
        return min(len(self.samples), len(self.happenings)) >= self.most

    @property
    def last_at(self) -> float | None:
        known = [*list(self.samples)[-1:], *list(self.happenings)[-1:], self.end or self.begin]
        return max((line.at for line in known if line is not None), default=None)

    def _keep(self, kept: "deque[RunSample] | deque[Happening]", line: RunLine) -> None:
        kept.append(line)  # type: ignore[arg-type]
        while len(kept) > self.most:
            kept.popleft()
