"""What every command that requests devices shares: its options, and what is available."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from andon.cli.commands.completing import complete_lease
from andon.cli.options import DEVICE_OPTION, F, device_arguments, duration, lasting, with_options
from andon.cli.terminal import Choices, notice
from andon.errors import Invalid
from andon.leases.rules.requests import (
    Count,
    LeaseOptions,
    Names,
    RequestOption,
    RequestOptions,
    Seconds,
    Size,
    rows,
)
from andon.model.job.device_request import DeviceRequest

_TYPES: dict[Any, dict[str, Any]] = {
    bool: {"is_flag": True},
    int: {"type": int},
    Count: {"type": str},
    Size: {"type": str},
    Names: {"multiple": True},
    Seconds: {"type": duration},
}
"""How click reads each type of the table."""
_NO_WAIT = click.option("--no-wait", is_flag=True, help="Fail at once instead of waiting.")


def request_options(command: F) -> F:
    """Adds the options that select devices; `request_from` takes them as a dictionary."""
    return request_options_but()(command)


def request_options_but(*names: str) -> Callable[[F], F]:
    """Adds the same options except the named ones, which the command defines itself."""
    options = [row for row in rows(RequestOptions) if not row.queue and row.name not in names]
    return lambda command: with_options(command, *map(_option, options))


def request_devices(command: F) -> F:
    """Adds DEVICE as arguments, for commands that run no other command."""

    @wraps(command)
    def called(
        *args: Any, device_arguments: Sequence[str], devices: Sequence[str], **more: Any
    ) -> Any:
        return command(*args, devices=(*device_arguments, *devices), **more)

    return device_arguments("[DEVICE]...")(called)  # type: ignore[return-value]


def queue_options(command: F) -> F:
    """Adds --timeout, --no-wait and --priority."""
    timeout, priority = _option(_row("timeout")), _option(_row("priority"))
    return with_options(command, timeout, _NO_WAIT, priority)


def wait_options(command: F) -> F:
    """Adds --wait, --no-wait and --priority, where --timeout means something else."""
    row = _row("timeout")
    wait = click.option(
        "--wait",
        "timeout",
        type=duration,
        metavar="TIME",
        default=_text(row),
        help=f"Maximum wait for the GPUs; 0 does not wait [default: {_text(row)}].",
    )
    return with_options(command, wait, _NO_WAIT, _option(_row("priority")))


def priority_option(command: F) -> F:
    """Adds --priority, for a job, which waits in a queue of its own."""
    return _option(_row("priority"))(command)


def bind_option(command: F) -> F:
    """Adds --bind, for commands that run another command."""
    return click.option("--bind", is_flag=True, help="Run it on the CPUs next to its GPUs (NUMA).")(
        command
    )


def lease_option(command: F) -> F:
    """Adds --lease, for commands that can use devices which the caller holds already."""
    return click.option(
        "--lease",
        "lease_id",
        metavar="ID",
        shell_complete=complete_lease,
        help="Use the devices of your lease.",
    )(command)


def refuse_bind(bind: bool, image: object) -> None:
    """Refuses --bind with an image: the container engine sets a container's CPUs."""
    if bind and image is not None:
        raise Invalid(
            "--bind is for commands outside of a container",
            hint="for one inside: --container-option --cpuset-cpus=0-15",
        )


def for_option(help: str, required: bool = False) -> Callable[[F], F]:  # noqa: A002 - click's word
    """Adds --for; what ends with the lease differs between commands."""
    row = _row("seconds")
    return click.option(
        row.option, "length", type=lasting, metavar=row.metavar, required=required, help=help
    )


def request_from(options: dict[str, Any]) -> DeviceRequest:
    """The request as typed; a mistake is reported before any device is read."""
    given = {row.name: options[row.name] for row in rows(RequestOptions) if row.name in options}
    return RequestOptions(**given).request()


def request_to_take(options: dict[str, Any], choices: Choices) -> DeviceRequest:
    """Returns the request to take devices; prints a notice if fewer are taken than named."""
    request = request_from(options)
    source = click.get_current_context().get_parameter_source("gpus")
    count = len(request.devices)
    if count > 1 and source is ParameterSource.DEFAULT:
        notice(f"1 of the {count} GPUs named is taken; for all of them: --gpus {count}", choices)
    return request


def wait_seconds(options: dict[str, Any]) -> float:
    """The maximum wait in seconds."""
    timeout: float = options["timeout"]
    return 0.0 if options["no_wait"] else timeout


def _row(name: str) -> RequestOption:
    return next(row for row in rows(LeaseOptions) if row.name == name)


def _option(row: RequestOption) -> Callable[[F], F]:
    names = [name for name in (row.option, row.short) if name]
    if row.short in DEVICE_OPTION:
        names = [*DEVICE_OPTION, row.name]
    settings = {"metavar": row.metavar or None, "help": _help(row), **_TYPES[row.type]}
    if row.type in (Count, Seconds, int):
        settings["default"] = _text(row)
    return click.option(*names, **settings)


def _help(row: RequestOption) -> str:
    """Returns the help text, with the default if there is one."""
    return f"{row.help[:-1]} [default: {_text(row)}]." if row.default else row.help


def _text(row: RequestOption) -> str:
    """Returns the default as the user would type it."""
    return f"{row.default:g}s" if isinstance(row.default, float) else str(row.default)
