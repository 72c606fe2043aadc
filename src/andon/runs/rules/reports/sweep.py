"""The runs of a sweep as a table: parameters, mean and spread over seeds, the best, the front."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import dist, isfinite, sqrt
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.model.run.energy import POWER
from andon.model.run.record import RunKind, RunRow, RunState
from andon.runs.rules.matching import OF_A_JOB
from andon.runs.rules.measures import (
    DURATION,
    HIGHER_LOGGED,
    LOGGED,
    bests_of,
    measure_named,
    measure_of,
    values_of,
)
from andon.units import parse_seconds

SEEDS = frozenset({"seed", "seeds", "random_seed", "random-seed", "rng_seed"})
"""Parameters over which a mean is taken unless others are named."""
ALIASES = {
    "time": DURATION, "duration": DURATION, "energy": "energy_joules", "peak": "peak_memory_bytes",
    "memory": "peak_memory_bytes", "gpu": "mean_utilization_percent", "idle": "idle_percent",
}  # fmt: skip
USUAL = (DURATION, "mean_utilization_percent", "peak_memory_bytes", "energy_joules")
MOST_LOGGED = 4
MAX, MIN = ":max", ":min"


class MeanSpread(Struct, frozen=True):
    """The mean of a measure over runs, and its standard deviation; None of one run."""

    mean: float
    deviation: float | None
    count: int


class SweepRow(Struct, frozen=True):
    """One combination of parameters, over all its seeds."""

    params: Mapping[str, Any]
    over: Mapping[str, tuple[Any, ...]]
    runs: tuple[str, ...]
    succeeded: int
    others: Mapping[str, int]  # how many ended otherwise, by state
    values: Mapping[str, MeanSpread]  # of the runs that succeeded
    is_best: bool = False
    on_front: bool = False


class SweepMeasure(Struct, frozen=True):
    """A measure that the table is ranked by."""

    name: str
    higher: bool

    @property
    def label(self) -> str:
        return self.name.removeprefix(LOGGED)


class SweepTable(Struct, frozen=True):
    """A whole sweep, the best first."""

    params: tuple[str, ...]
    over: tuple[str, ...]
    by: tuple[SweepMeasure, ...]
    measures: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    estimated: bool = False  # whether the energy of a run is


class SweepBest(Struct, frozen=True):
    """The best row by one measure, and the limit that it had to keep."""

    measure: SweepMeasure
    row: SweepRow | None
    limit: str = ""


class Limit(Struct, frozen=True):
    """A limit that a row must keep: `first-token=500ms`, of the p99."""

    name: str
    seconds: float
    text: str

    def is_met(self, row: SweepRow) -> bool:
        found = row.values.get(f"{LOGGED}{self.name}_p99")
        return found is not None and found.mean <= self.seconds


def parse_limit(text: str) -> Limit:
    """Parses the value of --slo: one of `TIMED`, and a time."""
    name, _, time = text.partition("=")
    try:
        seconds = float(time.strip()[:-2]) / 1000 if time.strip().endswith("ms") else None
        seconds = parse_seconds(time.strip()) if seconds is None else seconds
    except ValueError:
        seconds = 0.0
    if name.strip() not in TIMED or not seconds > 0:
        raise Invalid(f"{text[:60]!r} is not a limit", hint="use --slo first-token=500ms")
    return Limit(name.strip().replace("-", "_"), seconds, text)


def best_rows(table: SweepTable, limits: Sequence[Limit] = ()) -> list[SweepBest]:
    """The best row by throughput, by first token and by energy, as far as they are known; only
    rows that keep the limits count."""
    allowed = [row for row in table.rows if all(limit.is_met(row) for limit in limits)]
    limits_text = ", ".join(limit.text for limit in limits)
    known = {name for row in table.rows for name in row.values}
    found = []
    for measure in BESTS:
        if measure.name in known:
            rows = [row for row in allowed if measure.name in row.values]
            best = min(rows, key=lambda row: _cost(row, measure), default=None)
            found.append(SweepBest(measure, best, limits_text))
    return found


def latest_attempts(rows: Iterable[RunRow]) -> list[RunRow]:
    """Returns the latest run of each job, and all runs that are of no job."""
    found: dict[str, RunRow] = {}
    for row in sorted(rows, key=lambda row: (row.began, row.id)):
        job = row.params.get("job")
        found[row.id if job is None else f"job {row.node} {job}"] = row
    return list(found.values())


def _counted(rows: Sequence[RunRow]) -> Sequence[RunRow]:
    """Returns a benchmark's loads, and its jobs that failed before any; else all rows."""
    loads = [row for row in rows if row.kind is RunKind.BENCHMARK]
    if not loads:
        return rows
    parents = {row.parent for row in loads}
    bad = (RunState.SUCCEEDED, RunState.RUNNING)
    return [
        *loads,
        *(
            r
            for r in rows
            if r.id not in parents and r.kind is not RunKind.BENCHMARK and r.state not in bad
        ),
    ]


BESTS = (
    SweepMeasure(f"{LOGGED}tokens_per_second", True),
    SweepMeasure(f"{LOGGED}first_token_p99", False),
    SweepMeasure(f"{LOGGED}joules_per_token", False),
)
TIMED = ("first-token", "per-token", "between-tokens", "end-to-end")


