"""Where `andon alerts` gets its alerts: from a server, or by sampling this node once."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from andon.cli import snapshot_source
from andon.cli.show.alerts import AlertOverview
from andon.cli.terminal import Choices
from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.explain.conditions.node.drivers import has_none
from andon.model.alert import Alert, Made, Phase
from andon.model.alert_wire import ALERTS, AlertList, alert_from_json
from andon.model.codec import Text, Wrong, read, read_schema
from andon.model.wire import Json
from andon.node.calls import CallLimits
from andon.node.remote import Server, own_server, service
from andon.node.usual_server import usual_url

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook
    from andon.model.device import Snapshot
    from andon.settings.resolution import Settings

T = TypeVar("T")

FOLLOW_SECONDS = 1.0
OVERLAP_SECONDS = 10.0  # asked for twice, so that nothing that ended meanwhile is missed
MOST = 1000
LOOK_LIMITS = CallLimits(timeout_seconds=3.0, most_bytes=1 << 20)
SILENT_SECONDS = 5.0  # one that did not answer in time is not asked again at once
ONE_READING = "Based on one reading: {}, so durations are unknown and nobody is notified."
OWN_THRESHOLDS = (
    "Based on one reading and the given thresholds: durations are unknown and nobody is notified."
)
NO_GPU = "No GPU found on this node."
NONE_RUNNING = "no server is running (andon serve)"
NO_SERVER = "no andon server is running on this machine"
SERVER_THRESHOLDS = "a server uses its own settings: andon serve --threshold NAME=VALUE"
START = "start one with andon serve, or use one on another machine with --url"


_silent: dict[str, float] = {}
"""The servers of this machine that did not answer in time, and until when they are not asked."""


class Source(Protocol):
    """What every source of alerts can answer."""

    def page(self, since: float | None = None) -> AlertOverview: ...

    def rules(self) -> Json: ...

    def rule(self, name: str) -> Json: ...

    def pages(self) -> Iterator[AlertOverview]: ...


class FromServer:
    """Alerts from a server."""

    def __init__(self, server: Server, devices: Sequence[str] = ()) -> None:
        self.server, self._devices = server, devices

    def page(self, since: float | None = None) -> AlertOverview:
        """The alerts of all devices, or of the named ones; the server resolves the names."""
        asked: dict[str, Any] = {"limit": MOST}
        if since is not None:
            asked["since"] = max(0.0, since)
        each = [{**asked, "device": device} for device in self._devices] or [asked]
        pages = [self._page(self.server.get(f"/api/alerts?{urlencode(one)}")) for one in each]
        found = {alert.id: alert for page in pages for alert in page.alerts}
        return replace(pages[0], alerts=tuple(found.values()))

    def pages(self) -> Iterator[AlertOverview]:
        """The active alerts and those resolved in the meantime, repeatedly."""
        page = self.page()
        while True:
            yield page
            time.sleep(FOLLOW_SECONDS)
            page = self.page(page.at - OVERLAP_SECONDS)  # by the server's own clock

    def alert(self, number: str) -> Alert:
        return self._read(alert_from_json, self.server.get(_at(number)))

    def rules(self) -> Json:
        from andon.node.alert_rules import rules_from_json

        return self._read(rules_from_json, self.server.get("/api/alerts/rules"))

    def rule(self, name: str) -> Json:
        from andon.node.alert_rules import rule_from_json

        payload = self.server.get(f"/api/alerts/rules/{quote(name, safe='')}")
        return self._read(rule_from_json, payload)

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        body = {"by": by, "note": note}
        return self._read(alert_from_json, self.server.post(_at(number, "/acknowledge"), body))

    def unacknowledge(self, number: str) -> Alert:
        return self._read(alert_from_json, self.server.delete(_at(number, "/acknowledge")))

    def silence(self, body: Json) -> str:
        """Adds a silence and returns its id."""
        payload = self.server.post("/api/silences", body)
        return self._read(lambda made: read(Made, made).id, payload)

    def unsilence(self, number: str) -> None:
        self.server.delete(f"/api/silences/{quote(number, safe='')}")

    def test(self, notifier: str | None) -> Json:
        from andon.node.alert_rules import results_from_json

        return self._read(
            results_from_json, self.server.post("/api/alerts/test", {"notifier": notifier})
        )

    def _page(self, payload: Json) -> AlertOverview:
        return self._read(page_from_json, payload)

    def _read(self, read: Callable[[Json], T], payload: Json) -> T:
        """Parses the server's answer, which must be that of a server of this version."""
        try:
            return read(payload)
        except (Invalid, Wrong) as exc:
            raise self.server.of_another_version(str(exc)) from exc


