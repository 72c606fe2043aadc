"""The options that several commands share."""

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar

import click

from andon.cli.terminal import Choices, write
from andon.units import has_unit, parse_seconds

F = TypeVar("F", bound=Callable[..., Any])
MOST = 1_000_000
MOST_SIMULATED = 512  # the limit in the settings, which --help must not import
LONGEST_NAME = 63  # of a node or a token at a hub
VARIABLE = click.core.ParameterSource.ENVIRONMENT
DEVICE_OPTION = ("--device", "--devices", "-d")
JOB_FILES = (".toml", ".json", ".jsonc", ".yaml", ".yml")
DEVICE_FORMS = "index, 3:0, UUID or its prefix"


def whole(given: str | int, most: int = MOST, least: int = 1) -> int:
    """Parses a whole number; defaults pass through it as well."""
    text = str(given)
    if text.isdecimal() and len(text) <= len(str(most)) and least <= int(text) <= most:
        return int(text)
    raise click.BadParameter(f"{text[:40]!r} is not a whole number from {least} to {most}")


def whole_or_0(given: str | int) -> int:
    """Parses a whole number of which 0 means all."""
    return whole(given, least=0)


def simulated(text: str) -> int:
    return whole(text, MOST_SIMULATED)


def duration(text: str) -> float:
    """Parses a duration: `2`, `500ms`, `1m`."""
    try:
        return parse_seconds(text)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from exc


def above_zero(text: str) -> float:
    """Parses a duration greater than 0."""
    if (seconds := duration(text)) <= 0:
        raise click.BadParameter("duration must be greater than 0")
    return seconds


def lasting(text: str) -> float:
    """Parses a duration greater than 0 that has a unit: 2 could mean seconds or hours."""
    seconds = above_zero(text)
    if not has_unit(text):
        number = text.strip()
        raise click.BadParameter(f"{number[:40]!r} has no unit: use {number[:40]}h or 90s")
    return seconds


def name_in_fleet(text: str) -> str:
    """The name of a node or a token: it becomes a part of a path, which others would change."""
    if 0 < len(text) <= LONGEST_NAME and "/" not in text and text.strip("."):
        return text
    raise click.BadParameter(f"{text[:60]!r} is not a name: letters, digits, - . and _")


def use_config(path: str) -> None:
    from andon.host.files import expanded

    set_variable("ANDON_CONFIG", str(expanded(path).absolute()))


def set_variable(name: str, value: str) -> None:
    """Sets a variable for this command and all that it starts; a notebook's process goes on."""
    before = os.environ.get(name)
    os.environ[name] = value
    click.get_current_context().find_root().call_on_close(
        lambda: os.environ.pop(name) if before is None else os.environ.update({name: before})
    )


