"""REST for alerts: active and past alerts, rules, acknowledgements and silences."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from andon.alerts.rules import lamps
from andon.alerts.rules.past import Query as Wanted
from andon.model.alert import Alert, Level, Phase
from andon.model.codec import document, to_json
from andon.node.watched.alerts import MOST_ALERTS
from andon.web.answers.alert_payloads import alert_page, shown_board
from andon.web.answers.requests import (
    AcknowledgeRequest,
    NotifierTestRequest,
    SilenceRequest,
)
from andon.web.routes.picked import Picked
from andon.web.routes.responses import sent_json
from andon.web.transport.auth import add_notes

FURTHEST = 32_503_680_000.0
Named = Annotated[str, Path(max_length=300, description="the alert's id; in a URL, # is %23")]


def alert_routes(router: APIRouter) -> None:
    """All of /api/alerts, /api/silences and /api/board."""
    _reading(router)
    _board(router)
    _changing(router)
    _silences(router)


def _reading(router: APIRouter) -> None:
    @router.get("/api/alerts", tags=["explain"])
    def alerts(
        node: Picked,
        state: Phase | None = None,
        level: Level | None = None,
        rule: Annotated[str | None, Query(max_length=100)] = None,
        device: Annotated[str | None, Query(max_length=200)] = None,
        since: Annotated[float | None, Query(ge=0, le=FURTHEST)] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_ALERTS)] = 100,
    ) -> Response:
        """andon.alerts/1: firing and pending alerts, worst first, then resolved ones."""
        wanted = Wanted(since, None, state, level, rule, None, limit)
        found = node.alerts.page(None, () if device is None else (device,), wanted)
        return sent_json(document(alert_page(found)))

    @router.get("/api/alerts/rules", tags=["explain"])
    def rules(node: Picked) -> Response:
        """andon.rules/1: all alert rules, with the thresholds in effect here."""
        return sent_json(node.alerts.rules())

    @router.get("/api/alerts/rules/{name}", tags=["explain"])
    def rule(node: Picked, name: Annotated[str, Path(max_length=100)]) -> Response:
        """andon.rule/1: one condition in full, with the thresholds in effect here."""
        return sent_json(node.alerts.rule(name))

    @router.get("/api/alerts/{alert}", tags=["explain"])
    def alert(node: Picked, alert: Named) -> Response:
        """One alert, current or past."""
        return _alert(node.alerts.alert(alert))


def _board(router: APIRouter) -> None:
    @router.get("/api/board", tags=["explain"])
    def board(node: Picked) -> Response:
        """andon.board/1: a lamp, the holders and the availability of each device; a headline."""
        # The headline names a script only to who may see its command line.
        snapshot, alerts = node.live.latest(), node.alerts.current()
        held, note = node.leases.holders(snapshot)
        verdicts, lit = node.leases.verdicts(snapshot), lamps.board(snapshot, alerts)
        return sent_json(document(shown_board(lit, snapshot.node, held, note, verdicts, alerts)))


def _changing(router: APIRouter) -> None:
    @router.post("/api/alerts/test", tags=["explain"])
    def test(node: Picked, given: NotifierTestRequest) -> Response:
        """Send a test message; only for the server's owner and root."""
        return sent_json(dict(node.alerts.test(given.notifier)))

    @router.post("/api/alerts/{alert}/acknowledge", tags=["explain"])
    def acknowledge(node: Picked, alert: Named, given: AcknowledgeRequest) -> Response:
        """Acknowledge: no more notifications unless it gets worse; needs a key."""
        return _alert(node.alerts.acknowledge(alert, given.by, given.note))

    @router.delete("/api/alerts/{alert}/acknowledge", tags=["explain"])
    def unacknowledge(node: Picked, alert: Named) -> Response:
        """Remove the acknowledgement; needs a key. A user removes only their own."""
        return _alert(node.alerts.unacknowledge(alert))


def _silences(router: APIRouter) -> None:
    @router.get("/api/silences", tags=["explain"])
    def silences(node: Picked) -> Response:
        """The active silences, and when they end."""
        return sent_json({"silences": to_json(node.alerts.silences())})

    @router.post("/api/silences", tags=["explain"])
    def silence(request: Request, node: Picked, given: SilenceRequest) -> Response:
        """Silence notifications for a while; needs a key."""
        added = node.alerts.silence(dict(given))
        where = "" if added.subject is None else f"@{added.subject}"
        what = f"{added.id} {added.rule or 'everything'}{where}"
        add_notes(request.scope, silence=what, seconds=given.seconds)
        return sent_json(to_json(added))

    @router.delete("/api/silences/{silence}", tags=["explain"])
    def unsilence(node: Picked, silence: Annotated[str, Path(max_length=100)]) -> Response:
        """End a silence; needs a key. A user ends only their own."""
        node.alerts.unsilence(silence)
        return sent_json({"ended": True})


def _alert(alert: Alert) -> Response:
    return sent_json(to_json(alert))
