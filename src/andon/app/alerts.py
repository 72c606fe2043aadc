"""Alerts: their rules, their notifiers, their store and what watches for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from andon.app.history import separate_history, store_kind, store_url
from andon.core.settings.resolution import Settings
from andon.core.settings.store_url import MEMORY
from andon.errors import AndonError, Invalid
from andon.host.system import node_name

if TYPE_CHECKING:  # not every command needs alerts and leases
    from andon.core.conditions.rulebook import Rulebook
    from andon.core.notifying.messages import MessageContext
    from andon.core.sampling.self_checks import StoreStats
    from andon.core.settings.alerts import NotifierSettings
    from andon.engine.alerting.watcher import RoutedNotifier, Watcher
    from andon.engine.sampling.sampler import Sampler
    from andon.engine.sharing.lease_tracker import LeaseTracker
    from andon.ports import AlertStore, Notifier


def open_alert_store(settings: Settings) -> "AlertStore":
    """Where alerts are stored: beside the history."""
    return store_kind(settings).open_alerts(store_url(settings))


def rulebook(settings: Settings) -> "Rulebook":
    """The thresholds from the settings; a threshold that is off turns its rule off."""
    from andon.core.conditions.catalogue import RULES_OF, thresholds
    from andon.core.conditions.rulebook import Override, Rulebook

    given = settings.alerts_figures
    off = {RULES_OF[name] for name, figure in given if figure is None}
    figures = {name: figure for name, figure in given if figure is not None}
    overrides = [
        Override(one.device, one.model, one.figures, frozenset(one.disabled_rules))
        for one in settings.alerts_overrides
    ]
    in_force = thresholds(frozenset(off | set(settings.alerts_disabled_rules)), **figures)
    return Rulebook(in_force, overrides, settings.alerts_renotify_seconds)


def with_thresholds(settings: Settings, given: Mapping[str, object]) -> Settings:
    """The settings with some thresholds of a caller's own; Invalid names every mistake."""
    if not given:
        return settings
    from andon.core.settings.figures import flags_of
    from andon.core.settings.resolution import resolve

    own = resolve(None, {}, flags_of(given)).settings.alerts_figures
    figures = {**dict(settings.alerts_figures), **dict(own)}
    return replace(settings, alerts_figures=tuple(figures.items()))


def open_notifiers(settings: Settings, node: str = "") -> "list[RoutedNotifier]":
    """All notifiers, each with its route. Invalid lists every mistake at once, and no secret."""
    from andon.core.notifying.messages import MessageContext
    from andon.core.notifying.routes import Route, parse_quiet
    from andon.host.clock import offset
    from andon.model.alert import Level

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
        # Alertmanager has its own mute times.
        quiet = "" if one.kind == "alertmanager" else settings.alerts_quiet_hours
        route = Route(
            name=one.name,
            level=one.minimum_level or Level(settings.alerts_minimum_level),
            rules=one.rules,
            devices=one.devices,
            owners=one.owners,
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


def _notifier(settings: "NotifierSettings", context: "MessageContext") -> "Notifier":
    from andon.registry import NOTIFIERS, load

    try:
        made = load(NOTIFIERS, settings.kind)
    except AndonError as exc:
        raise type(exc)(f"notifier {settings.name}: {exc.reason}", exc.hint) from exc
    notifier: Notifier = made(settings, context)
    return notifier


def open_watcher(
    settings: Settings,
    sampler: "Sampler",
    store: "Callable[[], StoreStats]",
    keep: bool = True,
    leases: "LeaseTracker | None" = None,
) -> "Watcher":
    """Alerts from this sampler. A recording notifies no one."""
    from andon.engine.alerting.watcher import Watcher
    from andon.engine.sampling.self_monitor import SelfMonitor
    from andon.host.clock import offset

    kept = separate_history(settings) if keep else replace(settings, history_store=MEMORY)
    notifiers = [] if settings.replay else open_notifiers(settings, sampler.node.name)
    return Watcher(
        sampler.subscribe(settings.interval_seconds),
        rulebook(settings),
        lambda: open_alert_store(kept),
        notifiers,
        offset(settings.alerts_time_zone),
        sampler.node.boot,
        SelfMonitor(sampler.costs, store),
        book=None if leases is None else leases.page,
    )
