"""Alerts: their rules, their notifiers, their store and what watches for them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from andon.alerts.rules.messages import MessageContext
from andon.alerts.rules.routes import Route
from andon.alerts.watcher import RoutedNotifier, Watcher
from andon.app.history import store_kind, store_node, store_url
from andon.app.thresholds import rulebook
from andon.errors import AndonError, Invalid
from andon.explain.evidence.observation import OwnTrouble
from andon.host.clock import offset
from andon.host.machine_id import boot_id, node_name
from andon.model.alert import Level
from andon.ports import AlertStore, Notifier
from andon.registry import NOTIFIERS, load
from andon.sampling.bus import Subscription
from andon.settings.moments import parse_quiet
from andon.settings.resolution import Settings

if TYPE_CHECKING:  # not every command needs alerts and leases
    from andon.settings.alerts import NotifierSettings


def open_alert_store(settings: Settings) -> AlertStore:
    """Where alerts are stored: beside the history."""
    url = store_url(settings)
    return store_kind(url).open_alerts(url, store_node(settings))


def open_notifiers(settings: Settings, node: str = "") -> list[RoutedNotifier]:
    """All notifiers, each with its route. Invalid lists every mistake at once, and no secret."""
    found: list[RoutedNotifier] = []
    mistakes: list[str] = []
    zone = offset(settings.alerts_time_zone)
    voice = MessageContext(
        node or settings.node or node_name(),
        zone,
        settings.alerts_board_url,
        simulated=bool(settings.simulate),
    )
    for one in settings.alerts_notifiers:
        level = one.minimum_level or Level(settings.alerts_minimum_level)
        takes_information = level is not Level.CRITICAL and one.kind != "alertmanager"
        # Alertmanager has its own mute times.
        quiet = "" if one.kind == "alertmanager" else settings.alerts_quiet_hours
        route = Route(
            name=one.name,
            level=level,
            rules=one.rules,
            devices=one.devices,
            owners=one.owners,
            informs=one.owners if takes_information else (),
            quiet=parse_quiet(quiet if one.quiet_hours is None else one.quiet_hours),
            bypass_quiet_hours=None
            if one.bypass_quiet_hours == "never"
            else Level(one.bypass_quiet_hours),
        )
        try:
            found.append((_notifier(one, voice), route))
        except AndonError as exc:
            mistakes.append(f"{exc.reason} ({exc.hint})" if exc.hint else exc.reason)
    if mistakes:
        count = len(mistakes)
        reason = mistakes[0] if count == 1 else f"{count} notifiers cannot be used"
        raise Invalid(
            reason,
            hint="andon config lists the settings; andon alerts test tries them",
            mistakes=tuple(mistakes),
        )
    return found


def _notifier(settings: "NotifierSettings", context: MessageContext) -> Notifier:
    try:
        made = load(NOTIFIERS, settings.kind)
    except AndonError as exc:
        raise type(exc)(f"notifier {settings.name}: {exc.reason}", exc.hint) from exc
    notifier: Notifier = made(settings, context)
    return notifier


def open_fleet_watcher(
    settings: Settings,
    session: Subscription,
    open_store: Callable[[], AlertStore],
    troubles: Callable[[], Sequence[OwnTrouble]],
    leads: Callable[[], bool],
) -> Watcher:
    """Opens the watcher of a leading hub's nodes. It notifies people of the troubles that the hub
    finds, and of the notices that nodes hand over."""
    return Watcher(
        session,
        rulebook(settings),
        open_store,
        open_notifiers(settings),
        offset(settings.alerts_time_zone),
        boot_id(),
        troubles,
        leads=leads,
    )
