"""`--ssh`: which hosts are selected, how one is opened, and what to type for commands without
it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from andon.app.thresholds import rulebook
from andon.cli.catalogue import COMMANDS, load
from andon.cli.commands.suggestions import MACHINE_OPTIONS
from andon.cli.over_nodes import LIVE, NodeGroup, over_nodes
from andon.cli.several_nodes import ReachedNode
from andon.cli.sources import resolved_of, settings_of
from andon.cli.ssh.watch import watch_hosts
from andon.cli.terminal import Choices
from andon.errors import AndonError, Invalid
from andon.node.ssh import SshNode
from andon.node.ssh.calls import SshLimits
from andon.node.ssh.client import TIMEOUT_SECONDS, SshHost
from andon.node.ssh.names import checked_host, configured_hosts, hosts_of, listed_hosts
from andon.units import sh, shell_line

MOST_FILE_BYTES = 4 << 20
CHECK_SECONDS = 180.0  # a whole one of several cards, which take turns with their links
NAMING = ("--ssh", "--node", "--host", "-H")
LIVE_HINT = "live over SSH: andon watch, andon top"


def over_hosts(choices: Choices, call: Callable[..., Any], more: dict[str, Any]) -> int:
    """Calls a command for each host that the command line names; returns the exit code."""
    context = click.get_current_context()
    path = context.command_path.partition(" ")[2]
    if path == "alerts" and context.invoked_subcommand in ("show", "rules"):
        return 0  # its command has the same options
    _check(context, choices)
    hosts = named_hosts(choices)
    if path in LIVE:
        return _live(path, choices, hosts, lambda: call(**more), more)
    seconds = CHECK_SECONDS + (more["burn"] or 0.0) if path == "check" else TIMEOUT_SECONDS
    return over_nodes(choices, _group(choices, hosts, seconds), path, call, more)


def _group(choices: Choices, hosts: Sequence[str], seconds: float) -> NodeGroup:
    settings, limits = resolved_of(choices).settings, SshLimits(choices.timeout or seconds)
    book = cache(lambda: rulebook(settings))

    def opened(name: str, shared: Mapping[str, Any]) -> tuple[ReachedNode, Choices]:
        node = SshNode(SshHost(name, settings.ssh_andon, limits=limits), book)
        return node, Choices(**{**shared, "url": url_of(name), "node": node})

    return NodeGroup("host", hosts, limits, LIVE_HINT, opened)


def _check(context: click.Context, choices: Choices) -> None:
    """Raises an error if this command line cannot run over SSH."""
    if context.invoked_subcommand is not None:
        raise not_over_ssh(choices.argv)
    own = any(name.startswith("alerts_") for name in choices.overrides)
    given = {"--url": choices.url, "--simulate": choices.simulate, "--replay": choices.replay,
             "--node": choices.node_name, "--fresh": choices.fresh, "--threshold": own}  # fmt: skip
    if wrong := [name for name, value in given.items() if value]:
        raise Invalid(f"--ssh and {wrong[0]} cannot be combined")


def _live(
    path: str,
    choices: Choices,
    hosts: Sequence[str],
    call: Callable[[], Any],
    more: dict[str, Any],
) -> int:
    """Runs a live command: on one host directly, on several only `andon watch`."""
    if len(hosts) == 1:
        choices.url, choices.ssh, choices.hosts_file = url_of(hosts[0]), (), None
        return int(call() or 0)
    if path == "top":
        raise Invalid("andon top shows one host", hint="several: andon watch --ssh HOST,HOST")

    return watch_hosts(choices, hosts, more)


def not_over_ssh(argv: Sequence[str]) -> AndonError:
    """Returns the error for a command that cannot run over SSH, with the line to type instead."""
    hosts, remaining, option, url = list[str](), list[str](), "", ""
    of_ssh = any(one.startswith(("--ssh", "--hosts-file")) for one in argv)  # has a --timeout
    options = (*MACHINE_OPTIONS, *["--timeout"] * of_ssh)
    for place, word in enumerate(argv):
        name, sign, value = word.partition("=")
        if word == "--":
            remaining += argv[place:]
            break
        if option or (sign and name in options):
            machine = value if sign and not option else word
            hosts += [machine] * ((option or name) in NAMING)
            url = machine if (option or name) == "--url" else url
            option = ""
        elif word in options:
            option = word
        else:
            remaining.append(word)
    entry = COMMANDS.get(remaining[0]) if remaining and argv[0] != remaining[0] else None
    if entry is not None and any(one.name == "ssh" for one in load(entry.target).params):
        line = f"andon {remaining[0]} --ssh {shell_line(','.join(hosts), *remaining[1:])}"
        return Invalid("--ssh follows the name of the command", hint=line)
    host = checked_host(hosts[0].split(",")[0] if hosts else urlsplit(url).hostname or "HOST")
    line = shell_line("ssh", "-t", host, "andon", *map(sh, remaining))
    return Invalid("from here andon only reads other machines: run it there", hint=line)


def named_hosts(choices: Choices) -> list[str]:
    listed: list[str] = []
    if choices.hosts_file is not None:
        path = Path(choices.hosts_file).expanduser()
        try:
            with path.open("rb") as file:
                listed = listed_hosts(file.read(MOST_FILE_BYTES), choices.hosts_file)
        except OSError as exc:
            raise Invalid(f"{choices.hosts_file}: {exc.strerror}") from exc
    return hosts_of(choices.ssh, dict(settings_of(choices).ssh_groups), listed)


def url_of(host: str) -> str:
    return host if "://" in host else f"ssh:{host}"


def known_hosts(choices: Choices, typed: str) -> list[str]:
    """Shell completion: the names in ~/.ssh/config and the groups of the settings."""
    done, comma, last = typed.rpartition(",")
    names = list[str]()
    with suppress(OSError, AndonError, UnicodeDecodeError):
        names += [f"@{name}" for name, _ in settings_of(choices).ssh_groups]
        names += configured_hosts(Path("~/.ssh/config").expanduser().read_text())
    return [f"{done}{comma}{name}" for name in names if name.startswith(last)]
