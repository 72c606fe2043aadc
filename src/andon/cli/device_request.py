"""What every command that requests devices shares: its options, and what is available."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from andon.cli.options import duration
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices
from andon.core.sharing.requests import parse_count, request_of
from andon.errors import Invalid, Unavailable
from andon.model.work import DeviceRequest

if TYPE_CHECKING:
    from andon.engine.sampling.sampler import Sampler
    from andon.engine.sharing.availability import Availability

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--gpus", "-g"),
        {"default": "1", "metavar": "N|N..M", "help": "Number of GPUs [default: 1]."},
    ),
    (("--memory", "-m"), {"metavar": "SIZE", "help": "Minimum free memory per GPU, e.g. 20GiB."}),
    (("--shared",), {"is_flag": True, "help": "Reserve only --memory of it; others may share it."}),
    (("--model",), {"multiple": True, "metavar": "NAME,…", "help": "Only these models."}),
    (("--label",), {"multiple": True, "metavar": "NAME,…", "help": "Only GPUs with these labels."}),
    (
        ("--devices", "-d"),
        {"multiple": True, "metavar": "D,…", "help": "Only these GPUs: index, 3:0 or UUID."},
    ),
    (("--exclude", "-x"), {"multiple": True, "metavar": "D,…", "help": "Not these GPUs."}),
    (
        ("--prefer",),
        {"multiple": True, "metavar": "D,…", "help": "Prefer these: model, label or device."},
    ),
    (("--pack",), {"is_flag": True, "help": "Fill GPUs up instead of spreading."}),
    (("--unbalanced",), {"is_flag": True, "help": "Allow GPUs with different free memory."}),
    (
        ("--even-if-used",),
        {"is_flag": True, "help": "Also take GPUs used by unleased processes."},
    ),
)
_QUEUE: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--timeout", "-t"),
        {
            "type": duration,
            "default": "300",
            "metavar": "TIME",
            "help": "Maximum wait [default: 300 s]; 0 does not wait.",
        },
    ),
    (("--no-wait",), {"is_flag": True, "help": "Fail at once instead of waiting."}),
    (
        ("--priority",),
        {
            "type": int,
            "default": 0,
            "metavar": "N",
            "help": "Queue priority; below 0 lets others go first.",
        },
    ),
)


def request_options(command: F) -> F:
    """The options that select devices; `request_from` takes them as a dictionary."""
    return _with(_OPTIONS, command)


def queue_options(command: F) -> F:
    """--timeout, --no-wait, --priority."""
    return _with(_QUEUE, command)


def request_from(asked: dict[str, Any]) -> DeviceRequest:
    """The request as typed; a mistake is reported before any device is read."""
    if sys.platform == "win32":
        raise Unavailable("leases need kernel locks that this system does not have")
    memory = asked["memory"]
    request = request_of(
        parse_count(asked["gpus"]),
        memory,
        shared=asked["shared"],
        models=asked["model"],
        labels=asked["label"],
        devices=asked["devices"],
        exclude=asked["exclude"],
        prefer=asked["prefer"],
        pack=asked["pack"],
        balanced=not asked["unbalanced"],
        even_if_used=asked["even_if_used"],
        priority=asked.get("priority", 0),
    )
    if request.shared and memory is None:
        raise Invalid("--shared needs an amount of memory", hint="for example --memory 10GiB")
    return request


def wait_seconds(asked: dict[str, Any]) -> float:
    """The maximum wait in seconds."""
    timeout: float = asked["timeout"]
    return 0.0 if asked["no_wait"] else timeout


def availability_of(choices: Choices, sampler: "Sampler") -> "Availability":
    """Availability from this sampler; simulated devices are leased only with --simulate."""
    from andon.app import labels_of, state_folder, weights_of
    from andon.engine.sharing.availability import Availability
    from andon.engine.sharing.turn_memory import TurnMemory
    from andon.host.server.broken_devices import BrokenDevicesQuery

    resolved = resolved_of(choices)
    return Availability(
        lambda: sampler.once(hasty=True),
        labels_of(resolved.settings),
        weights_of(resolved.settings),
        simulated=resolved.origin.get("simulate") == "flag",
        broken=BrokenDevicesQuery(state_folder()),
        memory=TurnMemory(),
    )


def _with(options: tuple[tuple[tuple[str, ...], dict[str, Any]], ...], command: F) -> F:
    for names, settings in reversed(options):
        command = click.option(*names, **settings)(command)
    return command
