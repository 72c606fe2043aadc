"""The options that several commands share, written once."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from andon.cli.terminal import Choices
from andon.units import parse_seconds

F = TypeVar("F", bound=Callable[..., Any])


def whole(text: str) -> int:
    """A number of things, as the type of an option."""
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise click.BadParameter(f"{text!r} is not a whole number from 1 on")
    return int(text)


_SHARED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--simulate",),
        {
            "type": whole,
            "metavar": "N",
            "help": "Use N simulated devices instead of real ones.",
        },
    ),
    (("--replay",), {"metavar": "FILE", "help": "Play a recorded file instead of this node."}),
    (("--config",), {"metavar": "FILE", "help": "Read the settings from FILE."}),
    (
        ("--color",),
        {
            "type": click.Choice(["auto", "always", "never"]),
            "metavar": "WHEN",
            "help": "auto, always or never; NO_COLOR is honoured.",
        },
    ),
    (("--quiet", "-q"), {"is_flag": True, "default": None, "help": "Leave out notices."}),
)


def chosen(context: click.Context | None = None) -> Choices:
    """What was chosen so far; one object for the whole command line."""
    root = (context or click.get_current_context()).find_root()
    if not isinstance(root.obj, Choices):
        root.obj = Choices()
    return root.obj


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None and parameter.name is not None:
        setattr(chosen(context), parameter.name, value)


def shared(command: F) -> F:
    """--simulate, --replay, --config, --color, --quiet: before and after a command's name."""
    for names, settings in reversed(_SHARED):
        add = click.option(*names, expose_value=False, callback=_remember, **settings)
        command = add(command)
    return command


def elsewhere(command: F) -> F:
    """--url and --token-file: a server's devices instead of this node's."""
    told = (
        (("--url",), {"metavar": "URL", "help": "Ask an andon server instead of this node."}),
        (("--token-file",), {"metavar": "FILE", "help": "The server's token; or ANDON_TOKEN."}),
    )
    for names, settings in reversed(told):
        add = click.option(*names, expose_value=False, callback=_remember, **settings)  # type: ignore[arg-type]
        command = add(command)
    return command


def duration(text: str) -> float:
    """`2`, `500ms`, `1m`, as the type of an option."""
    try:
        return parse_seconds(text)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc
