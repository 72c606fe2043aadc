"""Who a live connection is, what it may do meanwhile and when it ends; without a network."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from socketio.exceptions import ConnectionRefusedError as Refused

from andon.web.live.requests import parse_query
from andon.web.live.transport import SILENT_SECONDS
from andon.web.transport.keys import KEPT, SESSION_SECONDS
from tests.support import snapshots as drawn
from tests.support.live_parts import (
    PATH,
    POLLING,
    WebSocket,
    browser,
    handshake,
    live_of,
    until,
    without_routes,
)
from tests.support.rows import rows
from tests.support.web_parts import BEARER, TOKEN, Parts

__all__ = ["without_routes"]
pytestmark = pytest.mark.usefixtures("without_routes")

Script = Callable[[Parts], Coroutine[Any, Any, None]]
FORGED = {"asgi.scope": {"andon.trusted": True, "andon.line": "x"}}


@pytest.fixture
def play(tmp_path: Path) -> Any:
    parts = Parts(tmp_path, [drawn.farm()])

    def played(script: Script) -> None:
        asyncio.run(script(parts))

    yield played
    parts.close()


def trust(parts: Parts) -> list[bool]:
    return [client.trusted for client in live_of(parts)._clients.values()]


def said(parts: Parts) -> Any:
    return live_of(parts).health()


# Trust.


@pytest.mark.parametrize(
    ("headers", "auth", "trusted"),
    [
        ({}, "", False),
        (BEARER, "", True),
        ({}, json.dumps({"token": TOKEN}), True),
        ({}, json.dumps({"trusted": True, "andon.trusted": True, **FORGED}), False),
        ({}, json.dumps([TOKEN]), False),
    ],
)
def test_trust_comes_from_a_key_alone(
    play: Any, headers: dict[str, str], auth: str, trusted: bool
) -> None:
    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app, headers=headers)
        await client.joined(auth)
        assert trust(parts) == [trusted]
        client.hang_up()
        await client.closed()

    play(script)


def test_an_event_named_like_a_handler_is_refused_and_counted(play: Any) -> None:
    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app)
        await client.joined()
        client.send(f'42["connect",{json.dumps(FORGED)}]')
        client.send(f'42["connect",{json.dumps(FORGED)},{{"token":null}}]')
        client.send('42["disconnect"]')
        client.send_bytes(b'42["connect"]')
        client.send('427["subscribe","snapshot"]')
        assert await client.heard("437") == '437[{"subscribed":["snapshot"]}]'
        assert trust(parts) == [False]
        assert said(parts)["malformed"] == 4
        client.hang_up()
        await client.closed()

    play(script)


def test_the_handler_itself_believes_no_environment(play: Any) -> None:
    """Should such an event ever come through, it still proves nothing."""

    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app)
        await client.joined()
        (sid,) = live_of(parts)._clients
        for auth in (None, {"token": TOKEN}):
            with pytest.raises(Refused):
                await live_of(parts)._connect(sid, FORGED, auth)
        with pytest.raises(Refused):
            await live_of(parts)._connect("nobody", FORGED)
        assert trust(parts) == [False]
        client.hang_up()
        await client.closed()

    play(script)


# Sessions.


def session(parts: Parts) -> str:
    secret = parts.keys.exchange(parts.keys.new_code())
    assert secret is not None
    return secret


async def connections(parts: Parts, secret: str) -> list[WebSocket]:
    """One that shows it in the handshake, one that shows it in the greeting."""
    by_header = WebSocket(parts.app, headers={"Authorization": f"Bearer {secret}"})
    by_greeting = WebSocket(parts.app)
    await by_header.joined()
    await by_greeting.joined(json.dumps({"token": secret}))
    return [by_header, by_greeting]


def test_a_session_that_is_ended_ends_its_connections_and_no_others(play: Any) -> None:
    async def script(parts: Parts) -> None:
        secret = session(parts)
        ending = await connections(parts, secret)
        (other, _) = staying = await connections(parts, session(parts))
        owner = WebSocket(parts.app, headers=BEARER)
        await owner.joined()
        assert trust(parts) == [True] * 5
        await asyncio.to_thread(parts.keys.end_session, secret)
        for client in ending:
            await client.closed()
        assert trust(parts) == [True] * 3
        other.send('427["subscribe","snapshot"]')
        await other.heard("437")
        for client in (*staying, owner):
            client.hang_up()
            await client.closed()

    play(script)


def test_a_session_ends_its_connections_when_its_time_is_over(tmp_path: Path) -> None:
    now = 0.0
    parts = Parts(tmp_path, [drawn.farm()])
    parts.keys._clock = lambda: now

    async def script() -> None:
        nonlocal now
        secret = session(parts)
        now = SESSION_SECONDS - 0.05
        by_header = WebSocket(parts.app, headers={"Authorization": f"Bearer {secret}"})
        by_header.send("40")
        by_greeting = WebSocket(parts.app)
        by_greeting.send(f'40{{"token":"{secret}"}}')
        for client in (by_header, by_greeting):
            await client.closed()
        assert trust(parts) == []

    asyncio.run(script())
    parts.close()


def test_a_session_that_newer_ones_push_out_ends_its_connections(play: Any) -> None:
    async def script(parts: Parts) -> None:
        ending = await connections(parts, session(parts))
        for _ in range(KEPT):
            session(parts)
        for client in ending:
            await client.closed()

    play(script)


def test_a_polling_client_hears_of_the_end_of_its_session(play: Any) -> None:
    async def script(parts: Parts) -> None:
        secret = session(parts)
        async with browser(parts.app) as client:
            mine = await handshake(client, {"Authorization": f"Bearer {secret}"})
            assert (await client.post(mine, content="40")).status_code == 200
            while "high_gpu_usage_alert" not in (await client.get(mine)).text:
                pass  # the welcome
            poll = asyncio.ensure_future(client.get(mine))
            await until(lambda: any(one.polls for one in live_of(parts)._visitors._all))
            parts.keys.end_session(secret)
            assert (await poll).text.endswith("1")
            assert (await client.get(mine)).status_code == 400

    play(script)


def test_a_session_that_ended_meanwhile_lets_no_one_in(play: Any) -> None:
    async def script(parts: Parts) -> None:
        secret = session(parts)
        parts.keys.end_session(secret)
        client = WebSocket(parts.app)
        await client.opened()
        client.send(f'40{{"token":"{secret}"}}')
        assert "wrong token" in await client.heard("44")
        client.hang_up()
        await client.closed()

    play(script)


# Places and deadlines.


def test_a_session_has_one_poll_and_a_second_one_ends_it(play: Any) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            mine = await handshake(client)
            first = asyncio.ensure_future(client.get(mine))
            await until(lambda: any(one.polls for one in live_of(parts)._visitors._all))
            second = await client.get(mine)
            assert second.status_code == 400
            assert second.json()["error"]["kind"] == "invalid"
            assert (await first).text == "1"
            assert len(live_of(parts)._visitors) == 0

    play(script)


def test_a_session_has_one_upgrade(play: Any) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            name = (await handshake(client)).partition("sid=")[2]
            first = WebSocket(parts.app, name)
            await first.next()
            second = WebSocket(parts.app, name)
            assert (await second.next())["status"] == 400
            first.send("2probe")
            await first.heard("3probe")
            first.send("5")
            first.send("40")
            await first.heard("40{")
            assert (await client.get(f"{POLLING}&sid={name}")).status_code == 400
            first.send('427["subscribe"]')
            await first.heard("437")
            first.hang_up()
            await first.closed()
            await second.closed()

    play(script)


def test_a_poll_that_hangs_up_gives_its_place_back_at_once(play: Any) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            mine = await handshake(client)
        gone = asyncio.Event()

        async def receive() -> dict[str, object]:
            if not any(one.polls for one in live_of(parts)._visitors._all):
                return {"type": "http.request", "body": b""}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(_message: object) -> None:
            pass

        scope = {
            "type": "http", "method": "GET", "path": PATH, "client": ("127.0.0.1", 1),
            "query_string": mine.partition("?")[2].encode(), "headers": [(b"host", b"localhost")],
        }  # fmt: skip
        poll = asyncio.ensure_future(parts.app(scope, receive, send))
        await until(lambda: any(one.polls for one in live_of(parts)._visitors._all))
        gone.set()
        await poll
        assert len(live_of(parts)._visitors) == 0

    play(script)


def deadline(parts: Parts) -> None:
    """As if the time of everyone were over: the timers are armed, and what they call is called."""
    live = live_of(parts)
    for visitor in list(live._visitors._all):
        assert visitor.due is not None
        assert visitor.due.when() - asyncio.get_running_loop().time() <= SILENT_SECONDS
        visitor.due.cancel()
        live._transport._due(visitor)


def test_a_handshake_that_does_not_go_on_loses_its_place(play: Any) -> None:
    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app)
        await client.opened()
        async with browser(parts.app) as polling:
            await handshake(polling)
        deadline(parts)
        await client.closed()
        await until(lambda: len(live_of(parts)._visitors) == 0)
        assert live_of(parts)._server.eio.sockets == {}

    play(script)


def test_a_client_that_polls_no_more_loses_its_place(play: Any) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as polling:
            mine = await handshake(polling)
            assert (await polling.post(mine, content="40")).status_code == 200
            assert (await polling.get(mine)).status_code == 200
        deadline(parts)
        await until(lambda: len(live_of(parts)._visitors) == 0)

    play(script)


def test_an_upgrade_that_does_not_go_on_loses_its_place(play: Any) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            name = (await handshake(client)).partition("sid=")[2]
            upgrade = WebSocket(parts.app, name)
            await upgrade.next()
            (visitor,) = live_of(parts)._visitors._all
            live_of(parts)._transport._upgrade_due(visitor)
            await upgrade.closed()
        assert len(live_of(parts)._visitors) == 0

    play(script)


def test_a_client_that_joined_stays(play: Any) -> None:
    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app)
        await client.joined()
        deadline(parts)
        client.send('427["subscribe","snapshot"]')
        await client.heard("437")
        client.hang_up()
        await client.closed()

    play(script)


def test_anonymous_handshakes_leave_a_place_for_the_token(play: Any) -> None:
    async def script(parts: Parts) -> None:
        live_of(parts)._visitors._most_anonymous = 20
        async with browser(parts.app) as client:
            answers = [await client.get(POLLING) for _ in range(40)]
            refused = [answer for answer in answers if answer.status_code == 503]
            assert len(refused) == 20
            assert refused[0].headers["retry-after"]
            assert said(parts)["refused"] == len(refused)
            stranger = WebSocket(parts.app)
            assert (await stranger.next())["status"] == 503
            await stranger.closed()
            await handshake(client, BEARER)
        owner = WebSocket(parts.app, headers=BEARER)
        await owner.joined()
        owner.hang_up()
        await owner.closed()

    play(script)


@rows(
    "query",
    [
        "", "EIO=3&transport=polling", "EIO=4", "EIO=4&transport=pigeon",
        "EIO=4&transport=websocket", "EIO=4&transport=polling&j=0",
        "EIO=4&transport=polling&sid=a&sid=b", "EIO=4&transport=polling&transport=polling",
        "EIO=4&transport=polling&sid=" + "x" * 65, "EIO=4&transport=polling" + "&a=b" * 20,
        "EIO=4&transport=polling&t=\xff",
    ],
)  # fmt: skip
def test_what_is_no_request_of_socket_io_is_none(query: str) -> None:
    assert parse_query({"type": "http", "query_string": query.encode("latin-1")}) is None


def test_a_name_that_is_none_is_refused_without_a_word_of_it(
    play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            for method in ("GET", "POST"):
                answer = await client.request(method, f"{POLLING}&sid=x%0aFAKE%1b")
                assert answer.status_code == 400
                assert "FAKE" not in answer.text

    play(script)
    assert "FAKE" not in caplog.text


def test_other_methods_are_refused(play: Any) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
                assert (await client.request(method, POLLING)).status_code == 405

    play(script)


# Each on its own.


def test_a_client_that_cannot_be_dropped_costs_the_others_nothing(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(parts: Parts) -> None:
        live = live_of(parts)
        ended, end = list[str | None](), live._transport.end
        async with browser(parts.app) as polling:
            names = [(await handshake(polling)).partition("sid=")[2] for _ in range(3)]

        async def ending(visitor: Any) -> None:
            ended.append(visitor.connection)
            if visitor.connection == names[0]:
                raise AttributeError("'str' object has no attribute 'cut'")
            await end(visitor)

        monkeypatch.setattr(live._server, "slow", lambda: names)
        monkeypatch.setattr(live._transport, "end", ending)
        await live._drop_the_slow()
        assert ended == names
        assert said(parts)["errors"] == 1
        assert said(parts)["state"] == "degraded"
        assert len(live._visitors) == 1

    play(script)


def test_one_kind_of_update_that_fails_leaves_the_others_and_is_told(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(parts: Parts) -> None:
        live, published = live_of(parts), asyncio.Event()

        async def failing() -> None:
            raise RuntimeError("of this test")

        async def publish(_snapshot: object) -> None:
            published.set()

        monkeypatch.setattr(live, "_publish_alerts", failing)
        monkeypatch.setattr(live, "_drop_the_slow", failing)
        monkeypatch.setattr(live, "_publish", publish)
        async with live.run():
            parts.sampler.give(drawn.farm())
            await published.wait()
        assert said(parts)["state"] == "degraded"
        assert "slow" in said(parts)["reason"]

    play(script)


def test_an_error_in_a_packets_handler_is_counted_and_the_client_stays(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(parts: Parts) -> None:
        live = live_of(parts)

        def failing(*_: object) -> None:
            raise RuntimeError("of this test")

        monkeypatch.setattr(live, "_summary", failing)
        client = WebSocket(parts.app)
        await client.joined()
        client.send('42["request_gpu_update"]')
        client.send('427["subscribe","snapshot"]')
        await client.heard("437")
        assert said(parts)["errors"] == 2  # the welcome failed as well
        client.hang_up()
        await client.closed()

    play(script)


def test_an_error_of_the_library_is_counted_and_answered_in_our_shape(
    play: Any, monkeypatch: pytest.MonkeyPatch
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
        assert said(parts)["errors"] == 2
        assert len(live_of(parts)._visitors) == 0

    play(script)
