"""REST for alerts: active and past alerts, rules, acknowledgements and silences."""

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec.structs import replace

from andon.access.roles import Action, Role, check_silence, refusal_for, signature
from andon.alerts.rules import lamps, listing
from andon.alerts.rules.messages import NO_NOTIFIER
from andon.alerts.rules.past import Query as Wanted
from andon.alerts.rules.past import matches
from andon.alerts.rules.rule_page import RuleContext, rule_to_json, rules_to_json
from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.explain.conditions.catalogue import condition_named
from andon.leases.rules.occupants import holders
from andon.model import wire
from andon.model.alert import Alert, Level, Phase, Silence
from andon.model.alert_wire import alert_to_json, alerts_to_json, silence_to_json
from andon.model.device import Snapshot
from andon.model.naming import device_named
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.web.answers.alert_payloads import (
    board_to_json,
    entries_to_json,
    seen_by,
)
from andon.web.answers.requests import (
    AcknowledgeRequest,
    NotifierTestRequest,
    SilenceRequest,
)
from andon.web.answers.texts import dumped
from andon.web.transport.auth import add_notes, caller_of, sight_in

if TYPE_CHECKING:
    from andon.alerts.watcher import Watcher
    from andon.leases.network import NetworkLeases
    from andon.leases.tracker import LeaseTracker

MOST = 1000
FURTHEST = 32_503_680_000.0
Named = Annotated[str, Path(max_length=300, description="the alert's id; in a URL, # is %23")]
Asked = Callable[[], "Watcher"]


def alert_routes(
    router: APIRouter,
    feed: SnapshotFeed,
    watcher: "Watcher | None",
    leases: "LeaseTracker | None" = None,
    remote_leases: "NetworkLeases | None" = None,
) -> None:
    """All of /api/alerts, /api/silences and /api/board."""

    def watching() -> "Watcher":
        if watcher is None:
            raise Unavailable("alerts are not available on this server", hint="start: andon serve")
        return watcher

    _reading(router, feed, watching)
    _board(router, feed, watching, leases, remote_leases)
    _changing(router, feed, watching)
    _silences(router, feed, watching)


