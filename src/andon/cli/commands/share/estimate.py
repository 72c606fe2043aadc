"""`andon estimate`: how much memory a model needs, and on which GPUs it fits."""

import os
from collections.abc import Sequence
from typing import Any

import click

from andon.cli.options import chosen, elsewhere, shared, with_options
from andon.cli.show.entries import unreal
from andon.cli.show.estimate import render_estimate
from andon.cli.sources import node_of
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import AndonError, Invalid
from andon.estimate.files import model_facts
from andon.estimate.rules import estimating
from andon.estimate.rules.command_line import (
    ServerCommand,
    file_options,
    is_container,
    own_command,
    understood,
    understood_text,
)
from andon.estimate.rules.fits import GpuCapacity, gpu_capacities
from andon.estimate.rules.gpu_sizes import capacities_on
from andon.estimate.rules.learned import LearnedPeak, learned_peak
from andon.estimate.rules.options import (
    EstimateOption,
    EstimateOptions,
    estimate_options,
    option_named,
    read_options,
)
from andon.estimate.rules.wire import estimate_answer
from andon.host.files import read_regular
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.runs.rules.matching import RunQuery

DOES_NOT_FIT = 1
MOST_FILE_BYTES = 1024 * 1024
_COMMAND = "andon.command"  # in the context: the arguments after --


class EstimateCommand(click.Command):
    """Accepts every spelling of an option, and stores the arguments after `--` separately."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = list(args)
        if "--" in arguments:
            place = arguments.index("--")
            ctx.meta[_COMMAND] = arguments[place + 1 :]
            arguments = arguments[:place]
        return super().parse_args(ctx, [_as_listed(word) for word in arguments])


def _as_listed(word: str) -> str:
    """Rewrites `--tensor_parallel_size=2` as `--tp=2`; returns anything else unchanged."""
    name, sign, value = word.partition("=")
    row = option_named(name) if name.startswith("--") else None
    return word if row is None else f"{row.option}{sign}{value}"


def _options(command: Any) -> Any:
    return with_options(command, *map(_option, estimate_options()))


def _option(row: EstimateOption) -> Any:
    if row.kind is bool:
        return click.option(row.option, row.name, is_flag=True, help=row.help)
    return click.option(row.option, row.name, metavar=row.metavar, multiple=True, help=row.help)


@click.command(cls=EstimateCommand)
@click.argument("model", required=False, metavar="[MODEL]")
@_options
@click.option(
    "--on-gpus",
    metavar="GPUS",
    help="GPUs that are not here: 4xH100, 2xA100-40GB,1xL4 or 8x80GiB.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.estimate/1: bytes.")
@elsewhere
@shared
def estimate(model: str | None, on_gpus: str | None, as_json: bool, **given: Any) -> int:
    """Print how much memory a model needs, and which GPUs it fits on.

    MODEL is a folder, a config.json, a .safetensors or .gguf file, or a name: of a model in the
    Hugging Face cache, or one that contains its size, such as llama-3-8b. Nothing is downloaded. A
    server's whole command line goes after --: andon estimate -- vllm serve M -tp 2

    The engines' own option names work too, such as --tensor-parallel-size for --tp and
    --max-model-len for --context. The exit code is 0 if it fits when the GPUs are empty, or if
    there is no GPU to compare with, and 1 if it does not fit or the engine refuses the sizes.
    """
    choices, terminal = chosen(), Terminal.of(chosen())
    argv = own_command(click.get_current_context().meta.get(_COMMAND, ()))
    elsewhere = None if on_gpus is None else capacities_on(on_gpus)
    learned = _learned(argv, choices) if argv and elsewhere is None else None
    understood: str | None = None
    try:
        model, options, understood = _request(model, argv, _typed(given))
        facts = model_facts(model, os.environ)
    except AndonError:
        if learned is None:
            raise
        snapshot, capacities = _capacities(choices)
        found = estimating.measured(learned, capacities, argv)
    else:
        snapshot, capacities = _capacities(choices) if elsewhere is None else (None, elsewhere)
        typed = () if is_container(argv) else argv
        found = estimating.estimate(
            facts, options, capacities, learned, typed, is_elsewhere=elsewhere is not None
        )
    if as_json:
        value = document(estimate_answer(found, understood))
        terminal.show_json(value)
    else:
        mark = unreal(snapshot) if snapshot is not None else None
        terminal.print(*render_estimate(found, understood, mark, terminal.width))
    fails = found.refused is not None or found.fits_empty is False
    return DOES_NOT_FIT if fails else 0


def _typed(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the command line itself, by their names in the table."""
    typed = {name: value for name, value in given.items() if value not in (None, (), False)}
    return read_options(
        {name: value if value is True else ",".join(value) for name, value in typed.items()}
    )


def _request(
    model: str | None, argv: Sequence[str], typed: dict[str, Any]
) -> tuple[str, EstimateOptions, str | None]:
    """Returns the model, how it runs, and what was understood of a server's command line."""
    if not argv:
        if model is None:
            raise Invalid(
                "no model is named", hint="andon estimate MODEL, or: andon estimate -- vllm serve M"
            )
        return model, EstimateOptions(**typed), None
    command = understood(argv)
    file, named = _file(command)
    options = command.options(typed, file)
    found = model or command.model or named
    text = understood_text(command, options)
    if found is None:
        raise Invalid(f"{text}; but no model", hint="name one: vllm serve MODEL")
    return found, options, text


def _file(command: ServerCommand) -> tuple[dict[str, Any], str | None]:
    """Returns the options in the server's own file."""
    if command.config is None:
        return {}, None
    try:
        content = read_regular(command.config, MOST_FILE_BYTES, follow=True)
    except OSError as exc:
        reason = (exc.strerror or "it cannot be read").lower()
        raise Invalid(f"{command.config}: {reason}", hint="the file after --config") from exc
    return file_options(content.decode("utf-8", "replace"))


def _capacities(choices: Choices) -> tuple[Snapshot | None, tuple[GpuCapacity, ...]]:
    """Returns the GPUs to compare with; a node without any is not an error here."""
    node = node_of(choices)
    try:
        snapshot = node.live.read()
    except AndonError as error:
        if node.url is not None:  # a server that was named must answer
            raise
        notice(f"no GPU to compare with: {error.reason}", choices)
        return None, ()
    try:
        verdicts = {one.uuid: one for one in node.leases.verdicts(snapshot)}
    except (AndonError, OSError) as error:
        reason = error.reason if isinstance(error, AndonError) else str(error)
        notice(f"which GPUs are available is not known: {reason}", choices)
        return snapshot, gpu_capacities(snapshot, {})
    return snapshot, gpu_capacities(snapshot, verdicts)


def _learned(argv: Sequence[str], choices: Choices) -> LearnedPeak | None:
    """The peaks of earlier runs on this machine; prints a notice if the index cannot be read."""
    if (node := node_of(choices)).url is not None:
        return None  # a server would send all of its runs
    try:
        return learned_peak(node.runs.find(RunQuery()), argv)
    except (AndonError, OSError) as error:
        reason = error.reason if isinstance(error, AndonError) else str(error)
        notice(f"earlier runs are not known: {reason}", choices)
        return None
