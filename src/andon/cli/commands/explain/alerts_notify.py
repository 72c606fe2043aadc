"""`andon alerts notify add`: writes a notifier into the configuration file, and tries it."""

import sys
from pathlib import Path
from typing import Any

import click

from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.commands.explain.alerts_trial import RESTART, sent
from andon.cli.options import chosen, shared
from andon.cli.show.text import styled
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid
from andon.host.files import read_regular
from andon.settings.notifier_kinds import KINDS
from andon.settings.resolution import Settings
from andon.units import sh

LONGEST_SECRET = 4096


@click.group(cls=SuggestingGroup)
def notify() -> None:
    """Add a notifier: Slack, e-mail, PagerDuty and more."""


@notify.command(short_help="Add a notifier to the configuration file and try it.")
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.argument("address", nargs=-1, required=True)
@click.option("--name", metavar="NAME", help="What it is called [default: its kind].")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="For webhook: send this."
)
@click.option("--from", "sender", metavar="ADDRESS", help="For email: the sender.")
@click.option("--host", metavar="HOST", help="For email: the mail server [default: localhost].")
@click.option("--port", type=int, metavar="PORT", help="For email: its port.")
@click.option("--user", metavar="USER", help="For email: sign in with this name.")
@click.option(
    "--password-file", metavar="FILE", help="For email: read the password from it; - for stdin."
)
@click.option(
    "--encryption", metavar="HOW", help="For email: starttls, ssl or none [default: starttls]."
)
@click.option("--minimum-level", metavar="LEVEL", help="Send only critical, or from warning on.")
@click.option("--no-test", is_flag=True, help="Send no test message.")
@shared
def add(
    kind: str,
    address: tuple[str, ...],
    name: str | None,
    headers: tuple[str, ...],
    sender: str | None,
    host: str | None,
    port: int | None,
    user: str | None,
    password_file: str | None,
    encryption: str | None,
    minimum_level: str | None,
    no_test: bool,
) -> int:
    """Add a notifier to the configuration file and send a test message through it.

    KIND is slack, email, webhook, pagerduty, command, alertmanager or apprise. ADDRESS is a URL,
    one or more e-mail addresses, PagerDuty's integration key, or a command and its arguments; -
    reads it from standard input, which keeps it out of the shell's history. The file keeps its
    comments and becomes private (mode 600). The same notifier is not added twice.

    \b
      andon alerts notify add slack https://hooks.slack.com/services/T…/B…/…
      andon alerts notify add email ada@example.org --host mail.example.org
      andon alerts notify add command -- /usr/bin/logger -t andon
    """
    from andon.app.notifier_file import add_notifier

    choices = chosen()
    given: dict[str, Any] = {
        **_address(kind, address),
        "headers": dict(map(_header, headers)),
        "from": sender,
        "host": host,
        "port": port,
        "user": user,
        "password": None if password_file is None else _secret(password_file),
        "encryption": encryption,
        "minimum_level": minimum_level,
    }
    values = {key: value for key, value in given.items() if value not in (None, {})}
    added = add_notifier(kind, values, name)
    terminal = Terminal.of(choices)
    if added.lines:
        terminal.show(f"{added.path}:\n\n{added.lines}\n")
    else:
        terminal.print(styled(f"{added.path} has it already, as {added.settings.name}"))
    if no_test:
        notice(f"{RESTART}; to try it: andon alerts test {sh(added.settings.name)}", choices)
        return 0
    return _tried(added.settings, terminal, choices)


def _tried(settings: Any, terminal: Terminal, choices: Choices) -> int:
    from andon.app.alerts import open_notifiers

    ((notifier, _),) = open_notifiers(Settings(alerts_notifiers=(settings,)))
    result = sent(notifier)
    if result["ok"]:
        terminal.print(styled(f"{settings.name}: a test message was sent"))
        notice(RESTART, choices)
        return 0
    hint = f" ({result['hint']})" if result["hint"] else ""
    terminal.print(styled(f"{settings.name}: the test message failed: {result['reason']}{hint}"))
    return 1


def _address(kind: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Returns the arguments under the key that this kind of notifier has for them."""
    key = KINDS[kind].needs[0]
    found = tuple(_secret(word) if word == "-" else word for word in arguments)
    if key in ("command", "to"):
        return {key: list(found)}
    if len(found) > 1:
        raise click.UsageError(f"{kind} takes one address")
    return {key: found[0]}


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.UsageError("write a header as 'NAME: VALUE'")
    return name.strip(), value.strip()


def _secret(source: str) -> str:
    """The first line of a file, or of standard input."""
    try:
        if source == "-":
            return sys.stdin.readline(LONGEST_SECRET).strip()
        lines = read_regular(Path(source), LONGEST_SECRET, follow=True).decode().splitlines()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
        raise Invalid(f"{source} cannot be read: {reason}") from exc
    return lines[0].strip() if lines else ""
