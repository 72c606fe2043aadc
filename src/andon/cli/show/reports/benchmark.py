"""The loads of a benchmark as a table."""

from collections.abc import Iterator, Sequence
from functools import partial

from andon.api.benchmark import BenchmarkResult
from andon.cli.show.reports.figures import three
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, styled
from andon.units import fixed
from andon.work.rules.load import CLIENT_BOUND_SECONDS, STATISTICS, TIMES, Percentiles


def render_benchmark(results: Sequence[BenchmarkResult], width: int) -> Iterator[Text]:
    """One row for each load, then its times, then what has to be known about it."""
    columns: Sequence[TableColumn[BenchmarkResult]] = (
        TableColumn(
            "RATE" if "/s" in results[0].measured.label else "LOAD",
            lambda one: styled(one.measured.label),
            lead=True,
        ),
        TableColumn("DONE", lambda one: styled(f"{one.measured.done}/{one.measured.sent}")),
        TableColumn(
            "FIRST TOKEN p50/p99", lambda one: _times(one.measured.first_token), right=True
        ),
        TableColumn("BETWEEN p50/p99", lambda one: _times(one.measured.between_tokens), right=True),
        TableColumn("END TO END p50/p99", lambda one: _times(one.measured.end_to_end), right=True),
        TableColumn("SENT LATE p99", lambda one: _late(one.measured.dispatch), rank=3, right=True),
        TableColumn("OUT tok/s", _tokens, right=True),
        TableColumn("GOODPUT/s", lambda one: _number(one.measured.goodput_per_second), right=True),
        TableColumn("PER GPU", lambda one: _number(one.per_device), rank=2, right=True),
        TableColumn("GPU", lambda one: _percent(one.utilization_percent), rank=1, right=True),
        TableColumn("J/token", lambda one: _number(one.joules_per_token), rank=1, right=True),
        TableColumn("COST", lambda one: _number(one.cost), rank=4, right=True),
        TableColumn("ERRORS", _errors, elastic=8),
    )
    unset = {"COST": results[0].cost, "GOODPUT/s": results[0].measured.goodput_per_second}
    shown = [one for one in columns if one.title not in unset or unset[one.title] is not None]
    yield from draw(shown, [TableRow(one) for one in results], width)
    rows = [
        TableRow((one.measured.label, title, found))
        for one in results
        for name, title in TIMES.items()
        if (found := getattr(one.measured, name)) is not None
    ]
    if rows:
        yield from (styled(""), *draw(TIME_COLUMNS, rows, width))
    for one in results:
        if one.measured.client_bound:
            lag = fixed(1000 * (one.measured.lag_seconds or 0.0))
            yield styled(
                f"{one.measured.label}: client-bound, its event loop was {lag} ms late (over "
                f"{1000 * CLIENT_BOUND_SECONDS:.0f} ms); try --clients 2, or a quieter machine",
                "yellow",
            )
    if any(one.measured.done and not one.measured.tokens_by_usage for one in results):
        yield styled("* tokens are chunks: the server does not count them (usage)", "dim")
    runs = " ".join(one.run for one in results if one.run is not None)
    if runs:
        yield styled(f"runs: {runs}", "dim")


def _time(share: str, row: tuple[str, str, Percentiles]) -> Text:
    value = getattr(row[2], share)
    return styled(f"{three(1000 * value)} ms" if row[2].p99 < 0.1 else f"{three(value)} s")


TIME_COLUMNS: Sequence[TableColumn[tuple[str, str, Percentiles]]] = (
    TableColumn("LOAD", lambda row: styled(row[0]), lead=True),
    TableColumn("TIME", lambda row: styled(row[1])),
    *(TableColumn(n, partial(_time, n), int(n == "p90"), right=True) for n in STATISTICS),
)


def _times(found: Percentiles | None) -> Text:
    """`0.18/0.61 s`, or milliseconds where all are short."""
    if found is None:
        return styled(UNKNOWN)
    if found.p99 < 0.1:
        return styled(f"{three(1000 * found.p50)}/{three(1000 * found.p99)} ms")
    return styled(f"{three(found.p50)}/{three(found.p99)} s")


def _late(found: Percentiles | None) -> Text:
    return styled(UNKNOWN if found is None else f"{three(1000 * found.p99)} ms")


def _tokens(one: BenchmarkResult) -> Text:
    mark = "" if one.measured.tokens_by_usage or not one.measured.done else "*"
    return styled(f"{three(one.measured.tokens_per_second)}{mark}")


def _number(value: float | None) -> Text:
    return styled(UNKNOWN if value is None else three(value))


def _percent(value: float | None) -> Text:
    return styled(UNKNOWN if value is None else f"{fixed(value)} %")


def _errors(one: BenchmarkResult) -> Text:
    counts = ", ".join(f"{count} {kind}" for kind, count in one.measured.errors.items())
    return styled(counts, "red") if counts else styled("")
