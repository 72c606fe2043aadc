"""`andon map`: runs a command for many items, one worker per GPU."""

from pathlib import Path
from typing import Any

import click

from andon.cli.commands.completing import complete_command
from andon.cli.commands.jobs.on import desk_of, on_options
from andon.cli.commands.share.container_options import container_from, container_options
from andon.cli.commands.share.run import OURS, RunCommand
from andon.cli.device_request import bind_option, queue_options, refuse_bind, request_options_but
from andon.cli.map_request import MapRequest
from andon.cli.map_session import run_map
from andon.cli.options import chosen, lasting, shared, whole
from andon.cli.terminal import report
from andon.errors import AndonError, Invalid


def _count_or_all(text: str) -> int | None:
    return None if text.strip().lower() == "all" else whole(text, 1024)


def _counts(text: str) -> tuple[int, ...]:
    found = tuple(whole(part.strip(), 1024) for part in text.split(","))
    if len(set(found)) < len(found):
        raise click.BadParameter("give each number of workers only once")
    return found


@click.command(
    "map",
    cls=RunCommand,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("--files", multiple=True, metavar="GLOB,…", help="Use these files as items.")
@click.option(
    "--items", "items_file", metavar="FILE", help="Read one item per line; - is standard input."
)
@click.option("-0", "--null", is_flag=True, help="Items end in NUL, as find -print0 writes them.")
@click.option("--jsonl", is_flag=True, help="Each line is JSON; its fields are {name} in CMD.")
@click.option(
    "--gpus", "-g", type=_count_or_all, default="all", metavar="N|all",
    help="At most this many GPUs at once [default: all].",
)  # fmt: skip
@click.option(
    "--gpus-per-worker",
    type=whole,
    default=1,
    metavar="N",
    help="GPUs per worker [default: 1].",
)
@click.option(
    "--per-gpu", type=whole, default=1, metavar="N",
    help="Workers per GPU, with --shared --memory [default: 1].",
)  # fmt: skip
@request_options_but("gpus", "unbalanced")
@queue_options
@bind_option
@click.option("--cpu", type=whole, metavar="N", help="Use N workers without a GPU.")
@click.option("--worker", is_flag=True, help="CMD keeps running and answers items line by line.")
@click.option("--per-call", type=whole, default=1, metavar="N", help="Items per call of CMD.")
@click.option(
    "--retries", type=int, default=0, metavar="N", help="Retry a failed item up to N times."
)
@click.option(
    "--max-failures", type=whole, metavar="N", help="Start no more items after N failures."
)
@click.option("--item-timeout", type=lasting, metavar="TIME", help="Stop an item after this time.")
@click.option("--keep-order", is_flag=True, help="Print outputs in the order of the items.")
@click.option("--resume", metavar="RUN", help="Skip the items this run has done; or last.")
@click.option(
    "--redo", type=click.Choice(["failed", "all"]), help="With --resume: only these items."
)
@click.option(
    "--scaling", type=_counts, metavar="1,2,4", help="Measure with each number of workers."
)
@click.option("--name", metavar="NAME", help="Name of the run record [default: the command's].")
@click.option(
    "--telemetry-dir", metavar="DIR", help="Folder of the run record [default: the state folder]."
)
@on_options
@container_options
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, required=True, shell_complete=complete_command
)
@shared
def map_(command: tuple[str, ...], telemetry_dir: str | None, **options: Any) -> int:
    """Run a command for each of many items, on all GPUs that are free:

    andon map --files 'clips/*.wav' -- python infer.py {item} --out out/{stem}.csv

    {item}, {stem} (a file's name without folder and suffix), {index} and {gpu} are replaced in the
    command; without any, the item is its last argument. Each worker has its own lease and sees its
    GPU as 0; more workers start as GPUs become free. After Ctrl-C no further items start; a second
    Ctrl-C kills the running ones. The exit code is 0 if all items succeeded and 1 if not; 125 means
    that andon itself failed. With --on its workers are jobs of that cluster.
    """
    choices = chosen()
    try:
        if options["retries"] < 0:
            raise Invalid("--retries must be 0 or more")
        if options["redo"] and not options["resume"]:
            raise Invalid("--redo needs --resume", hint="add --resume last, or the id of a run")

        engine_options, target = options["engine_options"], desk_of(choices, options, lambda: None)
        folder = None if telemetry_dir is None else Path(telemetry_dir)
        image = container_from(options)
        refuse_bind(options["bind"], image)
        request = MapRequest.of(command, folder, options, image)
        return run_map(choices, request, options, target, engine_options)
    except AndonError as error:
        report(error)
        return OURS
