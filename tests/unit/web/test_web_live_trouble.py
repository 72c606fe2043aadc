"""What fails in one live connection costs the others nothing, and is counted and reported."""

import asyncio
from typing import NoReturn

import pytest
from msgspec.structs import replace

from andon.access.lockout import Lockout
from andon.model.device import Snapshot
from andon.settings.resolution import Settings
from andon.web.answers.payloads import busy_uuids
from andon.web.history_reader import HistoryReader
from andon.web.live.events import Live
from andon.web.live.job_watch import JobWatch
from andon.web.live.run_watch import RunWatch
from tests.support import snapshots as drawn
from tests.support.live_parts import (
    POLLING,
    Play,
    WebSocket,
    browser,
    handshake,
    health,
    live_of,
    play,
    without_routes,
)
from tests.support.replaced import answers
from tests.support.web_parts import Parts

__all__ = ["play", "without_routes"]
pytestmark = pytest.mark.usefixtures("without_routes")


def made(kind: type[Live], parts: Parts) -> Live:
    reader = HistoryReader()
    watches = [JobWatch(reader), RunWatch(reader)]
    return kind(parts.node, parts.keys, Lockout(), Settings(), watches)


def test_a_client_that_cannot_be_dropped_costs_the_others_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(parts: Parts) -> None:
        class Stubborn(Live):
            async def _drop(self, connection: str) -> None:
                ended.append(connection)
                if len(ended) == 1:
                    raise AttributeError("'str' object has no attribute 'cut'")
                await super()._drop(connection)

        live, ended = made(Stubborn, parts), list[str]()
        async with browser(live.over(parts.app)) as polling:
            names = [(await handshake(polling)).partition("sid=")[2] for _ in range(3)]
        answers(monkeypatch, live._server, "slow", names)
        await live._drop_the_slow()
        assert ended == names
        assert live.health()["errors"] == 1
        assert live.health()["state"] == "degraded"
        assert len(live._visitors) == 1

    play(script)


def test_one_kind_of_update_that_fails_leaves_the_others_and_is_told(play: Play) -> None:
    async def script(parts: Parts) -> None:
        published = asyncio.Event()

        class Failing(Live):
            async def _publish_alerts(self) -> None:
                raise RuntimeError("of this test")

            _drop_the_slow = _publish_alerts

            async def _publish(self, snapshot: Snapshot) -> None:
                published.set()

        live = made(Failing, parts)
        assert live._visitors.admit("127.0.0.1") is not None
        async with live.run():
            parts.sampler.give(drawn.farm())
            await published.wait()
        assert live.health()["state"] == "degraded"
        assert "slow" in live.health()["reason"]

    play(script)


def test_the_event_loop_is_not_woken_while_nobody_is_connected(play: Play) -> None:
    async def script(parts: Parts) -> None:
        class Noting(Live):
            def _arrived(self, snapshot: Snapshot) -> None:
                taken.append(snapshot)

        live, taken = made(Noting, parts), list[Snapshot]()
        async with live.run():
            parts.live._take(drawn.farm())
            await asyncio.sleep(0)
            assert taken == []
            assert live._visitors.admit("127.0.0.1") is not None
            shown = replace(drawn.farm(), at=drawn.farm().at + 1)
            parts.live._take(shown)
            await asyncio.sleep(0)
            assert taken == [shown]
            await live._publish(shown)
            assert live._busy == busy_uuids(shown)

    play(script)


def test_an_error_in_a_packets_handler_is_counted_and_the_client_stays(play: Play) -> None:
    class Failing(Live):
        def _summary(self, snapshot: Snapshot) -> NoReturn:
            raise RuntimeError("of this test")

    async def script(parts: Parts) -> None:
        live = made(Failing, parts)
        client = WebSocket(live.over(parts.app))
        await client.joined()
        client.send('42["request_gpu_update"]')
        client.send('427["subscribe","snapshot"]')
        await client.heard("437")
        assert live.health()["errors"] == 2  # the welcome failed as well
        client.hang_up()
        await client.closed()

    play(script)


def test_an_error_of_the_library_is_counted_and_answered_in_our_shape(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(parts: Parts) -> None:
        async def failing(*_: object) -> None:
            raise UnboundLocalError("r")

        monkeypatch.setattr(live_of(parts)._server, "answer", failing)
        async with browser(parts.app) as client:
            answer = await client.get(POLLING)
        assert answer.status_code == 500
        assert answer.json()["error"]["kind"] == "failed"
        client_too = WebSocket(parts.app)
        await client_too.closed()
        assert health(parts)["errors"] == 2
        assert len(live_of(parts)._visitors) == 0

    play(script)
