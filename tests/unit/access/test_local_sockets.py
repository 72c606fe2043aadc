"""REST at a server's local socket: to whom it is given, from whom it is taken, and what strangers
cost."""

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any, cast

import msgspec
import pytest

from andon.access.local_rest import MOST_FRAME_BYTES, RestAnswer, frame, parts_of
from andon.access.roles import Identity, Role
from andon.errors import Denied, Gone, Unavailable
from andon.host.socket_peers import connect
from andon.node import local_server
from andon.node.local_server import LocalServer, local_servers
from andon.web.transport import local_calls, local_sockets
from andon.web.transport.local_calls import LocalCalls
from andon.web.transport.local_sockets import MOST_USERS, MOST_WAITING, RestSocket
from tests.support.homes import made_node_state
from tests.support.local_rest import answering
from tests.support.replaced import answers, constants
from tests.support.rows import rows
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets without a file")

PORT = 20_000 + 2 * os.getpid() % 40_000  # only in names: other runs have others
LEASES = "/api/leases"


class Calls:
    """An application that says who asks for what; it may take its time."""

    def __init__(self) -> None:
        self.asked: list[tuple[Identity | None, tuple[str, ...]]] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: Exception | None = None

    def get(self, who: Identity | None, paths: Sequence[str]) -> list[RestAnswer]:
        self.asked.append((who, tuple(paths)))
        self.goes_on.wait(20)
        if self.error is not None:
            raise self.error
        return [RestAnswer(200, msgspec.json.encode({"path": path}), "2.5") for path in paths]


@pytest.fixture(autouse=True)
def _at_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_PORT", str(PORT))
    constants(monkeypatch, local_sockets, FRAME_SECONDS=2.0)  # on a machine with much to do


def opened(calls: Calls, port: int = PORT, **more: Any) -> RestSocket:
    own: dict[str, Any] = {"server_uid": os.getuid(), "pause_seconds": 0.0, **more}
    return RestSocket(port, calls=cast("LocalCalls", calls), **own)


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls()
    with closing(opened(made)):
        yield made


def asked(*paths: str, seconds: float = 5.0) -> LocalServer | None:
    return next(local_servers(paths, seconds), None)


def sent(name: str, *pieces: bytes) -> bytes:
    """What a client gets that sends these pieces."""
    with closing(connect(name, 20)) as caller:
        for piece in pieces:
            caller.sendall(piece)
        found = b""
        with suppress(ConnectionResetError):  # what it sent was not read to its end
            while part := caller.recv(1 << 16):
                found += part
        return found


def test_all_paths_are_answered_in_one_exchange_and_each_answer_is_used_once(calls: Calls) -> None:
    server = asked(LEASES, "/api/snapshot")
    assert server is not None
    assert (server.get(LEASES), server.get("/api/snapshot")) == (
        {"path": LEASES},
        {"path": "/api/snapshot"},
    )
    assert server.interval == "2.5"
    assert [paths for _, paths in calls.asked] == [(LEASES, "/api/snapshot")]
    assert server.get("/api/usage", device="GPU-0", since=None) == {
        "path": "/api/usage?device=GPU-0"
    }
    server.get(LEASES)
    assert [paths for _, paths in calls.asked[1:]] == [("/api/usage?device=GPU-0",), (LEASES,)]


def test_the_kernel_says_who_asks() -> None:
    known = {os.getuid(): "ada"}.get
    made = Calls()
    with closing(opened(made, name_of=known)):
        asked(LEASES)
    with closing(opened(made, name_of=known, server_uid=54_321)):
        asked(LEASES)
    role = Role.OWNER if os.getuid() == 0 else Role.USER
    assert [who for who, _ in made.asked] == [
        Identity(Role.OWNER, os.getuid(), "ada"),
        Identity(role, os.getuid(), "ada"),
    ]


def test_where_users_do_not_sign_in_only_the_owners_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Calls()
    with closing(opened(made, name_of=lambda uid: "ada", signs_in=False)):
        asked(LEASES)
        answers(monkeypatch, "andon.web.transport.local_sockets", "peer_uid", 4242)
        asked(LEASES)
    assert [who and who.role for who, _ in made.asked] == [Role.OWNER, None]