def _reading(router: APIRouter, feed: SnapshotFeed, watching: Asked) -> None:
    @router.get("/api/alerts", tags=["explain"])
    def alerts(
        request: Request,
        state: Phase | None = None,
        level: Level | None = None,
        rule: Annotated[str | None, Query(max_length=100)] = None,
        device: Annotated[str | None, Query(max_length=200)] = None,
        since: Annotated[float | None, Query(ge=0, le=FURTHEST)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
    ) -> Response:
        """andon.alerts/1: firing and pending alerts, worst first, then resolved ones."""
        snapshot = feed.latest()
        subject = None if device is None else _subject(snapshot, device)
        wanted = Wanted(since, None, state, level, rule, subject, limit)
        found, note = _found(watching(), wanted)
        return _json(_listed(request, watching(), found, snapshot, note))

    @router.get("/api/alerts/rules", tags=["explain"])
    def rules() -> Response:
        """andon.rules/1: all alert rules, with the thresholds in effect here."""
        statuses = feed.latest().devices
        return _json(rules_to_json(watching().rulebook, statuses, watching().awake))

    @router.get("/api/alerts/rules/{name}", tags=["explain"])
    def rule(name: Annotated[str, Path(max_length=100)]) -> Response:
        """andon.rule/1: one condition in full, with the thresholds in effect here."""
        prefix, devices = feed.settings.exporter_prefix, feed.latest().devices
        here = RuleContext(watching().rulebook, devices, watching().awake, prefix)
        return _json(rule_to_json(condition_named(name), here))

    @router.get("/api/alerts/{alert}", tags=["explain"])
    def alert(request: Request, alert: Named) -> Response:
        """One alert, current or past."""
        return _json(_shown(request, watching().find(alert)))


def _board(
    router: APIRouter,
    feed: SnapshotFeed,
    watching: Asked,
    leases: "LeaseTracker | None",
    remote_leases: "NetworkLeases | None",
) -> None:
    @router.get("/api/board", tags=["explain"])
    def board(request: Request) -> Response:
        """andon.board/1: a lamp, the holders and the availability of each device; a headline."""
        snapshot, sight = feed.latest(), sight_in(request.scope)
        # The headline names a script only to who may see its command line.
        alerts = [seen_by(sight, alert) for alert in watching().alerts()]
        lit = lamps.board(snapshot, alerts)
        page = None if leases is None else leases.page()
        uuids = [status.device.uuid for status in snapshot.devices]
        held = {} if page is None else holders(page, uuids)
        note = None if leases is None else leases.why_not()
        verdicts = () if remote_leases is None else remote_leases.listed().devices
        return _json(board_to_json(lit, snapshot.node, held, note, verdicts, alerts))


def _changing(router: APIRouter, feed: SnapshotFeed, watching: Asked) -> None:
    @router.post("/api/alerts/test", tags=["explain"])
    def test(given: NotifierTestRequest) -> Response:
        """Send a test message; only for the server's owner and root."""
        outcomes = watching().test(given.notifier)
        results = [_outcome(name, error) for name, error in outcomes.items()]
        note = None if results else NO_NOTIFIER
        return _json({"results": results, "note": note})

    @router.post("/api/alerts/{alert}/acknowledge", tags=["explain"])
    def acknowledge(request: Request, alert: Named, given: AcknowledgeRequest) -> Response:
        """Acknowledge: no more notifications unless it gets worse; needs a key."""
        who = caller_of(request.scope)
        by, earlier = signature(who, given.by), watching().find(alert).acknowledged
        if earlier is not None and who.role is Role.USER and earlier.by != by:
            raise Conflict(
                f"this alert is already acknowledged by {earlier.by or 'another'}",
                hint=f"ask {earlier.by or 'root'}, or root",
            )
        return _json(_shown(request, watching().acknowledge(alert, by, given.note)))

    @router.delete("/api/alerts/{alert}/acknowledge", tags=["explain"])
    def unacknowledge(request: Request, alert: Named) -> Response:
        """Remove the acknowledgement; needs a key. A user removes only their own."""
        found = watching().find(alert).acknowledged
        _refuse(request, Action.UNACKNOWLEDGE, "" if found is None else found.by)
        return _json(_shown(request, watching().unacknowledge(alert)))


def _silences(router: APIRouter, feed: SnapshotFeed, watching: Asked) -> None:
    @router.get("/api/silences", tags=["explain"])
    def silences() -> Response:
        """The active silences, and when they end."""
        return _json({"silences": [silence_to_json(one) for one in watching().silences()]})

    @router.post("/api/silences", tags=["explain"])
    def silence(request: Request, given: SilenceRequest) -> Response:
        """Silence notifications for a while; needs a key."""
        who = caller_of(request.scope)
        made = replace(_silence(given, feed.latest()), by=signature(who, given.by))
        refused = check_silence(who, given.seconds, (made.rule or made.subject) is not None)
        if refused is not None:
            raise refused
        kept = watching().silence(made)
        where = "" if kept.subject is None else f"@{kept.subject}"
        what = f"{kept.id} {kept.rule or 'everything'}{where}"
        add_notes(request.scope, silence=what, seconds=given.seconds)
        return _json(silence_to_json(kept))

    @router.delete("/api/silences/{silence}", tags=["explain"])
    def unsilence(request: Request, silence: Annotated[str, Path(max_length=100)]) -> Response:
        """End a silence; needs a key. A user ends only their own."""
        for one in watching().silences():
            if one.id == silence:
                _refuse(request, Action.UNSILENCE, one.by)
        watching().unsilence(silence)
        return _json({"ended": True})


def _found(watcher: "Watcher", wanted: Wanted) -> tuple[list[Alert], str | None]:
    """Returns current alerts from memory and past ones from the store, if it can be read."""
    now = [alert for alert in watcher.alerts() if matches(wanted, alert)]
    room = wanted.limit - len(now)
    if wanted.state not in (None, Phase.RESOLVED) or room <= 0:
        return now[: wanted.limit], None
    ids = {alert.id for alert in now}
    try:
        past = watcher.past(
            Wanted(
                wanted.since, None, Phase.RESOLVED, wanted.level, wanted.rule, wanted.subject, room
            )
        )
    except AndonError as error:
        return now, f"past alerts cannot be read: {error.reason}"
    return now + [alert for alert in past if alert.id not in ids], None


def _subject(snapshot: Snapshot, device: str) -> str:
    """Returns the subject: a present device, a removed one, or node, store, sampler."""
    try:
        return device_named(device, snapshot.devices).device.uuid
    except Gone:
        if device.isdecimal():
            raise
        return device


def _listed(
    request: Request, watcher: "Watcher", found: list[Alert], snapshot: Snapshot, note: str | None
) -> wire.Json:
    shown = [seen_by(sight_in(request.scope), alert) for alert in found]
    at = time.time()
    listed = alerts_to_json(
        shown, watcher.silences(), snapshot.node, at, snapshot.simulated, worst=listing.worst(found)
    )
    return {**listed, **entries_to_json(shown), "note": note}


def _shown(request: Request, alert: Alert) -> wire.Json:
    return alert_to_json(seen_by(sight_in(request.scope), alert))


def _outcome(name: str, error: AndonError | None) -> wire.Json:
    return {
        "notifier": name,
        "ok": error is None,
        "reason": None if error is None else error.reason,
        "hint": (error.hint or None) if error is not None else None,
    }


def _silence(given: SilenceRequest, snapshot: Snapshot) -> Silence:
    if given.device is not None and given.subject is not None:
        raise Invalid("device and subject cannot be combined", hint="give only one of them")
    subject = given.subject
    if given.device is not None:
        subject = device_named(str(given.device), snapshot.devices).device.uuid
    at = time.time()
    return Silence(
        id=secrets.token_hex(4),
        until=at + given.seconds,
        rule=given.rule,
        subject=subject,
        by=given.by,
        note=given.note,
        since=at,
    )


def _refuse(request: Request, action: Action, by: str) -> None:
    """Raises Denied unless the caller may change what the user `by` has done."""
    who = caller_of(request.scope)
    refused = refusal_for(who, action, bool(by) and by == who.user, by)
    if refused is not None:
        raise refused


def _json(value: wire.Json) -> Response:
    return Response(dumped(value), media_type="application/json")
