"""The alerts of this machine without a server, judged from new samples."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from msgspec.structs import replace

from andon.alerts.rules.alerts_from_sample import alerts_from_sample
from andon.alerts.rules.commands import current
from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.rule_page import RuleContext, rule_list, rule_page
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.errors import Gone, Unavailable
from andon.explain.conditions.catalogue import condition_named
from andon.explain.conditions.node.drivers import has_none
from andon.explain.evidence.observation import Moment, Observation
from andon.host.clock import clocks
from andon.model.alert import Alert, Phase, Silence
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.model.naming import devices_named
from andon.node.local.context import LocalContext
from andon.node.local.live import LocalLive
from andon.node.remote.alerts import RemoteAlerts
from andon.node.running import silent_server

ONE_READING = "Based on one reading: {}, so durations are unknown and nobody is notified."
OWN_THRESHOLDS = (
    "Based on one reading and the given thresholds: durations are unknown and nobody is notified."
)
NO_GPU = "No GPU found on this node."
NONE_RUNNING = "no server is running (andon serve)"
NO_SERVER = "no andon server is running on this machine"
START = "start one with andon serve, or use one on another machine with --url"


def alerts_of(context: LocalContext, live: LocalLive) -> "LocalAlerts | RemoteAlerts":
    """Returns the alerts of the server that watches this machine; if there is none, or the caller
    has thresholds of their own, those that this process judges."""
    if not context.is_real or context.own_thresholds or (server := context.any_server()) is None:
        return LocalAlerts(context, live)
    return server.alerts


class LocalAlerts:
    """Alerts that this process judges, without storing them or notifying anyone."""

    notifies = False

    def __init__(self, context: LocalContext, live: LocalLive) -> None:
        self._context, self._live = context, live

    def page(self, since: float | None = None, devices: Sequence[str] = ()) -> AlertOverview:
        """Returns the alerts of one sample; one that would fire if it lasted counts as firing."""
        snapshot = self._live.with_driver_versions(self._live.read())
        silent = silent_server()
        reason = NONE_RUNNING if silent is None else f"{silent} does not answer"
        note = OWN_THRESHOLDS if self._context.own_thresholds else ONE_READING.format(reason)
        note = note if not has_none(snapshot) else f"{NO_GPU} {note}"
        found = alerts_from_sample(snapshot, self._context.rulebook)
        return _overview(snapshot, _narrowed(found, snapshot, devices), note)

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        """Yields the alerts after each sample, by a server's rules and durations."""
        rulebook, state = self._context.rulebook, EMPTY
        with self._live.subscribe(self._context.settings.interval_seconds) as snapshots:
            for snapshot in snapshots:
                seen = Observation(snapshot, snapshot.events)
                moment = Moment(*clocks())
                outcome = step(state, seen, moment, rulebook)
                state = outcome.state
                ended = [a for a in outcome.changed if a.state is Phase.RESOLVED and a.fired]
                # There is nobody to notify.
                found = (replace(a, notified=0) for a in (*current(state), *ended))
                yield _overview(snapshot, _narrowed(tuple(found), snapshot, devices))

    def rules(self) -> dict[str, Any]:
        return document(rule_list(self._context.rulebook, self._live.read().devices))

    def rule(self, name: str) -> dict[str, Any]:
        condition, prefix = condition_named(name), self._context.settings.exporter_prefix
        context = RuleContext(self._context.rulebook, self._live.read().devices, prefix=prefix)
        return document(rule_page(condition, context))

    def alert(self, number: str) -> Alert:
        raise Gone(f"there is no alert {number!r}")

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        refuse_without_server()

    def unacknowledge(self, number: str) -> Alert:
        refuse_without_server()

    def silence(self, body: Mapping[str, Any]) -> Silence:
        refuse_without_server()

    def unsilence(self, number: str) -> None:
        refuse_without_server()

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        refuse_without_server()

    def check_server(self) -> None:
        refuse_without_server()


def refuse_without_server() -> NoReturn:
    """Raises Unavailable: the request needs a server."""
    if (url := silent_server()) is not None:
        raise Unavailable(f"{url} does not answer", hint="it hangs, is stopped or has much to do")
    raise Unavailable(NO_SERVER, hint=START)


def _narrowed(
    alerts: tuple[Alert, ...], snapshot: Snapshot, devices: Sequence[str]
) -> tuple[Alert, ...]:
    if not devices:
        return alerts
    wanted = {uuid for name in devices for uuid in devices_named(name, snapshot.devices)}
    return tuple(alert for alert in alerts if alert.subject in wanted)


def _overview(
    snapshot: Snapshot, alerts: tuple[Alert, ...], note: str | None = None
) -> AlertOverview:
    return AlertOverview(snapshot.node, snapshot.at, alerts, (), snapshot.simulated, note)
