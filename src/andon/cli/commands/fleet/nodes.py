"""`andon nodes`: the machines of a hub or of a cluster, and which of them report."""

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote

import click

from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.commands.fleet.cluster_nodes import show_cluster
from andon.cli.options import at_server, chosen, name_in_fleet, shared
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, styled
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Gone, Invalid
from andon.fleet.rules.states import (
    NewToken,
    NodeList,
    NodeRow,
    NodeState,
    having,
    tasks_text,
    version_trouble,
)
from andon.model.codec import read_document, read_valid
from andon.model.shapes import to_json
from andon.node.server import Server, connect, own_server
from andon.units import counted, human_seconds, shell_line

SCHEMA = "andon.nodes/1"
NOT_READ, MOST_MODELS = "n/a", 2
_NAME = click.argument("name", metavar="NAME", type=name_in_fleet)


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@click.option("--on", metavar="NAME", help="The machines of this cluster [setting: jobs.on].")
@click.option(
    "--filter", "search", metavar="WORDS", default="",
    help="Only nodes with all of these words: a name, user, job, run, model, state or reason.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}.")
@at_server
@shared
def nodes(on: str | None, search: str, as_json: bool) -> int:
    """List the machines that report to a hub: their GPUs, who holds them, how busy they are.

    With --on, those of a cluster. A machine is silent after 15 s without a report: what its GPUs
    and jobs do is unknown from then on, and goes on there.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    choices = chosen()
    if on is not None or (choices.url is None and own_server() is None):
        if search:
            raise Invalid("--filter is for the nodes of a hub", hint="use --url URL")
        return show_cluster(choices, on, as_json)
    found, terminal = _listed(choices), Terminal.of(choices)
    shown = having(found.nodes, search)
    if as_json:
        value = {"schema": SCHEMA, "nodes": to_json(list(shown))}
        terminal.show_json(value)
        return 0
    if not found.nodes:
        terminal.print(styled("no node reports here yet: andon nodes add NAME --url URL", "dim"))
    elif not shown:
        terminal.print(
            styled(f"of {counted(len(found.nodes), 'node')}, none has all of these words", "dim")
        )
    else:
        terminal.print(*render_nodes(shown, terminal.width, found.version))
    return 0


@nodes.command()
@_NAME
@at_server
@shared
def show(name: str) -> int:
    """Show one node."""
    found = _listed(chosen())
    row = next((one for one in found.nodes if one.name == name), None)
    if row is None:
        raise Gone(f"there is no node {name[:60]!r}", hint="list them: andon nodes")
    terminal = Terminal.of(chosen())
    terminal.print(*map(styled, describe(row, found.version)))
    return 0


@nodes.command()
@_NAME
@at_server
@shared
def add(name: str) -> int:
    """Let a node report; prints the line to paste there, with its token."""
    choices = chosen()
    server = hub_of(choices)
    made = new_token(server, "/api/nodes", {"name": name})
    notice(f"paste this on {name}; the token is shown only now:", choices)
    command = [f"ANDON_HUB_TOKEN={made.token}", "andon", "agent", "--hub", server.url]
    if made.pin:  # no authority knows its certificate
        command.insert(1, f"ANDON_HUB_PIN={made.pin}")
    Terminal.of(choices).show(shell_line(*command) + "\n")
    return 0


@nodes.command()
@_NAME
@at_server
@shared
def drain(name: str) -> int:
    """Give a node no new work; what runs there goes on."""
    return _marked(name, "drain", "is drained: nothing new is placed there")


@nodes.command()
@_NAME
@at_server
@shared
def resume(name: str) -> int:
    """Give a drained node work again."""
    return _marked(name, "resume", "gets work again")


@nodes.command()
@_NAME
@click.option("--with-history", is_flag=True, help="Delete all that it sent, too.")
@at_server
@shared
def remove(name: str, with_history: bool) -> int:
    """Let a node report no more: its token ends. What it sent stays, unless --with-history."""
    query = "?history=true" if with_history else ""
    hub_of(chosen()).delete(f"/api/nodes/{quote(name, safe='')}{query}")
    notice(f"{name} is removed{', and all that it sent' if with_history else ''}", chosen())
    return 0


def _marked(name: str, act: str, message: str) -> int:
    hub_of(chosen()).post(f"/api/nodes/{quote(name, safe='')}/{act}")
    notice(f"{name} {message}", chosen())
    return 0


def new_token(server: Server, path: str, body: dict[str, str]) -> NewToken:
    """Has a hub create a token; raises an error if its answer is not one."""
    made = server.post(path, body)
    try:
        return read_valid(NewToken, made, "new token")
    except Invalid as exc:
        raise server.of_another_version(exc.reason) from exc


def hub_of(choices: Choices) -> Server:
    """Returns the server that is named, or this user's own."""
    if choices.url is not None:
        return connect(choices.url, choices.token_file, lambda text: notice(text, choices))
    found = own_server()
    if found is None:
        raise Invalid("name the hub: --url URL", hint="andon hub --store URL starts one")
    return found


