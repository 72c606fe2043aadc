"""`andon token`: the named tokens of a hub, each with what it may do."""

import time
from functools import partial
from urllib.parse import quote

import click

from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.commands.fleet.nodes import hub_of, new_token
from andon.cli.options import at_server, chosen, name_in_fleet, shared
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import styled
from andon.cli.terminal import Terminal, notice
from andon.fleet.rules.states import TokenList, TokenRow
from andon.model.codec import read_valid, to_json
from andon.units import human_seconds

ROLES = ("read", "operate", "admin")
_NAME = click.argument("name", metavar="NAME", type=name_in_fleet)


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print the tokens as JSON.")
@at_server
@shared
def token(as_json: bool) -> int:
    """List the named tokens of a hub: for programs, and for people without an account there.

    read sees everything but command lines; operate also releases, cancels, cordons, drains,
    acknowledges and silences; admin also adds nodes and tokens. What each does is in the hub's
    audit log under its name.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    choices = chosen()
    terminal, read = Terminal.of(choices), partial(read_valid, TokenList, name="list of tokens")
    found = hub_of(choices).get_as("/api/tokens", read)
    if as_json:
        terminal.show_json(to_json(found))
        return 0
    if not found.tokens:
        terminal.print(styled("there is no token yet: andon token add NAME --role read", "dim"))
        return 0
    now = time.time()
    columns: list[TableColumn[TokenRow]] = [
        TableColumn("TOKEN", lambda one: styled(one.name, "bold"), lead=True),
        TableColumn("ROLE", lambda one: styled(one.role)),
        TableColumn(
            "AGE", lambda one: styled(human_seconds(max(0.0, now - one.added))), right=True
        ),
    ]
    terminal.print(*draw(columns, [TableRow(one) for one in found.tokens], terminal.width))
    return 0


@token.command()
@_NAME
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@at_server
@shared
def add(name: str, role: str) -> int:
    """Make a token; prints it, this once."""
    choices = chosen()
    made = new_token(hub_of(choices), "/api/tokens", {"name": name, "role": role})
    notice(f"the token {name} may {role}; it is shown only now:", choices)
    Terminal.of(choices).show(f"{made.token}\n")
    return 0


@token.command()
@_NAME
@at_server
@shared
def remove(name: str) -> int:
    """End a token."""
    hub_of(chosen()).delete(f"/api/tokens/{quote(name, safe='')}")
    notice(f"the token {name} has ended", chosen())
    return 0
