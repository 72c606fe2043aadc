"""`andon nodes --on NAME`: the machines of a cluster, and what is free on them."""

from collections.abc import Sequence

from andon.cli.commands.jobs.desks import clusters_of
from andon.cli.commands.jobs.on import desk_of
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, styled
from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid
from andon.model.job.cluster import ClusterNode
from andon.model.shapes import to_json

SCHEMA = "andon.cluster_nodes/1"
NONE_CONFIGURED = (
    "none is configured: [clusters.NAME] in the settings names one (andon config path)"
)


def show_cluster(choices: Choices, on: str | None, as_json: bool) -> int:
    """Lists the machines of a cluster: their GPUs, how many are given to jobs, how busy they are.
    Raises Invalid where none is meant."""
    cluster = desk_of(choices, {"on": on}, lambda: None)
    if cluster is None:
        known = ", ".join(one.name for one in clusters_of(choices))
        raise Invalid(
            "nodes needs a hub, --url URL, or the name of a cluster, --on NAME",
            hint=f"configured: {known}" if known else NONE_CONFIGURED,
        )
    found = cluster.nodes()
    terminal = Terminal.of(choices)
    if as_json:
        value = {"schema": SCHEMA, "cluster": cluster.name, "nodes": to_json(found)}
        terminal.show_json(value)
        return 0
    if not found:
        terminal.print(styled(f"{cluster.name} has no node with a GPU", "dim"))
        return 0
    terminal.print(*render_nodes(found, terminal.width))
    return 0


def render_nodes(found: Sequence[ClusterNode], width: int) -> list[Text]:
    """One line per node. Of a cluster that allocates GPUs without checking them: what is really
    busy, and who has them; below, why that is unknown."""
    unchecked = any(one.who is not None for one in found)
    columns = [*_NODE, *(_UNCHECKED if unchecked else _CHECKED)]
    reasons = dict.fromkeys(
        f"{one.name}: {one.missing['busy']}"
        for one in found
        if unchecked and one.busy is None and "busy" in one.missing
    )
    return [*draw(columns, [TableRow(one) for one in found], width),
            *(styled(line, "dim") for line in reasons)]  # fmt: skip


def _busy(one: ClusterNode) -> Text:
    if one.busy is None:
        return styled("n/a", "dim")
    return styled(str(one.busy)) + styled(f" by {one.read_by}" if one.read_by else "", "dim")


def _who(one: ClusterNode) -> Text:
    return styled(one.who or "") if one.usable else _state(one)


def _unit(value: float | None, unit: str) -> Text:
    return known(value, lambda number: f"{number:.0f} {unit}")


def _state(one: ClusterNode) -> Text:
    state = styled(one.state, "" if one.usable else "yellow")
    return state + styled(f" · {one.note}") if one.note else state


Columns = tuple[TableColumn[ClusterNode], ...]
_NODE: Columns = (
    TableColumn("NODE", lambda one: styled(one.name), lead=True),
    TableColumn("GPUS", lambda one: styled(f"{one.gpus} {one.model or ''}".strip()), elastic=8),
)
_CHECKED: Columns = (
    TableColumn("ALLOCATED", lambda one: styled(str(one.allocated)), rank=1, right=True),
    TableColumn("FREE", lambda one: styled(str(one.free)), right=True),
    TableColumn("UTIL", lambda one: _unit(one.utilization_percent, "%"), rank=2, right=True),
    TableColumn("MEM", lambda one: _unit(one.memory_percent, "%"), rank=2, right=True),
    TableColumn("TEMP", lambda one: _unit(one.temperature_celsius, "°C"), rank=3, right=True),
    TableColumn("STATE", _state, rank=1, elastic=12),
)
_UNCHECKED: Columns = (
    TableColumn("PROMISED", lambda one: styled(str(one.allocated)), right=True),
    TableColumn("REALLY BUSY", _busy, right=True),
    TableColumn("MEM", lambda one: _unit(one.memory_percent, "%"), rank=2, right=True),
    TableColumn("WHO", _who, elastic=20),
)
