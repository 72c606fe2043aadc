"""A noisy year of alerts in the real file: it stays small, and the newest are there."""

import os
from pathlib import Path

from msgspec.structs import replace

from andon.alerts.rules.outbox import Delivery
from andon.alerts.rules.past import Query
from andon.model.alert import Alert, Notice, NoticeKind, Phase
from andon.model.codec import to_json
from andon.model.event import Party
from andon.stores.sqlite_alerts import SqliteAlertStore
from tests.support.notices import AT, HOT

DAYS = 365 if os.environ.get("CI") == "true" else 120  # full after fifty
A_DAY = 60
MOST_BYTES = 10_000_000
CROWD = tuple(Party(n, f"user{n}", "python", f"python train.py {'x' * 4000}") for n in range(40))


def episode(day: int, number: int) -> Alert:
    since = AT + 86_400.0 * day + number
    name = f"device_lost@GPU-{number % 64:08x}-1111-2222-3333-444455556666#{since:.0f}"
    return replace(
        HOT, id=name, since=since, fired=since + 60, resolved=since + 600,
        state=Phase.RESOLVED, affected=CROWD,
    )  # fmt: skip


def test_a_noisy_year_takes_less_than_10_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    ledger = SqliteAlertStore(path)
    empty = path.stat().st_size
    state = {"alerting": [to_json(replace(HOT, id=str(n))) for n in range(64 * 4)]}
    for day in range(DAYS):
        alerts = [episode(day, number) for number in range(A_DAY)]
        delivery = Delivery(Notice(str(day), NoticeKind.FIRING, alerts[0], AT), "phone", AT)
        ledger.save(state if day % 30 == 0 else {}, alerts, [delivery])
        ledger.save({}, (), ())
        ledger.prune(AT + 86_400.0 * (day + 1))
    ledger.save(state, (), ())
    newest = ledger.episodes(Query(limit=1))
    kept = len(ledger.episodes(Query(limit=1_000_000)))
    ledger.close()
    grown = sum(part.stat().st_size for part in tmp_path.iterdir()) - empty
    print(f"{DAYS * A_DAY} episodes in a year, {kept} kept, {grown / 1e6:.2f} MB")
    assert grown <= MOST_BYTES
    assert newest[0].id == episode(DAYS - 1, A_DAY - 1).id
    assert kept > 1000
