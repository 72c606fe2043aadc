"""`andon probe`: finds the largest size that fits, by running a command with different sizes."""

import os
from collections.abc import Sequence
from typing import Any

import click

from andon.cli.commands.completing import complete_command
from andon.cli.commands.probing.session import Probing
from andon.cli.device_request import (
    bind_option,
    for_option,
    lease_option,
    request_options,
    request_to_take,
    wait_options,
    wait_seconds,
)
from andon.cli.options import chosen, duration, shared
from andon.cli.sources import availability_of, sampling_ahead, take
from andon.cli.terminal import Choices, report
from andon.errors import Invalid
from andon.leases.granter import LeaseTerms
from andon.leases.placement import on_lease
from andon.model.redaction import redact
from andon.runs.header import LONGEST_NAME
from andon.units import command_name
from andon.work.preparing import CannotStart, find
from andon.work.probe.command_trials import TrialLimits
from andon.work.rules.probe import (
    ProbeRequest,
    begin_search,
    check_margin,
    check_pattern,
    check_template,
)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--min", "low", type=int, default=1, metavar="N", help="Smallest size [default: 1].")
@click.option(
    "--max", "high", type=int, default=4096, metavar="N", help="Largest size [default: 4096]."
)
@click.option(
    "--margin",
    type=float,
    default=10.0,
    metavar="PERCENT",
    help="Margin below the largest that fits [default: 10].",
)
@click.option("--ready", metavar="REGEX", help="A trial fits when a line of its output matches.")
@click.option(
    "--seconds", type=duration, metavar="TIME", help="A trial fits when it has run this long."
)
@click.option(
    "--timeout",
    "-t",
    "trial_timeout",
    type=duration,
    default="5m",
    metavar="TIME",
    help="Maximum length of a trial [default: 5m].",
)
@click.option("--metric", metavar="REGEX", help="Throughput: a number in the command's output.")
@click.option("--name", metavar="NAME", help="Name of the result [default: the command's].")
@click.option("--json", "as_json", is_flag=True, help="Print andon.probe/1.")
@request_options
@wait_options
@for_option("Stop probing after this time: 2h.")
@bind_option
@lease_option
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, required=True, shell_complete=complete_command
)
@shared
def probe(command: tuple[str, ...], **options: Any) -> int:
    """Find the largest size that fits: andon probe -- python train.py --batch {n}

    Runs the command with different sizes in place of {n}, on GPUs that are leased once. It
    doubles the size until one runs out of memory, then halves the gap until it is at most 1/16. A
    size fits when the command succeeds, when its output matches --ready, or when it has run for
    --seconds.
    """
    choices = chosen()

    check_template(command)
    low, high, ready, metric = (options[name] for name in ("low", "high", "ready", "metric"))
    begin_search(low, high)
    if ready is not None and options["seconds"] is not None:
        raise Invalid("--ready and --seconds cannot be combined", hint="choose one of them")
    limits = TrialLimits(
        options["trial_timeout"],
        options["seconds"],
        None if ready is None else check_pattern("--ready", ready),
        None if metric is None else check_pattern("--metric", metric),
    )
    name = (options["name"] or command_name(command))[:LONGEST_NAME]
    margin = check_margin(options["margin"])
    wanted = ProbeRequest(name, redact(tuple(command)), low, high, margin)
    try:
        find(command)
        return _probe(choices, command, wanted, limits, options)
    except CannotStart as error:
        report(error)
        return error.code


def _probe(
    choices: Choices,
    command: Sequence[str],
    wanted: ProbeRequest,
    limits: TrialLimits,
    options: dict[str, Any],
) -> int:
    request = request_to_take(options, choices)
    if request.shared:
        raise Invalid("probing needs whole devices, so --shared makes no sense here")
    if request.most == 0:
        raise Invalid("probing needs at least one GPU", hint="request 1 GPU or more")
    with sampling_ahead(choices) as sampler:
        if options["bind"]:
            sampler.ask_places()

        availability = availability_of(choices, sampler)
        result = options["as_json"], options["bind"]
        probing = Probing(choices, command, sampler, wanted, limits, *result)
        if lease := options["lease_id"] or os.environ.get("ANDON_LEASE"):
            return probing.run(on_lease(lease, availability.view(), request))
        terms = LeaseTerms(command=wanted.command, seconds=options["length"])
        return probing.run(take(choices, availability, request, terms, wait_seconds(options)))
