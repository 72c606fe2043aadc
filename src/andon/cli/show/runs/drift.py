"""Baselines, and how far runs are from them."""

from collections.abc import Iterator, Sequence

from andon.cli.show.runs.cells import moment, number
from andon.cli.show.runs.listing import state_text
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, styled
from andon.model.run.record import RunRow, RunState
from andon.runs.rules.baselines import DriftLine, RunBaseline, other_devices
from andon.runs.rules.measures import LEAST_RUNS, SpreadOfRuns
from andon.units import fixed, human_bytes, human_joules, measured_seconds, unit_of


def render_baselines(found: Sequence[RunBaseline], now: float, width: int) -> Iterator[Text]:
    if not found:
        yield styled("no baselines; andon runs baseline set NAME RUN… makes one", "dim")
        return
    columns: Sequence[TableColumn[RunBaseline]] = (
        TableColumn("BASELINE", lambda one: styled(one.name), lead=True),
        TableColumn("SET", lambda one: styled(moment(one.at, now)), rank=1, right=True),
        TableColumn("RUNS", lambda one: styled(" ".join(run.id for run in one.runs)), elastic=12),
    )
    yield from draw(columns, [TableRow(one) for one in found], width)


def render_drift(
    baseline: RunBaseline, rows: Sequence[RunRow], lines: Sequence[DriftLine], width: int
) -> Iterator[Text]:
    """One line per number, and what to know about the comparison."""
    if lines:
        yield from draw(_COLUMNS, [TableRow(line) for line in lines], width)
    else:
        yield styled("no number is known on both sides", "yellow")
    for row in rows:
        if row.state is not RunState.SUCCEEDED:
            yield styled(f"run {row.id} ({row.name}): ") + state_text(row.state)
    if others := other_devices(baseline, rows):
        yield styled(others, "yellow")
    if min(len(baseline.runs), len(rows)) < LEAST_RUNS:
        few = f"fewer than {LEAST_RUNS} runs on a side: how much such runs differ is not known"
        yield styled(few, "dim")


def _value(name: str, value: float) -> str:
    match unit_of(name):
        case "bytes":
            return human_bytes(value)
        case "joules":
            return human_joules(value)
        case "seconds":
            return measured_seconds(value)
        case "percent":
            return f"{fixed(value)} %"
    return number(value)


def _spread(line: DriftLine, spread: SpreadOfRuns) -> Text:
    """Returns the median, and the range beside it if there are enough runs for one."""
    name = line.measure.name
    text = styled(_value(name, spread.median))
    if spread.count < LEAST_RUNS:
        return text
    return text + styled(f" ({_value(name, spread.low)} to {_value(name, spread.high)})", "dim")


def _change(line: DriftLine) -> Text:
    unit = "points" if line.measure.is_share else "%"
    return known(line.change_percent, lambda change: f"{change:+.1f} {unit}")


_COLUMNS: Sequence[TableColumn[DriftLine]] = (
    TableColumn("", lambda line: styled(line.measure.label), lead=True, elastic=8),
    TableColumn("BASELINE", lambda line: _spread(line, line.baseline), right=True),
    TableColumn("RUN", lambda line: _spread(line, line.found), right=True),
    TableColumn("CHANGE", _change, right=True),
    TableColumn(
        "", lambda line: styled("drifted", "bold red") if line.drifted else styled("ok", "dim")
    ),
)