def _help(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Print through our own `write`, which handles full disks and terminals without Unicode."""
    if wanted and not context.resilient_parsing:
        write(sys.stdout, context.get_help() + "\n")
        context.exit()


def chosen(context: click.Context | None = None) -> Choices:
    """The choices so far; one object for the whole command line."""
    root = (context or click.get_current_context()).find_root()
    if not isinstance(root.obj, Choices):
        root.obj = Choices()
    return root.obj


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    choices = chosen(context)
    if parameter.name == "config":
        if value is not None:
            use_config(str(value))
    elif parameter.name == "url" and context.get_parameter_source("url") is VARIABLE:
        named = (choices.replay, choices.fresh, *choices.ssh, choices.hosts_file, choices.node)
        if choices.simulate is None and not any(named):  # which take precedence
            choices.url = choices.url or str(value)
    elif value not in (None, ()) and parameter.name is not None:  # () of an option given earlier
        setattr(choices, parameter.name, value)
    if choices.simulate is not None and choices.replay is not None:
        raise click.UsageError("--simulate and --replay cannot be combined", context)


_remembered = partial(click.option, expose_value=False, callback=_remember)


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """Adds options to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


_SHARED = (
    _remembered(
        "--simulate",
        type=simulated,
        metavar="N",
        help="Use N simulated devices instead of real ones.",
    ),
    _remembered(
        "--replay", metavar="FILE", help="Play a recorded file instead of reading this node."
    ),
    _remembered("--config", metavar="FILE", help="Read the settings from FILE."),
    _remembered(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        metavar="WHEN",
        help="auto, always or never; NO_COLOR is honoured.",
    ),
    _remembered("--quiet", "-q", is_flag=True, default=None, help="Leave out notices."),
    click.option(
        "--help",
        "-h",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_help,
        help="Show this message and exit.",
    ),
)


def shared(command: F) -> F:
    """Adds --simulate, --replay, --config, --color, --quiet and --help, before and after a
    command's name."""
    return with_options(command, *_SHARED)


def _complete_host(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    from andon.cli.ssh.hosts import known_hosts

    return known_hosts(chosen(context), typed)


ASK_THERE = "Ask an andon server instead of this node; or set ANDON_URL."
_ELSEWHERE = (
    _remembered("--token-file", metavar="FILE", help="File with the token; or set ANDON_TOKEN."),
    _remembered(
        "--node",
        "node_name",
        type=lambda text: ",".join(map(name_in_fleet, text.split(","))),
        metavar="NAME,…",
        help="With the --url of a hub: this node, or these.",
    ),
)
_SSH = (
    _remembered(
        "--ssh",
        multiple=True,
        metavar="HOST,…",
        shell_complete=_complete_host,
        help="Ask these hosts, or @group, over SSH.",
    ),
    _remembered("--hosts-file", metavar="FILE", help="The same: one host a line."),
    _remembered(
        "--timeout",
        metavar="SECONDS",
        type=above_zero,
        help="For all together [default: 10; a hub's nodes: 60].",
    ),
)


def at_server(command: F, nodes: bool = True, about: str = ASK_THERE) -> F:
    """Adds --url, --token-file and --node: a server's devices instead of this node's. `nodes=False`
    leaves out --node, for what a hub cannot do on its nodes. `about` is the help of --url."""
    url = _remembered("--url", metavar="URL", envvar="ANDON_URL", help=about)
    return with_options(command, url, *(_ELSEWHERE if nodes else _ELSEWHERE[:-1]))


def elsewhere(command: F) -> F:
    """Adds --url, --token-file, --node and --ssh to a command that only reads."""
    return at_server(over_ssh(command))


def over_ssh(command: F, hubs: bool = True) -> F:
    """Adds --ssh, --hosts-file and --timeout. The command is called once for each host, or for each
    node of a hub unless it asks that itself: `hubs=False`."""

    @wraps(command)
    def called(*args: Any, **more: Any) -> Any:
        choices = chosen()
        if choices.ssh or choices.hosts_file is not None:
            from andon.cli.ssh.hosts import over_hosts

            return over_hosts(choices, partial(command, *args), more)
        named = not (choices.url is None or choices.url.startswith("ssh:"))
        if not (named and hubs) or choices.node is not None:
            return command(*args, **more)
        from andon.cli.hub_nodes import over_hub

        devices = split_devices(more.get("devices") or ())
        return over_hub(choices, partial(command, *args), devices, more)

    return with_options(called, *_SSH)  # type: ignore[return-value]


def fresh_option(command: F) -> F:
    """Add --fresh, to commands that otherwise take what this machine's server last read."""
    text = "Read the devices; do not ask the server here."
    return _remembered("--fresh", is_flag=True, default=None, help=text)(command)


def _set_thresholds(
    context: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> None:
    """Stores thresholds as settings; the catalogue is imported only if there are any."""
    if not given:
        return
    from andon.settings.figures import flags_of

    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, sign, value in pairs if not (sign and value)]:
        raise click.BadParameter(f"{wrong[0][:40]!r} is not NAME=VALUE, e.g. thermal_celsius=75")
    flags = flags_of({name.strip().removeprefix("alerts."): value for name, _, value in pairs})
    chosen(context).overrides.update(flags)


def thresholds_option(help: str) -> Callable[[F], F]:  # noqa: A002 - click's word
    """Adds --threshold NAME=VALUE, any number of times: alert settings for this command alone."""
    return click.option(
        "--threshold",
        multiple=True,
        expose_value=False,
        callback=_set_thresholds,
        metavar="NAME=VALUE",
        help=help,
    )


def _set_store(context: click.Context, parameter: click.Parameter, given: str | None) -> None:
    if given is not None:
        chosen(context).overrides["history_store"] = given


def store_option(command: F) -> F:
    """Adds --store: where this command keeps history, instead of the setting history.store."""
    return click.option(
        "--store",
        expose_value=False,
        callback=_set_store,
        metavar="URL",
        help="Keep history and alerts here: a file, or postgresql://HOST/DATABASE.",
    )(command)


def device_option(name: str, help: str) -> Callable[[F], F]:  # noqa: A002 - click's word
    """Adds -d, --device and --devices: the same wherever devices are named; split by commas."""
    return click.option(*DEVICE_OPTION, name, multiple=True, metavar="D,…", help=help)


def device_arguments(metavar: str) -> Callable[[F], F]:
    """Adds DEVICE as arguments."""
    return click.argument("device_arguments", nargs=-1, metavar=metavar)


def with_devices(
    help: str = f"Only these GPUs: {DEVICE_FORMS}.",  # noqa: A002 - click's word
    required: bool = False,
) -> Callable[[F], F]:
    """Adds DEVICE as arguments and as an option; the command gets both as one list, `devices`."""

    def add(command: F) -> F:
        @wraps(command)
        def called(
            *args: Any, device_arguments: Sequence[str], device_options: Sequence[str], **more: Any
        ) -> Any:
            devices = split_devices([*device_arguments, *device_options])
            if required and not devices:
                raise click.UsageError("name a GPU, for example 3")
            return command(*args, devices=devices, **more)

        metavar = "DEVICE..." if required else "[DEVICE]..."
        named = device_option("device_options", help)(called)
        return device_arguments(metavar)(named)  # type: ignore[return-value]

    return add


def split_devices(given: Sequence[str]) -> list[str]:
    """Splits names at commas: `0,1` and `3` give three names."""
    return [name.strip() for names in given for name in names.split(",") if name.strip()]


interval_option = click.option(
    "--interval",
    "-i",
    type=duration,
    metavar="SECONDS",
    help="Time between samples: 2, 500ms, 1m; sampling.interval if not given.",
)
