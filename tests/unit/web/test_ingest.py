"""The door of a hub: what it refuses, counts and logs, and what has to wait."""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from andon.errors import Unavailable
from andon.fleet.link import HEARTBEAT, PAST
from andon.fleet.rules.digest import Digest, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, heartbeat_body
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.web.fleet.hub import Hub
from andon.web.fleet.ingest import BATCH_SECONDS, MOST_PASTS, Ingest

TOKEN = "t" * 43


def token_of(node: str) -> str:
    return TOKEN if node == "n17" else f"{node}-token"


NODES = [
    FleetNode(name, hashlib.sha256(token_of(name).encode()).hexdigest(), 0.0)
    for name in (f"n{number}" for number in range(17, 37))
]


class Nodes:
    """A store of some nodes, which keeps what it takes in groups; may be away."""

    def __init__(self) -> None:
        self.groups: list[Sequence[Heartbeat]] = []
        self.away = self.broken = False
        self.slow = threading.Event()
        self.slow.set()

    def nodes(self) -> list[FleetNode]:
        return NODES

    def take(self, heartbeats: Sequence[Heartbeat]) -> Sequence[Heartbeat]:
        if self.away:
            raise Unavailable("the database is away")
        if self.broken:
            raise ValueError("nobody expected this")
        self.groups.append(heartbeats)
        self.slow.wait(30)
        return heartbeats


def beat(sequence: int, node: str = "n17") -> bytes:
    digest = encoded(Digest(node, "m", "1.0"))
    return heartbeat_body(HeartbeatHeader("s", sequence, 1.0), digest, b"", b"")


async def posted(app: Ingest, path: str, body: bytes, token: str = TOKEN) -> int:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    headers.append((b"content-length", str(len(body)).encode()))
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({**scope, "client": ("10.0.0.7", 1)}, receive, send)  # type: ignore[arg-type]
    return int(sent[0]["status"])


async def nobody(*_: object) -> None:
    raise AssertionError("passed on")


def made(
    nodes: Nodes, take_past: Any = lambda *_: None, batch_seconds: float = BATCH_SECONDS
) -> tuple[Ingest, Hub]:
    hub = Hub(lambda: nodes)  # type: ignore[arg-type,return-value]
    hub.nodes()
    return Ingest(nobody, hub, take_past, batch_seconds), hub


def test_what_comes_together_is_committed_together() -> None:
    nodes = Nodes()
    app, _ = made(nodes)

    async def many() -> list[int]:
        names = [f"n{number}" for number in range(17, 22)]
        sent = (posted(app, HEARTBEAT, beat(1, name), token_of(name)) for name in names)
        return await asyncio.gather(*sent)

    assert asyncio.run(many()) == [200] * 5
    assert [len(group) for group in nodes.groups] == [5]


def test_a_slow_commit_makes_the_next_one_larger() -> None:
    nodes = Nodes()
    app, _ = made(nodes, batch_seconds=0.001)

    async def many() -> None:
        waiting = list[asyncio.Task[int]]()
        nodes.slow.clear()
        for name in (f"n{number}" for number in range(17, 22)):
            sent = posted(app, HEARTBEAT, beat(1, name), token_of(name))
            waiting.append(asyncio.create_task(sent))
            await asyncio.sleep(0.02)  # its time to be committed has come
        nodes.slow.set()
        assert [await one for one in waiting] == [200] * 5

    asyncio.run(many())
    assert [len(group) for group in nodes.groups] == [1, 4]


@pytest.mark.slow
def test_refusals_are_counted_by_kind_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    app, hub = made(nodes)

    async def bad() -> None:
        for _ in range(3):
            assert await posted(app, HEARTBEAT, b"nonsense") == 422
            assert await posted(app, HEARTBEAT, beat(1), "wrong") == 401
        nodes.away = True
        for _ in range(3):
            assert await posted(app, HEARTBEAT, beat(1)) == 503
        nodes.away = False
        assert await posted(app, HEARTBEAT, beat(1)) == 200

    with caplog.at_level(logging.WARNING, "andon.hub"):
        asyncio.run(bad())
    assert hub.refused == {"invalid": 3, "token": 3, "store": 3}
    logged = [one.getMessage() for one in caplog.records]
    assert len(logged) == 3
    assert logged[0] == "refused 1 heartbeats from 10.0.0.7: not a heartbeat"


