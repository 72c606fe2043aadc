"""Takes heartbeats: the only requests that do not come through the gate, as each node has a token
of its own and a hub gets hundreds of them a second."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from andon.errors import AndonError, Invalid, Unavailable
from andon.failures.rules.repeats import RepeatLimiter
from andon.fleet.link import HEARTBEAT, HUB_HEADER, PAST
from andon.fleet.rules.heartbeat import MOST_BODY_BYTES, NEWER, read_heartbeat
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.model import wire
from andon.web.answers.problems import problem
from andon.web.fleet.hub import Hub
from andon.web.transport.auth import shown_key
from andon.web.transport.headers import App, Receive, Scope, Send, read_body, send_json, texts
from andon.web.transport.places import SEAT, Seat

log = logging.getLogger("andon.hub")

BATCH_SECONDS = 0.1
"""Heartbeats that come within this time are committed together."""
MOST_PASTS = 8
"""Parts of nodes' pasts that wait for the database; after an outage all nodes send theirs. One that
would wait longer is asked to come again, and reports meanwhile."""
PATIENT_SECONDS = 5.0
"""How long a part of a node's past waits for reports that are being stored."""
LOOKUP_SECONDS = 2.0
"""How often an unknown token makes the hub look for new nodes."""
PATHS = frozenset({HEARTBEAT, PAST})
AGAIN = (b"retry-after", b"5")
TURN_SECONDS = 30.0
"""For so long a node that was asked to come again goes before those that were not."""
Pending = tuple[Heartbeat, "asyncio.Future[bool]"]
T = TypeVar("T")
TakePast = Callable[[FleetNode, bytes], None]


