"""A run of any length in a bounded number of points: each is the mean of its span."""

from msgspec import Struct, field

from andon.model.run.record import SERIES_POINTS, RunSeries

NARROWEST_SECONDS = 0.25
Key = tuple[str, str]  # uuid and reading


class RunCurves(Struct):
    """When there are too many spans, pairs are merged: a long run is coarser, but complete."""

    began: float
    points: int = SERIES_POINTS
    width: float = NARROWEST_SECONDS
    counts: list[int] = field(default_factory=list)  # of samples, by span
    sums: dict[Key, list[tuple[float, int]]] = field(default_factory=dict)
    _open: int | None = None

    def at(self, moment: float) -> None:
        """The readings that follow are of this time."""
        place = max(0, int((moment - self.began) / self.width))
        while place >= self.points:
            self._halve()
            place = max(0, int((moment - self.began) / self.width))
        self.counts += [0] * (place + 1 - len(self.counts))
        self.counts[place] += 1
        self._open = place

    def add(self, uuid: str, name: str, value: float | None) -> None:
        if value is None or self._open is None:
            return
        spans = self.sums.setdefault((uuid, name), [])
        spans += [(0.0, 0)] * (self._open + 1 - len(spans))
        total, count = spans[self._open]
        spans[self._open] = total + value, count + 1

    def _halve(self) -> None:
        self.width *= 2
        self.counts = [sum(self.counts[i : i + 2]) for i in range(0, len(self.counts), 2)]
        for key, spans in self.sums.items():
            self.sums[key] = [_joined(spans[i : i + 2]) for i in range(0, len(spans), 2)]

    def result(self) -> RunSeries | None:
        """Spans in which nothing was sampled are left out; None where nothing ever was."""
        places = [place for place, count in enumerate(self.counts) if count]
        devices: dict[str, dict[str, tuple[float | None, ...]]] = {}
        for (uuid, name), spans in self.sums.items():
            devices.setdefault(uuid, {})[name] = tuple(_mean(spans, place) for place in places)
        if not devices:
            return None
        return RunSeries(tuple(round(place * self.width, 3) for place in places), devices)


def _joined(spans: list[tuple[float, int]]) -> tuple[float, int]:
    return sum(total for total, _ in spans), sum(count for _, count in spans)


def _mean(spans: list[tuple[float, int]], place: int) -> float | None:
    total, count = spans[place] if place < len(spans) else (0.0, 0)
    if not count:
        return None
    mean = total / count
    return int(mean) if abs(mean) >= 1e5 else round(mean, 2)
