"""`andon probes`: lists the results of probes, and prints one number for scripts."""

import click

from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.options import chosen, shared
from andon.cli.show.probe import render_probes
from andon.cli.terminal import Terminal
from andon.errors import Gone
from andon.model.codec import to_json
from andon.model.probe import PROBES_SCHEMA
from andon.work.probe.shelf import stored_probes
from andon.work.rules.probe import best


@click.group(cls=SuggestingGroup, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print andon.probes/1.")
@shared
@click.pass_context
def probes(context: click.Context, as_json: bool) -> int:
    """List what `andon probe` found, newest first."""
    if context.invoked_subcommand is not None:
        return 0

    terminal, found = Terminal.of(chosen()), stored_probes()
    if as_json:
        terminal.show_json({"schema": PROBES_SCHEMA, "probes": to_json(found)})
    else:
        terminal.print(*render_probes(found, terminal.width))
    return 0


@probes.command("best", short_help="Print the recommended size alone, for a script.")
@click.argument("name")
@click.option("--model", metavar="NAME", help="Only results for this GPU model.")
@click.option("--largest", is_flag=True, help="The largest size that fits, without the margin.")
@shared
def best_(name: str, model: str | None, largest: bool) -> int:
    """Print the recommended size alone: --batch $(andon probes best train.py)"""
    found = best(stored_probes(), name, model)
    size = found.largest if largest else found.recommended
    if size is None:
        raise Gone(f"no size of {name} fits")
    Terminal.of(chosen()).show(f"{size}\n")
    return 0