def page_from_json(payload: Json) -> AlertOverview:
    found = read_schema(ListedAlerts, payload, ALERTS)
    return AlertOverview(
        node=found.node,
        at=found.at,
        alerts=found.alerts,
        silences=found.silences,
        simulated=found.simulated,
        note=found.note,
    )


class ListedAlerts(AlertList, frozen=True):
    """A server's list, which may have a note."""

    note: Text | None = None


class FromSampling:
    """Alerts from sampling this node here; nothing is stored, and no one is notified."""

    def __init__(self, choices: Choices, devices: Sequence[str] = ()) -> None:
        self._choices, self._devices = choices, devices

    def page(self, since: float | None = None) -> AlertOverview:
        """Returns the alerts of one sample; one that would fire if it lasted counts as firing."""
        from andon import app
        from andon.alerts.rules.standing import standing

        settings = snapshot_source.settings_of(self._choices)
        snapshot = snapshot_source.take_snapshot(self._choices)
        snapshot = app.with_driver_versions(snapshot, settings)
        silent = next(map("{} does not answer".format, _silent), NONE_RUNNING)
        read = OWN_THRESHOLDS if _has_thresholds(self._choices) else ONE_READING.format(silent)
        note = read if not has_none(snapshot) else f"{NO_GPU} {read}"
        found = self._narrowed(standing(snapshot, _rulebook(settings)), snapshot)
        return _page(snapshot, found, note)

    def pages(self) -> Iterator[AlertOverview]:
        """The alerts of sample after sample, by the same rules and durations as a server's."""
        from andon.alerts import rules as alerting
        from andon.alerts.watcher import now

        settings = snapshot_source.settings_of(self._choices)
        rulebook, state = _rulebook(settings), alerting.EMPTY
        with (
            snapshot_source.sampling(self._choices) as sampler,
            sampler.subscribe(settings.interval_seconds) as snapshots,
        ):
            for snapshot in snapshots:
                seen = alerting.Observation(snapshot, snapshot.events)
                outcome = alerting.step(state, seen, now(), rulebook)
                state = outcome.state
                ended = [a for a in outcome.changed if a.state is Phase.RESOLVED and a.fired]
                found = (replace(a, notified=0) for a in (*alerting.current(state), *ended))
                # There is nobody to notify.
                yield _page(snapshot, self._narrowed(tuple(found), snapshot))

    def _narrowed(self, alerts: tuple[Alert, ...], snapshot: "Snapshot") -> tuple[Alert, ...]:
        if not self._devices:
            return alerts
        wanted = snapshot_source.chosen_uuids(snapshot, self._devices)
        return tuple(alert for alert in alerts if alert.subject in wanted)

    def rules(self) -> Json:
        from andon.web.answers.alert_payloads import rules_to_json

        settings = snapshot_source.settings_of(self._choices)
        statuses = snapshot_source.take_snapshot(self._choices).devices
        return rules_to_json(_rulebook(settings), statuses)

    def rule(self, name: str) -> Json:
        from andon.explain.conditions.catalogue import condition_named
        from andon.web.answers.rule_page import RuleContext, rule_to_json

        condition, settings = condition_named(name), snapshot_source.settings_of(self._choices)
        statuses = snapshot_source.take_snapshot(self._choices).devices
        prefix = settings.exporter_prefix
        here = RuleContext(_rulebook(settings), statuses, prefix=prefix)
        return rule_to_json(condition, here)


