"""Sends alerts to Prometheus Alertmanager (API v2), repeatedly while they fire."""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from andon.alerts.rules.messages import MessageContext, without_secrets
from andon.alerts.rules.outbox import node_of
from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.model.alert import Alert, Notice, NoticeKind
from andon.model.redaction import redact
from andon.settings.alerts import NotifierSettings
from andon.units import iso

REFRESH_SECONDS = 60.0
EXPIRES_SECONDS = 4 * REFRESH_SECONDS
"""If andon dies, Alertmanager resolves after this; Prometheus also allows four intervals."""
RESOLVED_SECONDS = 300.0  # repeated, because a lost resolved notice would leave the alert active
TEST_SECONDS = 60.0
ANSWER_BYTES = 400

Labels = tuple[tuple[str, str], ...]


class Alertmanager:
    """Sends firing alerts with an end time in the near future, and repeats them before that."""

    refresh_seconds = REFRESH_SECONDS

    def __init__(
        self,
        settings: NotifierSettings,
        context: MessageContext,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        try:
            parts = urlsplit(settings.url)
            port = parts.port
        except ValueError as exc:  # its text may quote the URL
            raise Invalid(f"notifier {settings.name}: its URL is malformed") from exc
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(
                f"notifier {settings.name}: an Alertmanager URL starts with http:// or https://"
            )
        self.name = settings.name
        self._context, self._timeout_seconds = context, settings.timeout_seconds
        self._host, self._secure = parts.hostname, parts.scheme == "https"
        self._port, self._path = port, f"{parts.path.rstrip('/')}/api/v2/alerts"
        self._headers = {"Content-Type": "application/json", **_authorization(parts)}
        self._simulated = context.simulated
        self._sent: dict[Labels, dict[str, Any]] = {}
        self._over: dict[Labels, tuple[dict[str, Any], float]] = {}

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        at = self._clock()
        self._simulated = self._simulated or any(notice.simulated for notice in notices)
        present = {self._labels(a): self._present(a, at) for a in self._firing(notices, firing)}
        over = {**self._over, **self._ended(notices, present, at)}
        over = {k: (p, u) for k, (p, u) in over.items() if u > at and k not in present}
        payload = [*present.values(), *(body for body, _ in over.values())]
        payload += [self._test(n, at) for n in notices if n.kind is NoticeKind.TEST]
        if payload:
            self._post(payload)
        self._sent, self._over = present, over

    def close(self) -> None:
        """Does nothing: every call ends within its timeout."""

    @staticmethod
    def _firing(notices: Sequence[Notice], firing: Sequence[Alert]) -> Iterator[Alert]:
        """Yields the alerts of new notices first, then known ones that have not ended."""
        for notice in notices:
            if notice.kind not in (NoticeKind.RESOLVED, NoticeKind.TEST):
                yield notice.alert
        over = {n.alert.id for n in notices if n.kind is NoticeKind.RESOLVED}
        yield from (alert for alert in firing if alert.id not in over)

    def _ended(
        self, notices: Sequence[Notice], present: dict[Labels, dict[str, Any]], at: float
    ) -> dict[Labels, tuple[dict[str, Any], float]]:
        """Resolved alerts, and those no longer sent: a higher level has other labels."""
        until = at + RESOLVED_SECONDS
        dropped = {k: body for k, body in self._sent.items() if k not in present}
        ended = {k: ({**body, "endsAt": iso(at)}, until) for k, body in dropped.items()}
        for notice in notices:
            if notice.kind is NoticeKind.RESOLVED:
                alert = notice.alert
                end = notice.at if alert.resolved is None else alert.resolved
                ended_at = max(min(end, at), min(_start(alert), at))
                body = {**self._present(alert, at), "endsAt": iso(ended_at)}
                ended[self._labels(alert)] = body, until
        return ended

    def _present(self, alert: Alert, at: float) -> dict[str, Any]:
        return {
            "labels": dict(self._labels(alert)),
            "annotations": self._annotations(alert),
            "startsAt": iso(min(_start(alert), at)),
            "endsAt": iso(at + EXPIRES_SECONDS),
            **self._generator(),
        }

    def _labels(self, alert: Alert) -> Labels:
        """The identity of an alert, without values: another value would be another alert."""
        parts = alert.rule.replace("-", "_").split("_")
        labels = {
            "alertname": "Andon" + "".join(word.capitalize() for word in parts),
            "severity": str(alert.level),
            "node": node_of(alert.id) or self._context.node,
            "rule": alert.rule,
            "source": "andon",
        }
        if alert.device is None:
            labels["subject"] = alert.subject
        else:
            labels |= {"device": str(alert.device), "uuid": alert.subject}
        if self._simulated:
            labels["simulated"] = "true"
        return tuple(sorted(labels.items()))

    def _annotations(self, alert: Alert) -> dict[str, str]:
        notice = Notice(
            "", NoticeKind.FIRING, alert, alert.since, self._context.node, self._simulated
        )
        alert = without_secrets(notice).alert
        who = [
            f"{p.user or '?'}: {p.command or p.name or 'a process'} (pid {p.pid})"
            for p in alert.affected
        ]
        texts = {
            "summary": ("SIMULATED " if self._simulated else "") + alert.message,
            "description": alert.advice,
            "where": alert.where,
            "affected": "; ".join(who),
            "alert": alert.id,
            "acknowledged_by": alert.acknowledged.by if alert.acknowledged else "",
            "no_data": "yes" if alert.no_data_since is not None else "",
        }
        return {name: text for name, text in texts.items() if text}

    def _test(self, notice: Notice, at: float) -> dict[str, Any]:
        return {
            "labels": {"alertname": "AndonTest", "severity": "info", "node": self._context.node,
                       "source": "andon"},
            "annotations": {"summary": notice.alert.message},
            "startsAt": iso(at),
            "endsAt": iso(at + TEST_SECONDS),
            **self._generator(),
        }  # fmt: skip

    def _generator(self) -> dict[str, str]:
        return {"generatorURL": self._context.board_url} if self._context.board_url else {}

    def _post(self, payload: Sequence[dict[str, Any]]) -> None:
        connection = self._connection()
        try:
            connection.request("POST", self._path, json.dumps(payload), self._headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read(ANSWER_BYTES)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise Unavailable(
                f"Alertmanager at {self._host} cannot be reached: {exc}",
                hint="check its address, and that it is running",
            ) from exc
        finally:
            connection.close()
        if status not in (200, 202):
            raise _refused(self._host, status, body)

    def _connection(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        return http.client.HTTPSConnection(
            self._host,
            self._port,
            timeout=self._timeout_seconds,
            context=ssl.create_default_context(),
        )


def _refused(host: str, status: int, body: bytes) -> AndonError:
    text = redact(body.decode("utf-8", "replace").split())
    reason = f"Alertmanager at {host} answered {status}: {text}".rstrip(": ")
    if status in (401, 403):
        return Denied(reason, hint="put the user name and password into the URL")
    return Unavailable(reason, hint="check the URL, including any path before /api/v2")


def _authorization(parts: Any) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"}


def _start(alert: Alert) -> float:
    """Returns the start of an alert, by a clock that may have been set back since: Alertmanager
    refuses an end before the start."""
    return alert.since if alert.fired is None else alert.fired
