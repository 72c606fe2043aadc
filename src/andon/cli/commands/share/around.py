"""`andon lease --around PID`: a lease for a process that already runs."""

from typing import Any

import click
from click.core import ParameterSource

from andon.cli.device_request import request_from
from andon.cli.show.text import styled
from andon.cli.sources import availability_of, sampling_ahead
from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid
from andon.leases.around import lease_process, running_process
from andon.leases.book.lease_book import Book
from andon.leases.refusal import clock

_LONGEST_COMMAND = 60
_MEANT = frozenset(("around", "devices", "even_if_used", "length"))


def around(pid: int, length: float | None, options: dict[str, Any], choices: Choices) -> int:
    """Leases what the process uses; returns at once."""
    _refuse_others(click.get_current_context())
    request = request_from(options)
    with running_process(pid) as process, sampling_ahead(choices) as sampler:
        grant = lease_process(
            availability_of(choices, sampler), Book(), process, request.devices,
            request.even_if_used, length,
        )  # fmt: skip
    lease, command = grant.lease, process.command
    if len(command) > _LONGEST_COMMAND:
        command = f"{command[: _LONGEST_COMMAND - 1]}…"
    until = "" if lease.until is None else f", until {clock(lease.until, lease.since)} at most"
    Terminal.of(choices).print(
        styled(
            f"lease {lease.id}: {grant.title} while process {pid} ({command}) "
            f"runs{until}; to end it: andon release {lease.id}"
        )
    )
    return 0


def _refuse_others(context: click.Context) -> None:
    """Refuses what has no meaning for a process that runs, such as --gpus or a command."""
    for one in context.command.params:
        given = context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        if given and one.expose_value and one.name not in _MEANT:
            name = one.opts[0] if isinstance(one, click.Option) else "a command"
            raise Invalid(
                f"--around and {name} cannot be combined", hint="of devices it takes only -d"
            )
