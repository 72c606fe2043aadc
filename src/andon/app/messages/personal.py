"""Messages to the person who runs this: by their notifiers, on their desktop, or the terminal."""

import logging
import os
import time
from collections.abc import Sequence

from msgspec.structs import replace

from andon.alerts.rules.messages import JOB_RULE, MessageContext
from andon.alerts.rules.routes import Route, concerns
from andon.alerts.watcher import RoutedNotifier
from andon.app.alerts import open_notifiers
from andon.errors import AndonError
from andon.host.clock import offset
from andon.host.machine_id import node_name
from andon.host.users import user_name
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.event import Party
from andon.model.lease import Claim
from andon.ports import Notifier
from andon.registry import NOTIFIERS, load
from andon.settings.alerts import NotifierSettings
from andon.settings.resolution import Settings
from andon.units import human_seconds, printable

log = logging.getLogger("andon.messages")
DESKTOP = NotifierSettings("desktop", "desktop", timeout_seconds=10.0)


def personal_notifiers(settings: Settings) -> list[Notifier]:
    """Returns those that notify.me.by names, else all that are configured, else the desktop."""
    names = settings.notify_me_by
    found = [one for one, _ in open_notifiers(settings) if not names or one.name in names]
    wanted = DESKTOP.name in names and DESKTOP.name not in [one.name for one in found]
    return [*found, _desktop(settings)] if wanted or not found else found


def watching_notifiers(settings: Settings, node: str) -> list[RoutedNotifier]:
    """Returns whom a server's alerts notify: those that are configured, and with notify.me.alerts
    the desktop, for what is this person's; none for a recording. What is information only, such as
    a reservation ahead, goes by notify.me.by."""
    if settings.replay:
        return []
    found = open_notifiers(settings, node)
    if not settings.notify_me_alerts:
        return found
    me, names = (user_name(os.getuid()),), settings.notify_me_by
    mine = [
        (one, replace(route, informs=(*route.informs, *me)))
        if one.name in names or not (names or route.owners)
        else (one, route)
        for one, route in found
    ]
    return [*mine, (_desktop(settings), Route(DESKTOP.name, owners=me, informs=me))]


def _desktop(settings: Settings) -> Notifier:
    zone = offset(settings.alerts_time_zone)
    context = MessageContext(settings.node or node_name(), zone, settings.alerts_board_url)
    made: Notifier = load(NOTIFIERS, DESKTOP.kind)(DESKTOP, context)
    return made


def send_all(notifiers: Sequence[Notifier], notices: Sequence[Notice]) -> None:
    """Sends by each; raises the error of the last one that failed."""
    failed: AndonError | None = None
    for notifier in notifiers:
        try:
            notifier.send(notices, [])
        except AndonError as error:
            failed = error
        finally:
            notifier.close()
    if failed is not None:
        raise failed


def personal_notice(
    what: str, message: str, good: bool, advice: str = "", simulated: bool = False
) -> Notice:
    """Returns a notice about something of the person's own, such as the end of a run."""
    at = time.time()
    level = Level.INFO if good else Level.WARNING
    alert = Alert(
        id=f"{what}#{at:.3f}",
        rule=JOB_RULE,
        subject=what,
        level=level,
        state=Phase.FIRING,
        since=at,
        where=what,
        message=message,
        advice=advice,
    )
    return Notice(f"{alert.id}:end", NoticeKind.FIRING, alert, at, node_name(), simulated)


def lease_warning(settings: Settings, claim: Claim, text: str) -> bool:
    """Sends a warning about a lease to those who want to know of its owner; whether one took it."""
    made = personal_notice(f"lease of {claim.user}", text, good=False)
    pid = 0 if claim.lease is None else claim.lease.owner.pid
    alert = replace(made.alert, affected=(Party(pid, claim.user),))
    took = False
    for notifier, route in open_notifiers(settings):
        try:
            if concerns(route, alert):
                notifier.send([replace(made, alert=alert)], [])
                took = True
        except AndonError as error:
            log.warning("%s was not warned by %s: %s", claim.user, notifier.name, error.reason)
        finally:
            notifier.close()
    return took


def run_notice(name: str, code: int, seconds: float, simulated: bool) -> Notice:
    """Returns the end of a command of `andon run` as a notice."""
    how = "succeeded" if code == 0 else f"failed with exit code {code}"
    text = f"Run {name} {how} after {human_seconds(seconds)}"
    return personal_notice(f"run {name}", text, code == 0, "andon runs report last", simulated)


def terminal_message(text: str, term: str) -> str:
    """Returns the sequence by which a terminal shows a message: OSC 777 where that is known, OSC 9
    elsewhere, and the bell for those that know neither."""
    plain = printable(text)[:200].replace(";", ",")
    shown = f"\x1b]777;notify;andon;{plain}" if "rxvt" in term else f"\x1b]9;{plain}"
    return f"{shown}\x07\x07"