def test_pasts_of_many_nodes_come_one_after_the_other() -> None:
    """Who would wait for long is asked to come again; reports are taken meanwhile."""
    go = threading.Event()
    app, hub = made(Nodes(), lambda *_: go.wait(30))

    async def many() -> list[int]:
        names = [f"n{number}" for number in range(17, 17 + MOST_PASTS + 2)]
        sent = [posted(app, PAST, b"part", token_of(name)) for name in names]
        waiting = [asyncio.create_task(one) for one in sent]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert await posted(app, HEARTBEAT, beat(1)) == 200
        go.set()
        return [await one for one in waiting]

    assert asyncio.run(many()) == [200] * MOST_PASTS + [503] * 2
    assert not hub.refused
    assert asyncio.run(posted(app, PAST, b"part")) == 200


def test_a_report_that_was_acknowledged_is_listed() -> None:
    app, hub = made(Nodes())
    assert hub.row("n17").age_seconds is None
    assert asyncio.run(posted(app, HEARTBEAT, beat(1))) == 200
    assert hub.row("n17").age_seconds is not None


def test_an_error_that_nobody_expected_is_answered_as_well() -> None:
    nodes = Nodes()
    app, hub = made(nodes)
    nodes.broken = True

    async def answered() -> int:
        return await asyncio.wait_for(posted(app, HEARTBEAT, beat(1)), 20)

    assert asyncio.run(answered()) == 503
    assert "ValueError" in str(hub.trouble)


def test_one_report_of_a_node_waits_at_a_time() -> None:
    nodes = Nodes()
    app, hub = made(nodes)

    async def many() -> list[int]:
        return await asyncio.gather(*(posted(app, HEARTBEAT, beat(n)) for n in range(1, 41)))

    assert sorted(asyncio.run(many())) == [200] + [429] * 39
    assert [len(group) for group in nodes.groups] == [1]
    assert hub.refused == {"too_many": 39}


def test_one_node_takes_one_place_for_its_past() -> None:
    go = threading.Event()
    app, _ = made(Nodes(), lambda *_: go.wait(30))

    async def many() -> tuple[list[int], int]:
        flood = [asyncio.create_task(posted(app, PAST, b"part")) for _ in range(20)]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        other = asyncio.create_task(posted(app, PAST, b"part", token_of("n18")))
        await asyncio.sleep(0)
        go.set()
        return [await one for one in flood], await other

    flood, other = asyncio.run(many())
    assert (sorted(flood), other) == ([200] + [503] * 19, 200)


def test_who_was_asked_to_come_again_goes_before_who_was_not() -> None:
    go = threading.Event()
    app, _ = made(Nodes(), lambda *_: go.wait(30))
    full = [f"n{number}" for number in range(18, 18 + MOST_PASTS)]

    async def many() -> list[int]:
        waiting = {n: asyncio.create_task(posted(app, PAST, b"p", token_of(n))) for n in full}
        await asyncio.sleep(0.01)
        assert await posted(app, PAST, b"part") == 503
        go.set()
        assert [await one for one in waiting.values()] == [200] * MOST_PASTS
        go.clear()
        again = {n: asyncio.create_task(posted(app, PAST, b"p", token_of(n))) for n in full}
        await asyncio.wait(again.values(), return_when=asyncio.FIRST_COMPLETED)
        honest = asyncio.create_task(posted(app, PAST, b"part"))
        await asyncio.sleep(0.01)
        go.set()
        return [sorted([await one for one in again.values()])[-1], await honest]

    assert asyncio.run(many()) == [503, 200]


def test_the_past_of_a_node_waits_while_reports_of_others_do() -> None:
    nodes, taken = Nodes(), list[str]()
    app, _ = made(nodes, lambda name, *_: taken.append(name), batch_seconds=0.0)
    nodes.slow.clear()

    async def both() -> list[str]:
        live = asyncio.ensure_future(posted(app, HEARTBEAT, beat(1)))
        while not nodes.groups and not live.done():
            await asyncio.sleep(0)
        past = asyncio.ensure_future(posted(app, PAST, b"x", token_of("n18")))
        await asyncio.wait({past}, timeout=1.0)  # one that is asked to come again is answered
        before = [*taken]
        nodes.slow.set()
        assert (await live, await past in (200, 503)) == (200, True)
        return before

    assert asyncio.run(both()) == []
