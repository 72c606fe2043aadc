"""`andon alerts --follow`: the list once, then every change as it happens."""

import threading
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview
from andon.cli.show.alerts import names_of, render_alerts, render_change
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Unavailable
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.model import wire
from andon.model.alert import Alert, Phase
from andon.model.codec import to_json
from andon.node.port import NodeAlerts

FOLLOW_SECONDS = 1.0
Seen = dict[str, tuple[object, ...]]


def follow_alerts(
    source: NodeAlerts,
    devices: Sequence[str],
    terminal: Terminal,
    choices: Choices,
    as_json: bool,
    everything: bool = False,
) -> int:
    """Follow until Ctrl-C; if the server goes down, wait for it."""
    seen: Seen | None = None
    for found in _pages(source, devices, choices):
        page = replace(found, everything=everything)
        if seen is None and not as_json:
            terminal.print(*render_alerts(page, terminal.width, ended=False))
            if not source.notifies:
                notice("no andon server is running here, so nobody is notified", choices)
            notice("following; Ctrl-C stops", choices)
        changed, seen = changes(seen, page, silent_first=not as_json)
        names = names_of(page.alerts)
        for alert in changed:
            if as_json:
                terminal.show_data(wire.dumps(to_json(alert)) + "\n")
            else:
                at = page.at
                terminal.print(*render_change(alert, names[alert.id], terminal.width, at))
    return 0


def changes(
    before: Seen | None, page: AlertOverview, silent_first: bool
) -> tuple[list[Alert], Seen]:
    """Alerts that fired, changed or ended since the last page, in order.

    Leaves out pending ones, and those that ended before they were seen.
    """
    listed = page.listed
    now = {a.id: _mark(a) for a in listed if a.state is not Phase.PENDING}
    known = before or {}
    if before is None and silent_first:
        return [], now
    found = [a for a in listed if a.id in now and known.get(a.id) != now[a.id]]
    found = [a for a in found if a.state is Phase.FIRING or a.id in known]
    found.sort(key=lambda a: a.resolved if a.resolved is not None else a.fired or a.since)
    # An alert that ended stays known, so that it is reported once.
    resolved = {number: mark for number, mark in known.items() if mark[0] is Phase.RESOLVED}
    return found, {**dict(list(resolved.items())[-1000:]), **now}


def _mark(alert: Alert) -> tuple[object, ...]:
    seen = alert.acknowledged
    return alert.state, alert.level, seen and (seen.by, seen.note), alert.silenced_until


def _pages(source: NodeAlerts, devices: Sequence[str], choices: Choices) -> Iterator[AlertOverview]:
    retrying = Retrying(
        lambda text: notice(text, choices),
        RetryTexts(lambda reason: f"{reason}; waiting for it", lambda _: "the server is back"),
        back_off=BackOff(FOLLOW_SECONDS, FOLLOW_SECONDS, at_once=0),
    )
    while True:
        try:
            for page in source.pages(devices):
                retrying.succeeded()
                yield page
            return
        except Unavailable as error:
            if not source.notifies:
                raise
            retrying.failed(retrying.trouble or error)  # one line, however it fails later
            retrying.pause(threading.Event())