def _listed(choices: Choices) -> NodeList:
    return hub_of(choices).get_as("/api/nodes", partial(read_document, NodeList))


def render_nodes(found: Sequence[NodeRow], width: int, version: str | None = None) -> list[Text]:
    """One line per node; `version` is the hub's."""
    columns: list[TableColumn[NodeRow]] = [
        TableColumn("NODE", lambda one: styled(one.name, "bold"), lead=True),
        TableColumn("GPUS", lambda one: styled(_gpus(one)), elastic=8),
        TableColumn("ALLOCATED", lambda one: styled(_allocated(one)), rank=1, elastic=10),
        TableColumn("UTIL", lambda one: _percent(one.utilization_percent), rank=2, right=True),
        TableColumn("MEM", lambda one: _percent(one.memory_percent), rank=2, right=True),
        TableColumn("TEMP", lambda one: _celsius(one), rank=3, right=True),
        TableColumn("STATE", lambda one: _state(one, version), elastic=12),
        TableColumn("AGE", lambda one: styled(_age(one)), rank=3, right=True),
    ]
    return draw(columns, [TableRow(one) for one in found], width)


def describe(row: NodeRow, version: str | None = None) -> list[str]:
    """Returns what one node has, a line each; `version` is the hub's."""
    models = ", ".join(row.models) or "none"
    held = str(row.allocated)
    if row.allocated is None:
        held = "not known" + (f": {row.allocated_reason}" if row.allocated_reason else "")
    if row.holders:
        held += f" (Task{'s' * (len(row.holders) > 1)} {tasks_text(row.holders)} running)"
    if row.in_use:
        held += f"; {row.in_use} in use without a lease"
    load = NOT_READ
    if row.utilization_percent is not None:
        load = f"{row.utilization_percent:.0f}% (real-time)"
    state = f"{row.state.title()}: {row.reason}"
    if row.state is NodeState.HEALTHY:
        state = "Healthy ✓"
    elif row.state is NodeState.SILENT:
        state = f"Silent for {human_seconds(row.age_seconds or 0.0)}"
    lines = [
        f"GPU Capacity: {row.gpus} ({models}{', SIMULATED' if row.simulated else ''})",
        f"GPU Allocated: {held}",
        f"GPU Utilization: {load}",
        f"Status: {state}{' (drained)' if row.drained else ''}",
    ]
    if row.age_seconds is not None:
        other = version_trouble(row.version, version) or f"andon {row.version}"
        lines.append(f"Last report: {human_seconds(row.age_seconds)} ago, {other}")
    return lines


def _gpus(row: NodeRow) -> str:
    if not row.models:
        return UNKNOWN if row.state is NodeState.NEW else "0"
    mark = " SIMULATED" if row.simulated else ""
    if len(row.models) > MOST_MODELS:
        return f"{row.gpus} of {len(row.models)} models{mark}"
    return ", ".join(f"{count} {model}" for model, count in row.models.items()) + mark


def _allocated(row: NodeRow) -> str:
    if row.allocated is None:
        return UNKNOWN
    used = f"{row.in_use} in use" if row.in_use else ""
    return " · ".join(filter(None, (str(row.allocated), tasks_text(row.holders), used)))


def _percent(value: float | None) -> Text:
    return styled(NOT_READ, "dim") if value is None else styled(f"{value:.0f} %")


def _celsius(row: NodeRow) -> Text:
    heat = row.temperature_celsius
    return styled(NOT_READ, "dim") if heat is None else styled(f"{heat:.0f} °C")


def _state(row: NodeRow, version: str | None) -> Text:
    drained = styled(" · drained", "yellow") if row.drained else styled("")
    if version_trouble(row.version, version) is not None:
        drained += styled(f" · andon {row.version}", "yellow")
    if row.state is NodeState.HEALTHY:
        return styled("healthy ✓", "green") + drained
    if row.state is NodeState.SICK:
        return styled(f"{row.state}: {row.reason}", "yellow") + drained
    return styled(row.reason or row.state, "dim") + drained


def _age(row: NodeRow) -> str:
    return UNKNOWN if row.age_seconds is None else human_seconds(row.age_seconds)
