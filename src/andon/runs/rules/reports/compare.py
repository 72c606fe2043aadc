"""Runs side by side: medians, ranges, and a verdict only if the ranges do not overlap."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from andon.model.run.record import RunRow
from andon.runs.rules.matching import OF_A_JOB
from andon.runs.rules.measures import (
    DURATION,
    ITEMS,
    Order,
    SpreadOfRuns,
    change_of,
    in_order,
    measure_named,
    measure_of,
    order_of,
    spread_of,
)


class ComparedRun(Struct, frozen=True):
    """The numbers of a run by name, without unknown ones."""

    id: str
    devices: int
    values: Mapping[str, float]
    estimated: bool = False  # its energy


class RunSide(Struct, frozen=True):
    """Runs that are compared as one side."""

    label: str
    runs: tuple[ComparedRun, ...]

    def spread(self, measure: str) -> SpreadOfRuns | None:
        return spread_of(run.values.get(measure) for run in self.runs)


class ComparedSide(Struct, frozen=True):
    """One side of a measure, compared with the first side."""

    label: str
    spread: SpreadOfRuns | None
    change: float | None = None  # of the median: a share of the first side's, or points
    order: Order | None = None  # None for the first side itself
    verdict: str | None = None


class ComparedMeasure(Struct, frozen=True):
    """One measure on all sides."""

    name: str
    sides: tuple[ComparedSide, ...]
    in_points: bool = False  # a percentage changes by points of it


class ScalingRow(Struct, frozen=True):
    """The speed with a number of devices, and its share of linear scaling."""

    devices: int
    label: str
    median: float  # of the basis
    speed_up: float  # over the fewest devices
    efficiency: float  # 1: twice the devices are twice as fast


class ScalingReport(Struct, frozen=True):
    """How speed grows with the number of devices."""

    basis: str  # items_per_second, or duration_seconds where the same work is assumed
    rows: tuple[ScalingRow, ...]


class RunComparison(Struct, frozen=True):
    """Everything that both sides can be measured by."""

    sides: tuple[RunSide, ...]
    measures: tuple[ComparedMeasure, ...]
    scaling: ScalingReport | None = None
    by: str | None = None


def compare(sides: Sequence[RunSide], by: str | None = None) -> RunComparison:
    """Compares runs. With `by`, the sides are in its order, the lowest first, and it is listed
    first."""
    first = sides[0] if sides else None
    names = in_order(name for side in sides for run in side.runs for name in run.values)
    chosen = None if by is None else measure_named(by, names)
    ranked = sorted(sides, key=lambda side: _rank(side, chosen)) if chosen else list(sides)
    ordered = sorted(names, key=lambda name: name != chosen)
    found = tuple(_measured(name, ranked, first) for name in ordered) if first else ()
    return RunComparison(tuple(ranked), found, scaling(sides), chosen)


def scaling(sides: Sequence[RunSide]) -> ScalingReport | None:
    """Returns the scaling; None if it is unknown: all sides used as many devices, one used varying
    numbers, or one used none."""
    counts = [{run.devices for run in side.runs} for side in sides]
    known = set[int]().union(*counts)
    if any(len(each) != 1 for each in counts) or len(known) < 2 or 0 in known:
        return None
    for basis in (ITEMS, DURATION):
        found = [(side, spread) for side in sides if (spread := side.spread(basis)) is not None]
        if len(found) == len(sides) and all(spread.median > 0 for _, spread in found):
            return ScalingReport(basis, _scaled(basis, found))
    return None


def _scaled(basis: str, found: Sequence[tuple[RunSide, SpreadOfRuns]]) -> tuple[ScalingRow, ...]:
    listed = sorted((side.runs[0].devices, side.label, spread.median) for side, spread in found)
    fewest, _, reference = listed[0]
    rows = []
    for devices, label, middle in listed:
        faster = reference / middle if basis == DURATION else middle / reference
        rows.append(ScalingRow(devices, label, middle, faster, faster * fewest / devices))
    return tuple(rows)


def _rank(side: RunSide, name: str) -> tuple[bool, float]:
    spread = side.spread(name)
    return spread is None, 0.0 if spread is None else spread.median


def _measured(name: str, sides: Sequence[RunSide], first: RunSide) -> ComparedMeasure:
    reference = first.spread(name)
    found = (
        ComparedSide(side.label, reference) if side is first else _against(reference, name, side)
        for side in sides
    )
    return ComparedMeasure(name, tuple(found), measure_of(name).is_share)


def _against(reference: SpreadOfRuns | None, name: str, side: RunSide) -> ComparedSide:
    spread = side.spread(name)
    if spread is None or reference is None:
        return ComparedSide(side.label, spread)
    order, measure = order_of(spread, reference), measure_of(name)
    points = spread.median - reference.median
    change = points if measure.is_share else change_of(spread.median, reference.median)
    verdicts = {Order.LOWER: measure.lower, Order.HIGHER: measure.higher, Order.SAME: "ranges meet"}
    return ComparedSide(side.label, spread, change, order, verdicts.get(order))


def sides_of(rows: Sequence[RunRow]) -> list[tuple[str, list[RunRow]]]:
    """Returns a group's sides: runs with the same name and parameters are one side, in order of
    their begin. If there would be only one side, each run is a side."""
    found: dict[str, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: (row.rank or 0, row.began, row.id)):
        params = sorted(((k, v) for k, v in row.params.items() if k not in OF_A_JOB), key=str)
        found.setdefault(repr((row.name, params)), []).append(row)
    sides = list(found.values())
    if len(sides) == 1:
        return [(_own_label(row), [row]) for row in sides[0]]
    firsts = [side[0] for side in sides]
    return list(zip(unique([_shared_label(row, firsts) for row in firsts]), sides, strict=True))


def unique(labels: Sequence[str]) -> list[str]:
    """Returns unique labels: the second of the same label becomes `train #2`."""
    seen: dict[str, int] = {}
    out = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        out.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return out


def _own_label(row: RunRow) -> str:
    return f"{row.name} {row.id}" if row.rank is None else f"rank {row.rank}"


def _shared_label(row: RunRow, others: Sequence[RunRow]) -> str:
    """Returns what distinguishes a run from other sides: its parameters, and its name if needed."""
    varied = [
        name
        for name in sorted({name for other in others for name in other.params} - OF_A_JOB)
        if len({repr(other.params.get(name)) for other in others}) > 1
    ]
    given = " ".join(f"{name}={row.params.get(name, '–')}" for name in varied)
    names = len({other.name for other in others}) > 1
    return " ".join(part for part in (row.name if names or not given else "", given) if part)
