"""The latest samples of a run, and its program's latest events."""

from collections import deque
from collections.abc import Iterable

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


class RecentLines:
    """Keeps the latest `most` samples and as many of the other lines."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.begin: RunBegin | None = None
        self.end: RunEnd | None = None
        self.samples, self.happenings = deque[RunSample](maxlen=most), deque[Happening](maxlen=most)

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
                self.samples.append(line)
            case RunEvent() | RunItem() | RunLogged() | RunAlert():
                self.happenings.append(line)

    @property
    def is_full(self) -> bool:
        return min(len(self.samples), len(self.happenings)) >= self.most

    @property
    def last_at(self) -> float | None:
        known = [*list(self.samples)[-1:], *list(self.happenings)[-1:], self.end or self.begin]
        return max((line.at for line in known if line is not None), default=None)
