"""`--ssh`: which hosts are meant, and a command that is called once for each of them, all at
once."""

import io
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from msgspec import Struct

from andon.app.thresholds import rulebook
from andon.cli.commands.suggestions import MACHINE_OPTIONS
from andon.cli.sources import resolved_of, settings_of
from andon.cli.ssh.table import HostAnswer, HostTable
from andon.cli.ssh.watch import watch_hosts
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError, Invalid, Unavailable
from andon.node.ssh import SshNode
from andon.node.ssh.calls import LOOK_SECONDS, PATIENT_SECONDS, SshCalls
from andon.node.ssh.client import TIMEOUT_SECONDS, Commands, SshHost, Unanswered
from andon.node.ssh.failures import UNEXPECTED, unexpected
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
NONE_ANSWERED, SOME_ANSWERED, NOT_AVAILABLE = 3, 1, 6


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
    table = HostTable(hosts, form, Terminal.of(choices))
    table.begin()
    asking = Asking(context, choices, lambda: command(*args, **more), table.width)
    answers = asking.all(hosts, table.add)
    table.end()
    if not any(one.answered for one in answers):
        return NONE_ANSWERED
    if path == "free":
        return 0 if any(one.answered and one.code == 0 for one in answers) else NOT_AVAILABLE
    return 0 if all(one.answered for one in answers) else SOME_ANSWERED


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


class AskedHost(Struct):
    """One host while it is asked."""

    place: int
    ssh: SshHost
    choices: Choices
    began: float
    asked: int = 0  # how many commands, in the last question


class Asking:
    """Calls a command for many hosts, each with its own choices and output. It is called again
    whenever the host has answered what it asks."""

    def __init__(
        self,
        context: click.Context,
        choices: Choices,
        call: Callable[[], Any],
        width: int,
        calls: Callable[[float], SshCalls] = SshCalls,
    ) -> None:
        self._context, self._choices, self._call, self._calls = context, choices, call, calls
        resolved = resolved_of(choices)  # a mistake in them is reported once
        self._own = vars(choices) | {
            "ssh": (), "hosts_file": None, "quiet": True, "width": width, "warned": True,
            "color": "always" if Terminal.of(choices).color else "never", "resolved": resolved,
        }  # fmt: skip
        self._andon = resolved.settings.ssh_andon
        self._book = cache(lambda: rulebook(resolved.settings))
        self._first: Commands = ()  # what is asked first, of every host
        self._open = dict[int, AskedHost]()

    def all(self, names: Sequence[str], add: Callable[[int, HostAnswer], None]) -> list[HostAnswer]:
        """Returns the answers in the order of the hosts; `add` gets each as it comes."""
        waiting, found = list(enumerate(names))[::-1], dict[int, HostAnswer]()
        seconds = self._choices.timeout or TIMEOUT_SECONDS
        with self._calls(seconds) as calls:
            while len(found) < len(names):
                ready = list[AskedHost]()
                while waiting and not calls.over and calls.has_room and not ready:
                    host = self._host(*waiting.pop())
                    if self._first:
                        self._begin(host, self._first, calls)
                    else:
                        ready.append(host)
                if not ready:
                    for call in calls.ended(LOOK_SECONDS if waiting else PATIENT_SECONDS):
                        host = self._open.pop(id(call))
                        host.ssh.keep(call, host.asked)
                        ready.append(host)
                done = [(h.place, a) for h in ready if (a := self._go_on(h, calls)) is not None]
                if calls.over:
                    late = Unavailable(f"not asked: {seconds:g} s were over")
                    done += [(place, HostAnswer(name, late)) for place, name in waiting]
                    waiting = []
                for place, answer in done:
                    found[place] = answer
                    add(place, answer)
        return [found[place] for place in range(len(names))]

    def _host(self, place: int, name: str) -> AskedHost:
        """Returns a host with choices of its own."""
        ssh, own = SshHost(name, self._andon), Choices(**self._own | {"url": url_of(name)})
        return AskedHost(place, ssh, own, time.monotonic())

    def _begin(self, host: AskedHost, asked: Commands, calls: SshCalls) -> None:
        host.asked, self._first = len(asked), self._first or asked
        host.ssh.postpone()
        self._open[id(host.ssh.begin(calls, asked))] = host

    def _go_on(self, host: AskedHost, calls: SshCalls) -> HostAnswer | None:
        """Calls the command; returns None if it asks the host for something."""
        host.ssh.postpone()
        host.choices.node = node = SshNode(host.ssh, self._book)
        text, code, error = io.StringIO(), 0, None
        try:
            with redirect_stdout(text), _twin(self._context, host.choices).scope(cleanup=False):
                code = int(self._call() or 0)
        except Unanswered as question:
            self._begin(host, question.commands, calls)
            return None
        except UNEXPECTED as exc:
            error = unexpected(exc)
            code = error.exit_code
        ssh, took = host.ssh, time.monotonic() - host.began
        return HostAnswer(ssh.name, error, text.getvalue(), code, took, ssh.by, node.live.free())


def _twin(context: click.Context, choices: Choices) -> click.Context:
    """Returns the same context with these choices."""
    own = copy(context)
    if context.parent is None:
        own.obj = choices
    else:
        own.parent = _twin(context.parent, choices)
    return own
