"""The list of runs: a table that fits the terminal, or CSV."""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.cli.show.csv_table import CsvTable, attributes
from andon.cli.show.runs.cells import joules, length, moment
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, percent, styled
from andon.model.run.record import RunRow, RunState
from andon.runs.rules.matching import OF_A_JOB, devices_text
from andon.units import human_bytes, iso_utc

STATE_STYLES = {
    RunState.RUNNING: "bold green",
    RunState.SUCCEEDED: "",
    RunState.ENDED: "",
    RunState.STOPPED: "yellow",
    RunState.LOST: "yellow",
    RunState.NOT_STARTED: "yellow",
}
STATE_TEXTS = {
    RunState.DEVICE_OUT_OF_MEMORY: "out of GPU memory",
    RunState.HOST_OUT_OF_MEMORY: "out of host memory",
    RunState.SIGNAL: "killed",
    RunState.TIMEOUT: "timed out",
    RunState.NOT_STARTED: "not started",
}


def state_text(state: RunState) -> Text:
    return styled(STATE_TEXTS.get(state) or str(state), STATE_STYLES.get(state, "red"))


MOST_NAME = 36  # with parameters, before other columns give way
_NESTED = ("devices", "params", "last_values", "extremes", "tags", "progress")
_PLAIN = tuple(name for name in RunRow.__struct_fields__ if name not in _NESTED)
RUNS: CsvTable[RunRow] = CsvTable(
    {
        **attributes(_PLAIN),
        "began_iso": lambda row: iso_utc(row.began),
        "gpus": lambda row: len(row.devices),
        "models": devices_text,
        "tags": lambda row: row.tags,
        "last_values": lambda row: " ".join(f"{k}={v}" for k, v in row.last_values.items()),
    }
)


def render_runs(
    rows: Sequence[RunRow], now: float, width: int, of_nodes: bool = False
) -> list[Text]:
    """One line per run; `of_nodes`: whose node is as important as its name."""
    least = 20 if any(row.simulated for row in rows) else 8  # the mark must not be cut
    swept = (min(MOST_NAME, len(_name(row).plain)) for row in rows if row.group and row.params)
    columns = list(_columns(now, max([least, *swept])))
    if of_nodes:
        columns.insert(0, replace(columns.pop(), rank=0))
    if any(row.progress for row in rows):
        columns.insert(3, TableColumn("PROGRESS", lambda row: _progress(row, now), elastic=8))
    return draw(columns, [TableRow(row) for row in rows], width)


def _columns(now: float, least: int) -> tuple[TableColumn[RunRow], ...]:
    return (
        TableColumn("RUN", lambda row: styled(row.id), lead=True),
        TableColumn("NAME", _name, elastic=least),
        TableColumn("STATE", lambda row: state_text(row.state)),
        TableColumn("BEGAN", lambda row: styled(moment(row.began, now)), rank=1, right=True),
        TableColumn("TOOK", lambda row: _took(row, now), rank=1, right=True),
        TableColumn("GPU", _devices, rank=1, elastic=8),
        TableColumn("UTIL", lambda row: percent(row.mean_utilization_percent), rank=2, right=True),
        TableColumn(
            "PEAK", lambda row: known(row.peak_memory_bytes, human_bytes), rank=3, right=True
        ),
        TableColumn("ENERGY", _energy, rank=3, right=True),
        TableColumn("TAGS", lambda row: styled(" ".join(row.tags), "cyan"), rank=4, elastic=6),
        TableColumn("USER", lambda row: styled(row.user or ""), rank=5, elastic=6),
        TableColumn("NODE", lambda row: styled(row.node), rank=6, elastic=6),
    )


def _energy(row: RunRow) -> Text:
    return joules(row.energy_joules, row.energy_source)


def _name(row: RunRow) -> Text:
    mark = styled("SIMULATED ", "reverse") if row.simulated else Text()
    params = row.params if row.group else {}
    given = "".join(f" {name}={one}" for name, one in params.items() if name not in OF_A_JOB)
    rank = "" if row.rank is None else f" rank {row.rank}"
    return mark + styled(row.name) + styled(given + rank, "dim")


def _progress(row: RunRow, now: float) -> Text:
    return Text() if row.progress is None else styled(row.progress.brief(now))


def _took(row: RunRow, now: float) -> Text:
    """Returns the duration; for a run in progress, so far."""
    if row.state is RunState.RUNNING:
        return length(max(0.0, now - row.began))
    return length(row.duration_seconds)


def _devices(row: RunRow) -> Text:
    models = devices_text(row)
    return known(models or None)
