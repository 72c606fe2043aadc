"""`--ssh`: which hosts are meant, what may be asked of them, and with which exit code."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from andon.app.thresholds import rulebook
from andon.cli.commands.suggestions import MACHINE_OPTIONS
from andon.cli.node_answers import NodeAnswer, NodeTable
from andon.cli.several_nodes import AskedNode, SeveralNodes
from andon.cli.sources import resolved_of, settings_of
from andon.cli.ssh.watch import watch_hosts
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError, Invalid
from andon.node.ssh import SshNode
from andon.node.ssh.calls import SshLimits
from andon.node.ssh.client import TIMEOUT_SECONDS, SshHost
from andon.node.ssh.names import checked_host, configured_hosts, hosts_of, listed_hosts
from andon.units import sh, shell_line

MOST_FILE_BYTES = 4 << 20
READING = frozenset(
    ("status", "ps", "devices", "history", "why", "alerts", "alerts show", "alerts rules", "free",
     "leases", "who", "jobs", "runs", "estimate", "doctor")
)  # fmt: skip
"""Commands that can be asked of hosts."""
NAMING = ("--ssh", "--node", "--host", "-H")
LIVE = frozenset(("watch", "top"))
"""Those that keep a connection."""
NONE_ANSWERED, SOME_ANSWERED, NOT_AVAILABLE = 3, 1, 1


def over_hosts(
    choices: Choices, command: Callable[..., Any], args: Sequence[Any], more: dict[str, Any]
) -> int:
    """Calls a command for each host that the command line names; returns the exit code."""
    context = click.get_current_context()
    path = context.command_path.partition(" ")[2]
    if path == "alerts" and context.invoked_subcommand in ("show", "rules"):
        return 0  # its command has the same options
    _check(context, path, choices, more)
    hosts = named_hosts(choices)
    if path in LIVE:
        return _live(path, choices, hosts, lambda: command(*args, **more), more)
    if path == "free" and not more["as_json"]:
        more, form = {**more, "as_json": True}, "free"
    else:
        form = form_of(more)
    table = NodeTable(hosts, form, Terminal.of(choices))
    table.begin()
    asked = hosts_to_ask(choices, hosts, table.width)
    answers = asked.ask(lambda: command(*args, **more), table.add)
    table.end()
    return _code_of_free(answers) if path == "free" else _code(answers)


def hosts_to_ask(choices: Choices, hosts: Sequence[str], width: int) -> SeveralNodes:
    """Returns the nodes behind these names; each is asked with choices of its own."""
    resolved = resolved_of(choices)  # a mistake in them is reported once
    limits = SshLimits(choices.timeout or TIMEOUT_SECONDS)
    book = cache(lambda: rulebook(resolved.settings))
    shared = vars(choices) | {
        "ssh": (), "hosts_file": None, "quiet": True, "width": width, "warned": True,
        "color": "always" if Terminal.of(choices).color else "never", "resolved": resolved,
    }  # fmt: skip

    def opened(host: str) -> tuple[AskedNode, Choices]:
        node = SshNode(SshHost(host, resolved.settings.ssh_andon, limits=limits), book)
        return node, Choices(**shared | {"url": url_of(host), "node": node})

    return SeveralNodes(hosts, limits, opened)


def _code(answers: Sequence[NodeAnswer]) -> int:
    """Returns what the command returns on the host that can do most, if all have answered."""
    codes = [one.code for one in answers if one.answered]
    if len(codes) == len(answers):
        return min(codes)
    return SOME_ANSWERED if codes else NONE_ANSWERED


def _code_of_free(answers: Sequence[NodeAnswer]) -> int:
    """Returns what `andon free` returns on the host that can do most: at once, later or never."""
    codes = {one.code for one in answers if one.answered}
    if known := codes & {0, NOT_AVAILABLE}:
        return min(known)
    return codes.pop() if len(codes) == 1 else NONE_ANSWERED


def _check(context: click.Context, path: str, choices: Choices, more: dict[str, Any]) -> None:
    """Raises why this command line is not for hosts."""
    if path not in READING | LIVE or context.invoked_subcommand is not None:
        raise there(choices.words)
    own = any(name.startswith("alerts_") for name in choices.overrides)
    given = {"--url": choices.url, "--simulate": choices.simulate, "--replay": choices.replay,
             "--node": choices.node_name, "--fresh": choices.fresh, "--threshold": own}  # fmt: skip
    if wrong := [name for name, value in given.items() if value]:
        raise Invalid(f"--ssh and {wrong[0]} cannot be combined")
    if more.get("follow"):
        raise Invalid("--follow is for one machine", hint="live over SSH: andon watch, andon top")


def _live(
    path: str,
    choices: Choices,
    hosts: Sequence[str],
    call: Callable[[], Any],
    more: dict[str, Any],
) -> int:
    """Runs a command that stays: one host is its node."""
    if len(hosts) == 1:
        choices.url, choices.ssh, choices.hosts_file = url_of(hosts[0]), (), None
        return int(call() or 0)
    if path == "top":
        raise Invalid("andon top shows one host", hint="several: andon watch --ssh HOST,HOST")

    return watch_hosts(choices, hosts, more)


def form_of(more: dict[str, Any]) -> str:
    """Returns json, csv or text."""
    form = more.get("form")
    if more.get("as_json") or form == "json":
        return "json"
    if more.get("as_csv") or form == "csv":
        return "csv"
    if form not in (None, "text"):
        raise Invalid(f"--ssh prints text, JSON or CSV, not {form}")
    return "text"


def there(words: Sequence[str]) -> AndonError:
    """The error for a command that is not for other machines: the line to type instead."""
    hosts, kept, option, url = list[str](), list[str](), "", ""
    of_ssh = any(one.startswith(("--ssh", "--hosts-file")) for one in words)  # has a --timeout
    options = (*MACHINE_OPTIONS, *["--timeout"] * of_ssh)
    for place, word in enumerate(words):
        name, sign, value = word.partition("=")
        if word == "--":
            kept += words[place:]
            break
        if option or (sign and name in options):
            machine = value if sign and not option else word
            hosts += [machine] * ((option or name) in NAMING)
            url = machine if (option or name) == "--url" else url
            option = ""
        elif word in options:
            option = word
        else:
            kept.append(word)
    if kept and kept[0] in READING | LIVE and words[0] != kept[0]:
        line = f"andon {kept[0]} --ssh {shell_line(','.join(hosts), *kept[1:])}"
        return Invalid("--ssh follows the name of the command", hint=line)
    host = checked_host(hosts[0].split(",")[0] if hosts else urlsplit(url).hostname or "HOST")
    line = shell_line("ssh", "-t", host, "andon", *map(sh, kept))
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
