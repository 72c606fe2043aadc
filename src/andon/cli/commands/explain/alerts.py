"""`andon alerts`: active alerts, and what to do about them."""

import getpass
import re
import time
from typing import Any

import click
from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview
from andon.cli.commands.command_group import SuggestingGroup
from andon.cli.commands.explain.alerts_notify import notify
from andon.cli.commands.explain.alerts_trial import trial, trial_by
from andon.cli.moments import coming_moment, moment
from andon.cli.options import (
    DEVICE_FORMS,
    DEVICE_OPTION,
    at_server,
    chosen,
    device_option,
    elsewhere,
    lasting,
    shared,
    split_devices,
    thresholds_option,
)
from andon.cli.show.alert_rules import render_rule, render_rules
from andon.cli.show.alerts import names_of, render_alert, render_alerts
from andon.cli.show.text import styled
from andon.cli.sources import NO_DEVICE, node_of
from andon.cli.terminal import Terminal, notice
from andon.errors import AndonError, Gone
from andon.explain.conditions.catalogue import BY_NAME
from andon.model.alert import Alert, AlertList, Level, Phase
from andon.model.codec import document, to_json
from andon.node.port import NodeAlerts
from andon.units import human_seconds

ENDED_SINCE = "1h"
EXIT_CODES = {None: 0, Level.INFO: 10, Level.WARNING: 11, Level.CRITICAL: 12}


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the alerts of a server running here."""
    page = _page_to_complete(context)
    return sorted({n for n in names_of(page.alerts).values() if n.startswith(incomplete)})


def _silence_ids(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [one.id for one in _page_to_complete(context).silences if one.id.startswith(incomplete)]


def _page_to_complete(context: click.Context) -> AlertOverview:
    try:
        return _server_alerts(context).page()
    except AndonError:
        return AlertOverview("", 0.0, ())


def _rule_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return sorted(name for name in BY_NAME if name.startswith(incomplete))


_ID = click.argument("alert", shell_complete=_names)


_DEVICE_LIKE = re.compile(r"(?![a-z_]+@)\S*\d\S*")
"""A word with a digit, as no command has; `thermal@3` is an alert."""


class DeviceGroup(SuggestingGroup):
    """A group of commands that also takes devices as arguments: `andon alerts 3 --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take out the devices before the commands; they become part of `devices`."""
        devices = []
        while (word := self._first_word(ctx, args)) is not None:
            devices.append(args.pop(word))
        found = super().parse_args(ctx, args)
        given = ctx.params.get("devices") or ()
        ctx.params["devices"] = split_devices([*devices, *given])
        return found

    def _first_word(self, ctx: click.Context, args: list[str]) -> int | None:
        """The place of the first argument, if it is a device."""
        rest = self.make_parser(ctx).parse_args(list(args))[1]
        is_device = bool(rest) and rest[0] not in self.commands
        at = len(args) - len(rest)
        return at if is_device and _DEVICE_LIKE.fullmatch(rest[0]) else None

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[DEVICE]...", "[COMMAND] [ARGS]..."]


@click.group(cls=DeviceGroup, invoke_without_command=True)
@device_option("devices", f"Only alerts for these GPUs: {DEVICE_FORMS}.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.alerts/1: UTC, bytes.")
@click.option("--follow", "-f", is_flag=True, help="Keep running and print changes.")
@click.option(
    "--since",
    type=moment,
    default=ENDED_SINCE,
    show_default=True,
    metavar="WHEN",
    help="Also show alerts resolved since: 10m, yesterday.",
)
@click.option("--all", "everything", is_flag=True, help="Also show which devices are in use.")
@click.option(
    "--exit-code",
    "by_level",
    is_flag=True,
    help="Exit with the worst level: 0 none, 10 info, 11 warning, 12 critical.",
)
@thresholds_option("Use this threshold, e.g. thermal_celsius=75; samples this node.")
@elsewhere
@shared
@click.pass_context
def alerts(
    context: click.Context,
    devices: list[str],
    as_json: bool,
    follow: bool,
    since: float,
    everything: bool,
    by_level: bool,
) -> int | None:
    """Show active alerts, whom they affect and what to do.

    A server on this machine is found automatically. Without one this node is sampled once and
    checked by the same rules. Name an alert as in the list (thermal@3) or by its id. The exit code
    is 3 if there are devices and none can be read.
    """
    if context.invoked_subcommand is not None:
        return None
    source, terminal = node_of(chosen()).alerts, Terminal.of(chosen())
    if follow:
        from andon.cli.commands.explain.alerts_follow import follow_alerts

        return follow_alerts(source, devices, terminal, chosen(), as_json, everything)
    page = replace(source.page(since, devices), everything=everything)
    if as_json:
        found = AlertList(
            page.node, page.at, page.simulated, page.worst, tuple(page.listed), page.silences
        )
        terminal.show_json({**document(found), "note": page.note})
    else:
        terminal.print(*render_alerts(page, terminal.width))
    if by_level:
        return EXIT_CODES[page.worst]
    return NO_DEVICE if page.nothing_readable else 0


@alerts.command()
@_ID
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@elsewhere
@shared
def show(alert: str, as_json: bool) -> int:
    """Show everything that is known about one alert."""
    source, terminal = node_of(chosen()).alerts, Terminal.of(chosen())
    found = _find(source, alert)
    if as_json:
        terminal.show_json(to_json(found))
    else:
        terminal.print(*render_alert(found, terminal.width, time.time()))
    return 0


@alerts.command(short_help="Acknowledge an alert: it is not sent again.")
@_ID
@click.option("--by", default=None, metavar="NAME", help="Who acknowledges it [default: you].")
@click.option("--note", "-m", default="", metavar="TEXT", help="What is being done about it.")
@click.option("--undo", is_flag=True, help="Remove an acknowledgement.")
@at_server
@shared
def ack(alert: str, by: str | None, note: str, undo: bool) -> int:
    """Acknowledge an alert: it stays on the board and is not sent again.

    If it gets worse it is sent once more.
    """
    source = _server_alerts()
    found = resolved(source.page(), alert)
    if undo:
        _notice("no longer acknowledged", source.unacknowledge(found.id))
    else:
        _notice("acknowledged", source.acknowledge(found.id, by or _me(), note))
    return 0


@alerts.command(short_help="Send nothing about an alert, rule or device for a while.")
@click.argument("what", nargs=-1, metavar="[ALERT] HOW_LONG", shell_complete=_names)
@click.option("--for", "length", type=lasting, metavar="TIME", help="The same as HOW_LONG.")
@click.option(
    "--until", type=coming_moment, metavar="TIME", help="Until: 22:00, 'Mon 8:00', tomorrow."
)
@click.option("--rule", "-r", metavar="RULE", help="Every alert of this rule.")
@click.option(*DEVICE_OPTION, "device", metavar="DEVICE", help="Every alert of this device.")
@click.option("--everything", is_flag=True, help="All alerts.")
@click.option("--by", default=None, metavar="NAME", help="Who asks for it [default: you].")
@click.option("--note", "-m", default="", metavar="TEXT", help="Why.")
@at_server
@shared
def silence(
    what: tuple[str, ...],
    length: float | None,
    until: float | None,
    rule: str | None,
    device: str | None,
    everything: bool,
    by: str | None,
    note: str,
) -> int:
    """Send nothing about an alert, a rule or a device for a while: 30m, 2h, 1d.

    It is still shown on the board. Examples: thermal@3 2h, or --rule fan --for 1d.
    """
    if length is not None and until is not None:
        raise click.UsageError("--for and --until cannot be combined")
    if until is not None:
        length = until - time.time()
        if length <= 0:
            raise click.UsageError("--until is in the past")
    if not what and length is None:
        raise click.UsageError("say what and for how long: thermal@3 2h")
    alert, seconds = (what, length) if length is not None else (what[:-1], lasting(what[-1]))
    if len(alert) > 1:
        raise click.UsageError("give one alert and one duration: thermal@3 2h")
    if alert and (rule or device or everything):
        raise click.UsageError("name an alert, or --rule and --device, not both")
    if not alert and not (rule or device or everything):
        raise click.UsageError("name an alert, --rule, --device or --everything")
    source = _server_alerts()
    body: dict[str, Any] = {"seconds": seconds, "by": by or _me(), "note": note}
    if alert:
        found = resolved(source.page(), alert[0])
        body |= {"rule": found.rule, "subject": found.subject}
    else:
        body |= {"rule": rule, "device": device}
    made = source.silence(body).id
    notice(
        f"silenced for {human_seconds(seconds)}; to remove it: andon alerts unsilence {made}",
        chosen(),
    )
    return 0


@alerts.command()
@click.argument("silence", metavar="ID|ALERT", shell_complete=_silence_ids)
@at_server
@shared
def unsilence(silence: str) -> int:
    """Remove a silence by its ID or its alert; held notices are sent."""
    source = _server_alerts()
    for one in _silences_of(source.page(), silence) if "@" in silence else [silence]:
        source.unsilence(one)
    notice("silence removed", chosen())
    return 0


@alerts.command(short_help="List the rules and their thresholds, or show one.")
@click.argument("name", required=False, shell_complete=_rule_names)
@click.option("--all", "everything", is_flag=True, help="Also what only andon why mentions.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.rules/1, or andon.rule/1.")
@elsewhere
@shared
def rules(name: str | None, everything: bool, as_json: bool) -> int:
    """List the rules with the thresholds in force, or show one in full.

    A rule's page says what it means and what to do, at which thresholds it fires and which
    settings change them, what andon why says about it, and its query for Prometheus.
    """
    source, terminal = node_of(chosen()).alerts, Terminal.of(chosen())
    found = source.rules() if name is None else source.rule(name)
    if as_json:
        terminal.show_json(found)
    elif name is not None:
        terminal.print(*render_rule(found, terminal.width))
    else:
        terminal.print(*render_rules(found, terminal.width, everything))
    return 0


@alerts.command()
@click.argument("notifier", required=False)
@at_server
@shared
def test(notifier: str | None) -> int:
    """Send a test message through every notifier, or through one."""
    source = node_of(chosen()).alerts
    payload = trial_by(source, chosen(), notifier) if source.notifies else trial(chosen(), notifier)
    terminal = Terminal.of(chosen())
    for one in payload["results"]:
        text = "sent" if one["ok"] else f"failed: {one['reason']}"
        hint = f" ({one['hint']})" if one["hint"] else ""
        terminal.print(styled(f"{one['notifier']}: {text}{hint}"))
    if payload["note"]:
        notice(payload["note"], chosen())
    return 0 if all(one["ok"] for one in payload["results"]) and payload["results"] else 1


alerts.add_command(notify)


def _find(source: NodeAlerts, name: str) -> Alert:
    """Finds an alert among the active ones and those of the last day; a full id is also looked
    up in the whole store."""
    try:
        return resolved(source.page(time.time() - 86_400.0), name)
    except Gone:
        if "#" in name and source.notifies:
            return source.alert(name)
        raise


def _server_alerts(context: click.Context | None = None) -> NodeAlerts:
    """Alerts of a server, because only a server stores what is requested."""
    found = node_of(chosen(context)).alerts
    found.check_server()
    return found


def resolved(page: AlertOverview, name: str) -> Alert:
    """The alert with this id or short name, or the only one that begins with it."""
    names = names_of(page.alerts)
    by_name = {names[alert.id]: alert for alert in reversed(_in_order(page.alerts))}
    by_id = {alert.id: alert for alert in page.alerts}
    exact = by_id.get(name) or by_name.get(name)
    if exact is not None:
        return exact
    near = {a.id: a for key, a in {**by_id, **by_name}.items() if key.startswith(name)}
    if len(near) == 1:
        return next(iter(near.values()))
    worst_first = sorted(near.values() or page.alerts, key=lambda alert: -alert.severity)
    known = list(dict.fromkeys(names[alert.id] for alert in worst_first))
    reason = f"{name!r} matches several alerts" if near else f"there is no alert {name!r}"
    raise Gone(reason, hint=f"alerts: {', '.join(known[:8]) or 'none'}")


def _silences_of(page: AlertOverview, name: str) -> list[str]:
    """Returns the silences of one alert; one that covers more stays."""
    alert = resolved(page, name)
    key = (alert.rule, alert.subject)
    found = [one.id for one in page.silences if (one.rule, one.subject) == key]
    if not found:
        raise Gone(f"no silence is only for {name}", hint="andon alerts lists them by their ids")
    return found


def _in_order(alerts: tuple[Alert, ...]) -> list[Alert]:
    """Active alerts first, then resolved ones, latest first: a short name means the first match."""
    return sorted(alerts, key=lambda a: (a.state is Phase.RESOLVED, -a.since))


def _notice(what: str, alert: Alert) -> None:
    notice(f"{what}: {alert.message}", chosen())


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