def test_one_without_an_account_gets_nothing_and_is_not_listened_to() -> None:
    made = Calls()
    with closing(opened(made, name_of=lambda uid: None)):
        assert asked(LEASES) is None
    assert made.asked == []


def test_a_uid_that_many_share_gets_nothing(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "andon.web.transport.local_sockets", "peer_uid", None)
    assert asked(LEASES) is None
    assert calls.asked == []


@rows(
    "pieces",
    [
        (b"GET /api/leases HTTP/1.1\r\n\r\n",), (b"\n\n",), (frame(["/api/proof"]),),
        (frame([LEASES, "/api/session"]),), (frame([LEASES]) + b"more",), (b"\xff" * (1 << 16),),
        (frame([LEASES])[:-1],), (b"",),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_no_request(
    pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, local_sockets, FRAME_SECONDS=0.2)
    made = Calls()
    with closing(opened(made)) as door:
        assert sent(door.name, *pieces) == b""
        assert made.asked == []
        assert asked(LEASES) is not None, "the next one is answered"


def test_one_who_sends_slowly_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    constants(monkeypatch, local_sockets, FRAME_SECONDS=0.05)
    made = Calls()
    with closing(opened(made)) as door, closing(connect(door.name, 20)) as caller:
        began = time.monotonic()
        with suppress(BrokenPipeError):
            for byte in frame([LEASES]):
                caller.sendall(bytes([byte]))
                time.sleep(0.01)
        assert time.monotonic() - began < 5
        with suppress(ConnectionResetError):
            assert caller.recv(100) == b""
    assert made.asked == []


def test_users_are_answered_beside_each_other_and_each_once_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uids = iter((1, 1, 1, 2))
    monkeypatch.setattr("andon.web.transport.local_sockets.peer_uid", lambda connection: next(uids))
    made = Calls()
    made.goes_on.clear()
    with (
        closing(opened(made, name_of=lambda uid: f"u{uid}", server_uid=3)) as door,
        ExitStack() as stack,
    ):
        callers = [stack.enter_context(closing(connect(door.name, 20))) for _ in range(4)]
        for caller in callers:
            caller.sendall(frame([LEASES]))
        wait_for(lambda: len(made.asked) == 2)
        time.sleep(0.1)
        assert sorted(who.user or "" for who, _ in made.asked if who) == ["u1", "u2"]
        made.goes_on.set()
        found = [callers[at].recv(1 << 16) for at in range(4)]
    assert all(parts_of(one, 1) for one in found), "those who wait are answered in order"
    assert len(made.asked) == 4


def test_a_flood_of_one_user_is_bounded_and_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    constants(monkeypatch, local_sockets, FRAME_SECONDS=0.05)
    flooding = 200
    uids = iter([7] * flooding + [8])
    monkeypatch.setattr("andon.web.transport.local_sockets.peer_uid", lambda connection: next(uids))
    made = Calls()
    with (
        closing(opened(made, name_of=lambda uid: f"u{uid}")) as door,
        ExitStack() as stack,
    ):
        for _ in range(flooding):  # none of them says anything
            stack.enter_context(closing(connect(door.name, 20)))
        assert parts_of(sent(door.name, frame([LEASES])), 1)
        assert sum(map(len, door._waiting.values())) <= MOST_WAITING
        assert len(door._waiting) <= MOST_USERS


def test_one_user_is_answered_half_of_the_time_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(Calls):
        def get(self, who: Identity | None, paths: Sequence[str]) -> list[RestAnswer]:
            began.append(time.monotonic())
            time.sleep(0.5)
            ended.append(time.monotonic())
            return super().get(who, paths)

    began, ended = list[float](), list[float]()
    with closing(opened(Slow())) as door, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(closing(connect(door.name, 20))).sendall(frame([LEASES]))
        wait_for(lambda: len(ended) == 2)
    assert began[1] - ended[0] >= ended[0] - began[0]


def test_the_frames_of_a_client_that_has_gone_are_not_answered() -> None:
    made = Calls()
    made.goes_on.clear()
    with closing(opened(made)) as door, ExitStack() as stack:
        first = stack.enter_context(closing(connect(door.name, 20)))
        first.sendall(frame([LEASES]))
        wait_for(lambda: len(made.asked) == 1)
        for _ in range(MOST_WAITING - 1):
            with closing(connect(door.name, 20)) as gone:
                gone.sendall(frame(["/api/snapshots"] * 8))
        last = stack.enter_context(closing(connect(door.name, 20)))
        last.sendall(frame(["/api/board"]))
        last.shutdown(socket.SHUT_WR)
        made.goes_on.set()
        assert parts_of(last.recv(1 << 16), 1), "one that says no more still reads"
    assert [paths for _, paths in made.asked] == [(LEASES,), ("/api/board",)]


def test_no_more_users_than_a_few_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    uids = iter(range(100, 200))
    monkeypatch.setattr("andon.web.transport.local_sockets.peer_uid", lambda connection: next(uids))
    made = Calls()
    made.goes_on.clear()
    with (
        closing(opened(made, name_of=lambda uid: f"u{uid}")) as door,
        ExitStack() as stack,
    ):
        for _ in range(MOST_USERS):
            stack.enter_context(closing(connect(door.name, 20))).sendall(frame([LEASES]))
        wait_for(lambda: len(made.asked) == MOST_USERS)
        assert sent(door.name) == b"", "one more is closed at once"
        made.goes_on.set()


@rows("error", [Unavailable("it ends"), TimeoutError(), ValueError("a mistake")])
def test_a_server_that_cannot_answer_says_nothing_and_goes_on(error: Exception) -> None:
    made = Calls()
    with closing(opened(made)):
        made.error = error
        assert asked(LEASES) is None
        made.error = None
        assert asked(LEASES) is not None


def test_it_ends_with_the_server(calls: Calls) -> None:
    assert asked(LEASES) is not None
    door = opened(Calls(), PORT + 1)
    door.close()
    with pytest.raises(OSError, match="refused"):
        sent(door.name)


# The client.


def test_a_listener_that_is_neither_this_users_nor_the_systems_is_sent_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers(monkeypatch, local_server, "peer_uid", 54_321)
    with answering(PORT, {LEASES: RestAnswer(200, b'{"all": "well"}')}) as liar:
        assert asked(LEASES) is None
        assert not any(liar.frames)


def test_one_at_another_port_is_not_asked_unless_it_is_this_users_own(state_folder: Any) -> None:
    with closing(opened(Calls(), port=PORT + 1)):
        assert asked(LEASES) is None
        folder = made_node_state(state_folder)
        (folder / "server.json").write_bytes(
            msgspec.json.encode({"url": f"http://127.0.0.1:{PORT + 1}", "pid": 1})
        )
        assert asked(LEASES) is not None


def test_the_users_own_server_comes_first(calls: Calls, state_folder: Any) -> None:
    own = Calls()
    folder = made_node_state(state_folder)
    (folder / "server.json").write_text(f'{{"url": "http://127.0.0.1:{PORT + 1}", "pid": 1}}')
    with closing(opened(own, port=PORT + 1)):
        found = list(local_servers((LEASES,)))
    assert [one.url for one in found] == [f"http://127.0.0.1:{port}" for port in (PORT + 1, PORT)]


@rows(
    "raw",
    [
        b"", b"\xff", b"{}", b'{"schema":"andon.look/1","interval_seconds":1,"snapshot":{}}',
        b"andon.rest/2 200/2/\n{}", b"andon.rest/1 200/9/\n{}", b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
)  # fmt: skip
def test_an_answer_of_another_kind_is_none(raw: bytes) -> None:
    with answering(PORT, raw=raw) as other:
        assert asked(LEASES) is None
        assert {*other.frames} == {(LEASES,)}


def test_one_that_says_nothing_is_left_in_time() -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0andon-rest/{PORT}/{'0' * 32}")
        door.listen()
        assert asked(LEASES, seconds=0.05) is None


def test_a_refusal_is_the_servers_own_error() -> None:
    problem = b'{"error": {"reason": "no such device", "hint": "andon devices"}}'
    given = {LEASES: RestAnswer(404, problem), "/api/board": RestAnswer(401, problem)}
    with answering(PORT, given):
        server = asked(LEASES)
        assert server is not None
        with pytest.raises(Gone, match="no such device") as gone:
            server.get(LEASES)
        with pytest.raises(Denied):
            server.get("/api/board")
    assert gone.value.hint == "andon devices"
    with pytest.raises(Unavailable, match="does not answer"):
        server.get("/api/board")


def test_what_the_socket_does_not_answer_goes_over_http(calls: Calls) -> None:
    class Http:
        def get(self, path: str) -> dict[str, str]:
            return {"over http": path}

        def post(self, path: str, body: object = None) -> dict[str, str]:
            return {"posted": path}

        def as_user(self) -> Any:
            users.append(self)
            return self

        def close(self) -> None:
            users.remove(self)

    users: list[Http] = []
    found = next(local_servers((LEASES,), over_http=cast("Callable[[], Any]", Http)))
    assert found.get("/api/jobs", limit=5) == {"over http": "/api/jobs?limit=5"}
    long = "x" * MOST_FRAME_BYTES
    assert found.get("/api/alerts", device=long) == {"over http": f"/api/alerts?device={long}"}
    assert found.post("/api/silences", {}) == {"posted": "/api/silences"}
    assert users == []
    user = found.as_user()
    assert user.get("/api/jobs") == user.get("/api/jobs") == {"over http": "/api/jobs"}
    assert len(users) == 1, "one session"
    user.close()
    assert users == []
    alone = asked(LEASES)
    assert alone is not None
    with pytest.raises(Unavailable):
        alone.post("/api/silences", {})


# Through the application.


class Running:
    """An application in an event loop of its own, in a thread."""

    def __init__(self, app: Any) -> None:
        self.calls, self.loop = LocalCalls(app), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def start(self) -> None:
        async def nothing(*_: Any) -> Any: ...

        asyncio.run_coroutine_threadsafe(
            self.calls({"type": "lifespan"}, nothing, nothing), self.loop
        ).result(20)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def test_a_request_is_answered_in_the_loop_with_its_caller() -> None:
    seen: list[tuple[str, str, bytes, object]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        seen.append((scope["method"], scope["path"], scope["query_string"], scope["andon.known"]))
        assert (await receive())["more_body"] is False
        headers = [(b"andon-interval", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        await send({"type": "http.response.body", "body": b"}"})

    ada = Identity(Role.USER, 7, "ada")
    with closing(Running(app)) as running:
        with pytest.raises(Unavailable, match="not run yet"):
            running.calls.get(ada, [LEASES])
        running.start()
        found = running.calls.get(ada, ["/api/alerts/a%23b?limit=1"])
    assert found == [RestAnswer(200, b"{}", "2")]
    assert seen == [("GET", "/api/alerts/a#b", b"limit=1", ada)]
    with pytest.raises(Unavailable, match="has ended"):
        running.calls.get(ada, [LEASES])


def test_one_that_takes_too_long_is_cancelled() -> None:
    ended = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await receive()
            try:
                await receive()  # until the client leaves
            finally:
                ended.set()

    with closing(Running(app)) as running:
        running.start()
        with pytest.raises(TimeoutError):
            running.calls.get(None, [LEASES], seconds=0.05)
        assert ended.wait(5)


def test_answers_that_are_too_large_together_are_not_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    constants(monkeypatch, local_calls, MOST_ANSWER_BYTES=10)
    asked = list[str]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.append(scope["path"])
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"12345"})

    with closing(Running(app)) as running:
        running.start()
        assert len(running.calls.get(None, [LEASES] * 2)) == 2
        with pytest.raises(Unavailable, match="too large together"):
            running.calls.get(None, [LEASES] * 8)
    assert len(asked) == 2 + 3, "none is made after those that fit"