def source_of(choices: Choices, devices: Sequence[str] = ()) -> FromServer | FromSampling:
    """The named server, the one running here, or this node itself.

    With thresholds of the caller's own it is this node: a server judges by its own.
    """
    own_rules = _has_thresholds(choices)
    if choices.url is not None and own_rules:
        raise Invalid("--threshold and --url cannot be combined", hint=SERVER_THRESHOLDS)
    if choices.url is not None:
        return FromServer(snapshot_source.connected(choices, choices.url), devices)
    if choices.simulate is not None or choices.replay is not None or own_rules:
        return FromSampling(choices, devices)
    running = _running(choices)
    return FromSampling(choices, devices) if running is None else FromServer(running, devices)


def _has_thresholds(choices: Choices) -> bool:
    return any(name.startswith("alerts_") for name in choices.overrides)


def server_source(choices: Choices) -> FromServer:
    """A server, because only a server stores what is requested."""
    found = source_of(choices)
    if isinstance(found, FromServer):
        return found
    for url in _silent:
        raise Unavailable(f"{url} does not answer", hint="it hangs, is stopped or has much to do")
    raise Unavailable(NO_SERVER, hint=START)


def _running(choices: Choices) -> Server | None:
    """Returns the server on this machine: this user's own, else the system service's.

    Other users' servers are not used: alerts contain commands to type, and any user may listen
    on a port.
    """
    own = own_server()
    if own is not None and _answers(own, Unavailable, Denied):
        return own
    system = service(usual_url(), choices.token_file)
    return system if _answers(system, Unavailable) else None


def _answers(server: Server, *absent: type[AndonError]) -> bool:
    """Whether the server answers in time and is genuine; an unproven one does not count."""
    began = time.monotonic()
    if began < _silent.get(server.url, 0.0):
        return False
    try:
        server.within(LOOK_LIMITS).get("/api/alerts?limit=1")
    except absent:
        now = time.monotonic()
        if now - began >= LOOK_LIMITS.timeout_seconds:
            _silent[server.url] = now + SILENT_SECONDS
        return False
    _silent.pop(server.url, None)
    return True


def resolved(page: AlertOverview, name: str) -> Alert:
    """The alert with this id or short name, or the only one that begins with it."""
    from andon.cli.show.alerts import names_of

    names = names_of(page.alerts)
    by_name = {names[alert.id]: alert for alert in reversed(_in_order(page.alerts))}
    by_id = {alert.id: alert for alert in page.alerts}
    exact = by_id.get(name) or by_name.get(name)
    if exact is not None:
        return exact
    near = {a.id: a for key, a in {**by_id, **by_name}.items() if key.startswith(name)}
    if len(near) == 1:
        return next(iter(near.values()))
    worst_first = sorted(page.alerts, key=lambda alert: -alert.severity)
    known = ", ".join([names[alert.id] for alert in worst_first][:8]) or "none"
    reason = f"{name!r} matches several alerts" if near else f"there is no alert {name!r}"
    raise Gone(reason, hint=f"alerts: {known}")


def _in_order(alerts: tuple[Alert, ...]) -> list[Alert]:
    """Active alerts first, then resolved ones, latest first: a short name means the first match."""
    return sorted(alerts, key=lambda a: (a.state is Phase.RESOLVED, -a.since))


def _rulebook(settings: "Settings") -> "Rulebook":
    from andon import app

    return app.rulebook(settings)


def _page(
    snapshot: "Snapshot", alerts: tuple[Alert, ...], note: str | None = None
) -> AlertOverview:
    return AlertOverview(snapshot.node, snapshot.at, alerts, (), snapshot.simulated, note)


def _at(number: str, tail: str = "") -> str:
    return f"/api/alerts/{quote(number, safe='')}{tail}"