def sweep_table(
    rows: Sequence[RunRow], by: Sequence[str] = (), over: Sequence[str] = ()
) -> SweepTable | None:
    """Returns the table; None if the runs do not differ in a parameter."""
    runs = latest_attempts(_counted(rows))
    if len({row.name for row in runs}) > 1:
        runs = [replace(row, params={"name": row.name, **row.params}) for row in runs]
    varied = _varied(runs)
    if not [name for name in varied if name != "name"]:
        return None
    if wrong := [name for name in over if name not in varied]:
        raise Invalid(
            f"the runs do not differ in {wrong[0][:40]!r}", hint=f"in {', '.join(varied)}"
        )
    seeds = tuple(over) or tuple(name for name in varied if name.lower() in SEEDS)
    params = tuple(name for name in varied if name not in seeds)
    if not params:
        params, seeds = seeds, ()
    sides: dict[str, list[RunRow]] = {}
    for row in runs:
        sides.setdefault(repr([row.params.get(name) for name in params]), []).append(row)
    known = list(dict.fromkeys(name for row in runs for name in values_of(row)))
    chosen = tuple(_measure(word, known) for word in by)
    logged = [name for name in known if name.startswith(LOGGED)][:MOST_LOGGED]
    named = [one.name for one in chosen]
    made = [_row(side, params, seeds, chosen) for side in sides.values()]
    bests = list(dict.fromkeys(name for row in made for name in row.values if name not in known))
    shown = dict.fromkeys((*named, *bests, *([] if named else logged), *USUAL))
    ranked = _ranked(made, chosen, params)
    listed = [name for name in shown if name in known or name in bests]
    estimated = POWER in {row.energy_source for row in runs}
    return SweepTable(params, seeds, chosen, tuple(listed), tuple(ranked), estimated)


def _varied(runs: Sequence[RunRow]) -> list[str]:
    """Returns the parameters whose values differ between the runs."""
    names = dict.fromkeys(name for row in runs for name in row.params if name not in OF_A_JOB)
    found = {name: [repr(r.params[name]) for r in runs if name in r.params] for name in names}
    return [name for name, values in found.items() if len(set(values)) > 1]


def _measure(word: str, known: Sequence[str]) -> SweepMeasure:
    name, higher = word, None
    if word.endswith((MAX, MIN)):
        name, higher = word[:-4], word.endswith(MAX)
    found = measure_named(name, known, ALIASES.get(name, ""))
    if higher is None:
        higher = measure_of(found).more_is_better or found.endswith(HIGHER_LOGGED)
    return SweepMeasure(found, higher)


def _row(
    side: Sequence[RunRow],
    params: Sequence[str],
    seeds: Sequence[str],
    by: Sequence[SweepMeasure],
) -> SweepRow:
    good = [row for row in side if row.state is RunState.SUCCEEDED]
    values = [
        values_of(row) | {n: v for m in by for n, v in bests_of(row, m.name, m.higher).items()}
        for row in good
    ]
    names = dict.fromkeys(name for found in values for name in found)
    others = Counter(str(row.state) for row in side if row.state is not RunState.SUCCEEDED)
    return SweepRow(
        {name: side[0].params.get(name) for name in params},
        {name: _distinct(row.params.get(name) for row in side) for name in seeds},
        tuple(row.id for row in side),
        len(good),
        dict(others),
        {name: mean_spread([v[name] for v in values if name in v]) for name in names},
    )


def mean_spread(values: Sequence[float]) -> MeanSpread:
    """Returns the mean and the standard deviation of a sample."""
    count = len(values)
    mean = sum(values) / count
    if not isfinite(mean):  # the loss of a run that diverged may be 1e308
        mean = sum(one / count for one in values)
    deviation = dist(values, [mean] * count) / sqrt(count - 1) if count > 1 else None
    return MeanSpread(mean, deviation if deviation is None or isfinite(deviation) else None, count)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted({repr(one): one for one in values}.values(), key=sort_key))


def sort_key(value: Any) -> tuple[int, float, str]:
    """Returns a sort key: numbers by size, also those stored as text; then other texts."""
    try:
        return 0, float(value), ""
    except (TypeError, ValueError):
        return 1, 0.0, str(value)


def _ranked(
    rows: Sequence[SweepRow], by: Sequence[SweepMeasure], params: Sequence[str]
) -> list[SweepRow]:
    if not by:
        return sorted(rows, key=lambda row: [sort_key(row.params[name]) for name in params])
    first = by[0]
    out = sorted(rows, key=lambda row: _cost(row, first))
    known = [row for row in out if first.name in row.values]
    best = known[0] if known else None
    front = _front(out, by) if len(by) > 1 else ()
    return [replace(row, is_best=row is best, on_front=row in front) for row in out]


def _cost(row: SweepRow, measure: SweepMeasure) -> float:
    found = row.values.get(measure.name)
    if found is None:
        return float("inf")
    return -found.mean if measure.higher else found.mean


def _front(rows: Sequence[SweepRow], by: Sequence[SweepMeasure]) -> list[SweepRow]:
    """Returns the rows that no other row beats in every measure."""
    costs = [
        (row, [_cost(row, one) for one in by])
        for row in rows
        if all(one.name in row.values for one in by)
    ]
    return [
        row
        for row, own in costs
        if not any(
            other != own and all(a <= b for a, b in zip(other, own, strict=True))
            for _, other in costs
        )
    ]
