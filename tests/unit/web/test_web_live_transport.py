"""Who a live connection is, what it may do meanwhile and when it ends; without a network."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from socketio.exceptions import ConnectionRefusedError as Refused

from andon.access.proxies import proxy_rules
from andon.access.roles import Identity, Role
from andon.access.server_proof import token_hash
from andon.web.live.requests import parse_query
from andon.web.live.transport import SILENT_SECONDS
from andon.web.transport.keys import MOST_SESSIONS, SESSION_SECONDS
from tests.support import snapshots as drawn
from tests.support.live_parts import (
    PATH,
    POLLING,
    Play,
    WebSocket,
    browser,
    handshake,
    health,
    live_of,
    play,
    until,
    without_routes,
)
from tests.support.rows import rows
from tests.support.web_parts import BEARER, OUTSIDE, TOKEN, Parts

__all__ = ["play", "without_routes"]
pytestmark = pytest.mark.usefixtures("without_routes")

FORGED = {"asgi.scope": {"andon.trusted": True, "andon.line": "x"}}


def trust(parts: Parts) -> list[bool]:
    return [client.visitor.trusted for client in live_of(parts)._clients.values()]


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
    play: Play, headers: dict[str, str], auth: str, trusted: bool
) -> None:
    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app, headers=headers)
        await client.joined(auth)
        assert trust(parts) == [trusted]
        client.hang_up()
        await client.closed()

    play(script)


def test_an_event_named_like_a_handler_is_refused_and_counted(play: Play) -> None:
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
        assert health(parts)["malformed"] == 4
        client.hang_up()
        await client.closed()

    play(script)


def test_the_handler_itself_believes_no_environment(play: Play) -> None:
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


def test_a_busy_device_is_told_once_while_it_stays_busy(play: Play) -> None:
    async def script(parts: Parts) -> None:
        client, live, emitted = WebSocket(parts.app), live_of(parts), list[str]()
        await client.joined()

        async def emit(event: str, *_: object, **__: object) -> None:
            emitted.append(event)

        live._server.emit = emit
        live._busy = frozenset()
        busy = parts.live.latest()
        idle = replace(busy, devices=())
        for snapshot in (busy, busy, idle, busy):
            await live._publish(snapshot)
        assert emitted.count("high_gpu_usage_alert") == 2
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


def test_a_session_that_is_ended_ends_its_connections_and_no_others(play: Play) -> None:
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


def test_a_session_that_newer_ones_push_out_ends_its_connections(play: Play) -> None:
    async def script(parts: Parts) -> None:
        ending = await connections(parts, session(parts))
        for _ in range(MOST_SESSIONS):
            session(parts)
        for client in ending:
            await client.closed()

    play(script)


def test_a_polling_client_hears_of_the_end_of_its_session(play: Play) -> None:
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


def test_a_session_that_ended_meanwhile_lets_no_one_in(play: Play) -> None:
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


def test_a_named_token_that_is_removed_ends_its_connections_and_no_others(play: Play) -> None:
    async def script(parts: Parts) -> None:
        gone, stays = (token_hash(name) for name in ("gone", "stays"))
        known = {one: Identity(Role.READ, user="token ci") for one in (gone, stays)}
        parts.keys.named = known.get
        ending, staying = await connections(parts, "gone"), await connections(parts, "stays")
        staying += await connections(parts, TOKEN) + await connections(parts, session(parts))
        assert trust(parts) == [True] * 8
        del known[gone]
        await asyncio.to_thread(parts.keys.named_ended, gone)
        for client in ending:
            await client.closed()
        assert trust(parts) == [True] * 6
        refused = WebSocket(parts.app)
        await refused.opened()
        refused.send('40{"token":"gone"}')
        assert "wrong token" in await refused.heard("44")
        for client in (*staying, refused):
            client.hang_up()
            await client.closed()

    play(script)


def test_a_person_whom_a_proxy_names_hears_live_events(tmp_path: Path) -> None:
    rules = replace(OUTSIDE, proxy=proxy_rules("127.0.0.1", ["*:read"]))
    parts = Parts(tmp_path, [drawn.farm()], rules)

    async def script() -> None:
        named = WebSocket(parts.app, headers={"X-Forwarded-User": "ada"})
        await named.joined()
        assert [one.who.user for one in live_of(parts)._visitors._all] == ["proxy ada"]
        named.hang_up()
        await named.closed()

    asyncio.run(script())
    parts.close()


# Places and deadlines.


def test_a_session_has_one_poll_and_a_second_one_ends_it(play: Play) -> None:
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


def test_a_session_has_one_upgrade(play: Play) -> None:
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


def test_a_poll_that_hangs_up_gives_its_place_back_at_once(play: Play) -> None:
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


def test_a_handshake_that_does_not_go_on_loses_its_place(play: Play) -> None:
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


def test_a_client_that_polls_no_more_loses_its_place(play: Play) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as polling:
            mine = await handshake(polling)
            assert (await polling.post(mine, content="40")).status_code == 200
            assert (await polling.get(mine)).status_code == 200
        deadline(parts)
        await until(lambda: len(live_of(parts)._visitors) == 0)

    play(script)


def test_an_upgrade_that_does_not_go_on_loses_its_place(play: Play) -> None:
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


def test_a_client_that_joined_stays(play: Play) -> None:
    async def script(parts: Parts) -> None:
        client = WebSocket(parts.app)
        await client.joined()
        deadline(parts)
        client.send('427["subscribe","snapshot"]')
        await client.heard("437")
        client.hang_up()
        await client.closed()

    play(script)


@pytest.mark.slow
def test_anonymous_handshakes_leave_a_place_for_the_token(play: Play) -> None:
    async def script(parts: Parts) -> None:
        live_of(parts)._visitors._most_anonymous = 20
        async with browser(parts.app) as client:
            answers = [await client.get(POLLING) for _ in range(40)]
            refused = [answer for answer in answers if answer.status_code == 503]
            assert len(refused) == 20
            assert refused[0].headers["retry-after"]
            assert health(parts)["refused"] == len(refused)
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
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            for method in ("GET", "POST"):
                answer = await client.request(method, f"{POLLING}&sid=x%0aFAKE%1b")
                assert answer.status_code == 400
                assert "FAKE" not in answer.text

    play(script)
    assert "FAKE" not in caplog.text


def test_other_methods_are_refused(play: Play) -> None:
    async def script(parts: Parts) -> None:
        async with browser(parts.app) as client:
            for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
                assert (await client.request(method, POLLING)).status_code == 405

    play(script)
