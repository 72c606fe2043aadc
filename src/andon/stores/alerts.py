"""Alerts, pending notifications and past alerts: three small tables beside the history."""

import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from andon.alerts.rules.outbox import Delivery, SavedAlerts
from andon.alerts.rules.past import (
    MOST_BYTES,
    MOST_EPISODES,
    RETENTION_SECONDS,
    Query,
    is_stored,
    trimmed,
)
from andon.errors import Invalid
from andon.model.alert import Alert, Notice, Phase
from andon.model.codec import read_valid, to_json
from andon.stores.session import Database, TableSession

log = logging.getLogger("andon.history")
Row = tuple[Any, ...]
T = TypeVar("T")


class AlertTables:
    """Part of a history's database, with its own connections."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> SavedAlerts | None:
        with self._database.reading() as session:
            found = session.run("get_state", (session.node,)).fetchone()
            rows = session.run("outbox", (session.node,)).fetchall()
        if found is None:
            return None
        state = next(_readable([found], _state), {})
        return SavedAlerts(state, tuple(_readable(rows, _delivery)))

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], deliveries: Sequence[Delivery]
    ) -> None:
        with self._database.transaction() as session:
            node = session.node
            session.put("put_state", (node, _text(state)))
            stored = [(node, *_row(alert)) for alert in changed if is_stored(alert)]
            session.many("put_episode", stored)
            known = {(row[0], row[1]) for row in session.run("outbox", (node,))}
            pending = {delivery.key: delivery for delivery in deliveries}
            gone = [(node, *key) for key in known - pending.keys()]
            session.many("drop_outbox", gone)
            new = [(node, *_delivery_row(e)) for key, e in pending.items() if key not in known]
            session.many("put_outbox", new)

    def episodes(self, query: Query) -> Sequence[Alert]:
        parameters = {
            "since": query.since,
            "until": query.until,
            "state": query.state,
            "level": query.level,
            "rule": query.rule,
            "subject": query.subject,
            "limit": query.limit,
        }
        with self._database.reading() as session:
            parameters["node"] = session.node
            rows = session.run("episodes", parameters).fetchall()
        return list(_readable(rows, lambda row: read_valid(Alert, json.loads(row[0]))))

    def prune(self, at: float) -> int:
        with self._database.transaction() as session:
            node = session.node
            gone: int = session.run("old_episodes", (node, at - RETENTION_SECONDS)).rowcount
            excess = list(_excess(session))
            session.many("drop_episode", excess)
        return gone + len(excess)

    def close(self) -> None:
        self._database.close()


def _readable(rows: Iterable[Row], read: Callable[[Row], T]) -> Iterator[T]:
    """Yields what can be read from the rows; damaged ones are left out."""
    for row in rows:
        try:
            yield read(row)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Invalid) as exc:
            log.warning("a stored alert is damaged and left out: %s", str(exc)[:200])


def _state(row: Row) -> Mapping[str, Any]:
    found = json.loads(row[0])
    if not isinstance(found, dict):
        raise TypeError("not an object")
    return found


def _excess(session: TableSession) -> Iterator[tuple[int, str]]:
    """Yields the oldest ones beyond the maximum number or size."""
    weight = 0
    found = session.run("weigh_episodes", (session.node,)).fetchall()
    for number, (name, length) in enumerate(found):
        weight += length
        if number >= MOST_EPISODES or weight > MOST_BYTES:
            yield session.node, name


def _row(alert: Alert) -> tuple[object, ...]:
    ended = alert.resolved if alert.state is Phase.RESOLVED else None
    body = _text(to_json(trimmed(alert)))
    return (
        alert.id, alert.rule, alert.subject, alert.level, alert.state, alert.since, ended,
        len(body), body,
    )  # fmt: skip


def _delivery_row(delivery: Delivery) -> tuple[object, ...]:
    body = _text(to_json(delivery.notice))
    return (*delivery.key, delivery.due, body)


def _delivery(row: Row) -> Delivery:
    _, notifier, due, body = row
    if not isinstance(notifier, str) or not math.isfinite(due):
        raise TypeError("not a delivery")
    return Delivery(read_valid(Notice, json.loads(body)), notifier, due)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