class Refused(Exception):
    """A request that is not taken: its status, kind, reason and hint."""

    def __init__(self, status: int, kind: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.status, self.kind, self.reason, self.hint = status, kind, reason, hint


class Ingest:
    """ASGI middleware that answers nodes and passes on every other request."""

    def __init__(
        self, app: App, hub: Hub, take_past: TakePast, batch_seconds: float = BATCH_SECONDS
    ) -> None:
        self._app, self._hub, self._take_past = app, hub, take_past
        self._batch_seconds = batch_seconds
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="andon hub")
        self._past_pool = ThreadPoolExecutor(1, thread_name_prefix="andon hub past")
        self._pending: dict[str, Pending] = {}
        """Heartbeats that wait to be stored, by node."""
        self._overdue = False
        self._stored = threading.Event()
        """Whether no report is being stored: the past waits for the present."""
        self._stored.set()
        self._pasts, self._next = set[str](), dict[str, float]()
        self._looked_up_at = float("-inf")
        self._refusals = RepeatLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in PATHS:
            await self._app(scope, receive, send)
            return
        try:
            node = await self._admitted(scope)
            body = await _body(scope, receive)
            status, answer = 200, await self._taken(scope["path"], node, body)
        except Refused as refused:
            self._count(scope, refused.kind, refused.reason)
            status, answer = refused.status, problem(refused.status, refused.reason, refused.hint)
        except AndonError as error:  # of the hub or its store, whatever it is: not of the node
            status, answer = 503, problem(503, error.reason, error.hint)
        more = [(HUB_HEADER.lower().encode(), b"1"), *([AGAIN] if status == 503 else [])]
        await send_json(send, status, answer, more)

    async def _admitted(self, scope: Scope) -> FleetNode:
        """Returns the node whose token was sent, before its body is read."""
        if scope["method"] != "POST":
            raise Refused(405, "method", "heartbeats are sent with POST")
        token = shown_key(scope["headers"])
        node = None if not token else self._hub.reporter(token)
        if node is None and token and time.monotonic() - self._looked_up_at > LOOKUP_SECONDS:
            self._looked_up_at = time.monotonic()  # it may have been added just now, at another hub
            with suppress(AndonError):
                await self._in_thread(lambda: self._hub.nodes(0.0))
            node = self._hub.reporter(token)
        if node is None and token and self._hub.read_at < self._looked_up_at:  # it may be good
            self._count(scope, "store", "the tokens of nodes cannot be read")
            raise Unavailable("the hub cannot check tokens now", hint="its log says why")
        if node is None:
            hint = "andon nodes add NAME prints the token of a node"
            raise Refused(401, "token", "no node of this hub has this token", hint)
        seat: Seat | None = (scope.get("state") or {}).get(SEAT)
        if seat is not None:
            seat.let_in()
        return node

    async def _taken(self, path: str, node: FleetNode, body: bytes) -> bytes:
        at = time.time()
        if not body:
            pass  # a node that starts asks whether it may report
        elif path == PAST:
            await self._past(node, body)
        else:
            await self._beat(node, body, at)
        answer = {"at": at, "drained": node.drained, "notifies": self._hub.notifies}
        return wire.dumps(answer).encode()

    async def _past(self, node: FleetNode, body: bytes) -> None:
        if not self._is_next(node.name):
            raise Unavailable("the hub takes what other nodes sent first", hint="send it again")
        self._pasts.add(node.name)
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._past_pool, self._take_in_turn, node, body)
        except Invalid as wrong:
            raise Refused(422, "invalid", wrong.reason, wrong.hint) from wrong
        finally:
            self._pasts.discard(node.name)

    def _take_in_turn(self, node: FleetNode, body: bytes) -> None:
        """Stores a part of a past between reports, then pauses for a tenth of the time that it
        took: after an outage all nodes send both."""
        self._stored.wait(PATIENT_SECONDS)
        began = time.monotonic()
        self._take_past(node, body)
        time.sleep(min(1.0, 0.1 * (time.monotonic() - began)))

    def _is_next(self, name: str) -> bool:
        """Whether a node may send a part of its past now: one at a time, and those that were asked
        to come again first."""
        now = time.monotonic()
        self._next = {one: at for one, at in self._next.items() if now - at < TURN_SECONDS}
        if name in self._pasts:
            return False
        before = 0 if name in self._next else len(self._next)
        if len(self._pasts) + before >= MOST_PASTS:
            self._next[name] = now
            return False
        self._next.pop(name, None)
        return True

    async def _beat(self, node: FleetNode, body: bytes, at: float) -> None:
        try:
            beat, digest = read_heartbeat(body, node.name, at)
        except Invalid as wrong:
            kind = "version" if wrong.reason == NEWER else "invalid"
            raise Refused(422, kind, wrong.reason, wrong.hint) from wrong
        if node.name in self._pending:
            raise Refused(429, "too_many", "another heartbeat of this node waits to be stored")
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pending[node.name] = beat, future
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_later(self._batch_seconds, self._start)
        if not await future:
            reason = "this heartbeat, or a later one, was taken already"
            raise Refused(409, "repeated", reason)
        self._hub.hear(beat, digest)

    def _start(self) -> None:
        """Commits what has come. While a commit is under way, more is gathered for the next one: a
        slow disk makes batches larger, not many."""
        self._overdue = not self._stored.is_set()
        if self._overdue:
            return
        self._stored.clear()
        pending, self._pending = self._pending, {}
        task = asyncio.ensure_future(self._commit([*pending.values()]))
        task.add_done_callback(self._committed)

    def _committed(self, done: asyncio.Future[None]) -> None:
        done.exception()
        self._stored.set()
        if self._overdue:
            self._start()

    async def _commit(self, pending: list[Pending]) -> None:
        beats = [beat for beat, _ in pending]
        try:
            new = await self._in_thread(lambda: self._hub.store.take(beats))
        except Exception as exc:  # noqa: BLE001 - whoever waits is answered, whatever it is
            found = (
                exc if isinstance(exc, AndonError) else Unavailable(f"{type(exc).__name__}: {exc}")
            )
            self._count(None, "store", found.reason)
            self._hub.trouble, self._hub.failed_at = found, time.monotonic()
            failed = Unavailable("the hub cannot store it now", hint="its log says why")
            for _, future in pending:
                if not future.done():
                    future.set_exception(failed)
            return
        self._hub.trouble = None
        known = {(beat.node, beat.session, beat.sequence) for beat in new}
        for beat, future in pending:
            if not future.done():
                future.set_result((beat.node, beat.session, beat.sequence) in known)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _count(self, scope: Scope | None, kind: str, reason: str) -> None:
        """Counts a refusal, and logs it once a minute for its kind."""
        self._hub.refused[kind] += 1
        times = self._refusals.happened(kind, time.monotonic())
        if times is not None:
            peer = "" if scope is None else f" from {(scope.get('client') or ('?',))[0]}"
            log.warning("refused %d heartbeats%s: %s", times, peer, reason)


async def _body(scope: Scope, receive: Receive) -> bytes:
    sizes = texts(scope["headers"], b"content-length")
    if len(sizes) != 1 or not sizes[0].isdecimal():
        raise Refused(411, "invalid", "the length of the body is missing", "send Content-Length")
    if len(sizes[0]) > 9 or int(sizes[0]) > MOST_BODY_BYTES:
        hint = f"the maximum is {MOST_BODY_BYTES} bytes"
        raise Refused(413, "too_large", "the request body is too large", hint)
    body = await read_body(receive)
    if body is None:
        raise Refused(400, "invalid", "the client disconnected")
    return body
