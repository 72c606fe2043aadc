"""What is wrong, what is still to be told and what was: three small tables beside the history."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from andon.core.alerting.past import (
    KEPT_SECONDS,
    MOST_BYTES,
    MOST_EPISODES,
    Query,
    is_kept,
    trimmed,
)
from andon.core.notifying.outbox import Errand, Saved
from andon.errors import Invalid, Unavailable
from andon.model import alert_wire
from andon.model.alert import Alert, Phase
from andon.stores.sqlite_database import Database
from andon.stores.statements import statements

SQL = statements("sqlite")


class SqliteAlertStore:
    """A part of the history's file, with connections of its own."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)

    def load(self) -> Saved | None:
        with self._database.looking() as connection:
            found = connection.execute(SQL["get_state"]).fetchone()
            rows = connection.execute(SQL["outbox"]).fetchall()
        if found is None:
            return None
        try:
            return Saved(json.loads(found[0]), tuple(_errand(row) for row in rows))
        except (ValueError, KeyError, TypeError, Invalid) as exc:
            raise Unavailable(f"what was kept of the alerts cannot be read: {exc}") from exc

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], errands: Sequence[Errand]
    ) -> None:
        with self._database.transaction() as connection:
            connection.execute(SQL["put_state"], (_text(state),))
            connection.executemany(SQL["put_episode"], [_row(a) for a in changed if is_kept(a)])
            known = {(row[0], row[1]) for row in connection.execute(SQL["outbox"])}
            wanted = {errand.key: errand for errand in errands}
            connection.executemany(SQL["drop_outbox"], known - wanted.keys())
            new = [_errand_row(e) for key, e in wanted.items() if key not in known]
            connection.executemany(SQL["put_outbox"], new)

    def episodes(self, query: Query) -> Sequence[Alert]:
        asked = {
            "since": query.since,
            "until": query.until,
            "state": query.state,
            "level": query.level,
            "rule": query.rule,
            "subject": query.subject,
            "limit": query.limit,
        }
        with self._database.looking() as connection:
            rows = connection.execute(SQL["episodes"], asked).fetchall()
        return [alert_wire.alert_from_json(json.loads(body)) for (body,) in rows]

    def prune(self, at: float) -> int:
        with self._database.transaction() as connection:
            gone = connection.execute(SQL["old_episodes"], (at - KEPT_SECONDS,)).rowcount
            excess = list(_excess(connection))
            connection.executemany(SQL["drop_episode"], excess)
        return gone + len(excess)

    def close(self) -> None:
        self._database.close()


def _excess(connection: sqlite3.Connection) -> Iterator[tuple[str]]:
    """The oldest, where there are too many or they are too large."""
    weight = 0
    for number, (name, length) in enumerate(connection.execute(SQL["weigh_episodes"]).fetchall()):
        weight += length
        if number >= MOST_EPISODES or weight > MOST_BYTES:
            yield (name,)


def _row(alert: Alert) -> tuple[object, ...]:
    ended = alert.resolved if alert.state is Phase.RESOLVED else None
    body = _text(alert_wire.alert_to_json(trimmed(alert)))
    return (
        alert.id, alert.rule, alert.subject, alert.level, alert.state, alert.since, ended,
        len(body), body,
    )  # fmt: skip


def _errand_row(errand: Errand) -> tuple[object, ...]:
    body = _text(alert_wire.notice_to_json(errand.notice))
    return (*errand.key, errand.due, body)


def _errand(row: tuple[str, str, float, str]) -> Errand:
    _, notifier, due, body = row
    return Errand(alert_wire.notice_from_json(json.loads(body)), notifier, due)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
