"""Live events over Socket.IO: every client has a bounded outbox, and one that overruns it goes."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import socketio
from socketio.exceptions import ConnectionRefusedError as Refused

from andon.core import cadence
from andon.core.access import LIVE, Key
from andon.core.lockout import Lockout
from andon.errors import AndonError
from andon.model import wire
from andon.model.alert import Alert
from andon.model.alert_wire import alert_to_json
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.web import alert_payloads, lease_payloads, payloads
from andon.web.asgi import App, Receive, Scope, Send
from andon.web.auth import TRUSTED
from andon.web.keys import Keys
from andon.web.lines import Line, Outbox
from andon.web.packets import Packet, Prepared
from andon.web.problems import problem
from andon.web.station import Station
from andon.web.texts import SnapshotTexts

if TYPE_CHECKING:
    from andon.engine.lender import Lender
    from andon.engine.watcher import Watcher

log = logging.getLogger("andon.web")

UPDATE_SECONDS = 5.0
MAX_CLIENTS = 1000
MAX_MESSAGE_BYTES = 64_000  # clients have little to say
MOST_ALERTS = 512  # that wait to be sent; the list has them all
EVERYONE = "everyone"
TRUST = {False: "strangers", True: "trusted"}
ROOMS = {False: "snapshot", True: "snapshot with commands"}
_LINE = "andon.line"


@dataclass(slots=True)
class Client:
    """One connection, and what it asked for."""

    connection: str
    trusted: bool
    wants: set[str] = field(default_factory=set)


class Live:
    """Hands snapshots to clients; nothing here waits for one, and sampling waits for nobody."""

    def __init__(
        self,
        station: Station,
        keys: Keys,
        lockout: Lockout,
        texts: SnapshotTexts,
        clock: Callable[[], float] = time.monotonic,
        watcher: "Watcher | None" = None,
        lender: "Lender | None" = None,
    ) -> None:
        self._station, self._keys, self._lockout, self._clock = station, keys, lockout, clock
        self._texts = texts
        self._watcher, self._lender = watcher, lender
        self._leases: LeaseList | None = None
        self._alerts: deque[Alert] = deque(maxlen=MOST_ALERTS)
        self._clients: dict[str, Client] = {}
        self._lines: dict[str, Line] = {}
        self._dropped = 0
        self._newest: Snapshot | None = None
        self._slot: int | None = None
        self._busy: frozenset[str] = frozenset()
        self._came: asyncio.Event | None = None
        self._server = socketio.AsyncServer(
            async_mode="asgi",
            serializer=Packet,
            cors_allowed_origins=[],  # the gate checks origins; no CORS header is ever sent
            max_http_buffer_size=MAX_MESSAGE_BYTES,
            async_handlers=False,  # a client's requests wait for each other, not in memory
            http_compression=False,
        )
        setattr(self._server.eio, "create_queue", Outbox)  # noqa: B010 (an instance's method)
        for name in ("connect", "disconnect", "request_gpu_update", "subscribe", "unsubscribe"):
            self._server.on(name, getattr(self, f"_{name}"))

    # For the rest of the server.

    def over(self, app: App) -> App:
        """The application with /socket.io/ in front of it."""
        inner = socketio.ASGIApp(self._server, app)

        async def entered(scope: Scope, receive: Receive, send: Send) -> None:
            if not scope.get("path", "").startswith(LIVE):
                await inner(scope, receive, send)
            elif scope["type"] == "websocket":
                await self._websocket(inner, scope, receive, send)
            elif self._is_full() and not _connection(scope):
                await _full(send)
            else:
                await inner(scope, receive, send)

        return entered

    def is_admitted(self, connection: str) -> bool:
        """Whether the gate let this connection in before."""
        return connection in self._server.eio.sockets

    def health(self) -> wire.Json:
        return {
            "state": "ok",
            "reason": None,
            "clients": len(self._clients),
            "dropped": self._dropped,
        }

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Publish what the station hears, as long as the server runs."""
        loop, self._came = asyncio.get_running_loop(), asyncio.Event()

        def arrived(snapshot: Snapshot) -> None:
            loop.call_soon_threadsafe(self._arrived, snapshot)

        def alerted(changed: tuple[Alert, ...]) -> None:
            loop.call_soon_threadsafe(self._alerted, changed)

        self._station.listen(arrived)

        def leased(found: LeaseList) -> None:
            loop.call_soon_threadsafe(self._leased, found)

        leaving = [self._watcher.subscribe(alerted)] if self._watcher else []
        leaving += [self._lender.subscribe(leased)] if self._lender else []
        pump = asyncio.create_task(self._pump(self._came))
        try:
            yield
        finally:
            self._station.unlisten(arrived)
            for leave in leaving:
                leave()
            pump.cancel()
            with suppress(asyncio.CancelledError):
                await pump

    # What is told.

    def _arrived(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        if self._came is not None:
            self._came.set()

    def _alerted(self, changed: tuple[Alert, ...]) -> None:
        self._alerts.extend(changed)
        if self._came is not None:
            self._came.set()

    def _leased(self, found: LeaseList) -> None:
        """The whole list: a newer one takes the place of one that was not sent yet."""
        self._leases = found
        if self._came is not None:
            self._came.set()

    async def _pump(self, came: asyncio.Event) -> None:
        while True:
            await came.wait()
            came.clear()
            newest, self._newest = self._newest, None
            try:
                await self._publish_alerts()
                await self._publish_leases()
                if newest is not None:
                    await self._publish(newest)
            except Exception:
                log.exception("an update failed; the next one is tried")

    async def _publish_alerts(self) -> None:
        while self._alerts:
            alert = self._alerts.popleft()
            await self._emit("alert", alert_to_json(alert), TRUST[True])
            shown = alert_payloads.for_strangers(alert)
            await self._emit("alert", alert_to_json(shown), TRUST[False])

    async def _publish_leases(self) -> None:
        found, self._leases = self._leases, None
        if found is not None and self._clients:
            text = lease_payloads.text(found, trusted=False)
            await self._emit("leases", Prepared(text), EVERYONE)

    async def _publish(self, snapshot: Snapshot) -> None:
        await self._drop_the_slow()
        risen, self._busy = _risen(self._busy, self._busy_in(snapshot))
        slot = cadence.slot(self._clock(), UPDATE_SECONDS)
        due, self._slot = slot != self._slot, slot
        if not self._clients:
            return
        self._station.looked()
        if due:
            await self._emit("gpu_status_update", self._summary(snapshot), EVERYONE)
        if risen:
            await self._emit("high_gpu_usage_alert", self._high_usage(snapshot, risen), EVERYONE)
        for trusted, room in ROOMS.items():
            if any("snapshot" in c.wants and c.trusted == trusted for c in self._clients.values()):
                await self._emit("snapshot", Prepared(self._texts.of(snapshot, trusted)), room)

    async def _drop_the_slow(self) -> None:
        sockets = self._server.eio.sockets
        for connection, socket in list(sockets.items()):
            if socket.queue.overrun:
                self._dropped += 1
                log.warning("a client does not keep up and is dropped")
                if connection in self._lines:
                    self._lines[connection].cut()
                await socket.close(wait=False, abort=True)
                sockets.pop(connection, None)

    async def _emit(self, event: str, value: wire.Json | Prepared, to: str) -> None:
        await self._server.emit(event, value, to=to)

    def _busy_in(self, snapshot: Snapshot) -> frozenset[str]:
        """Those above the threshold of the rule: each is told once when it comes there."""
        return payloads.busy_uuids(snapshot, self._watcher.rulebook if self._watcher else None)

    def _high_usage(self, snapshot: Snapshot, uuids: frozenset[str]) -> wire.Json:
        if self._watcher is None:
            return payloads.high_usage(snapshot, uuids)
        return payloads.high_usage(
            snapshot, uuids, self._watcher.rulebook.thresholds.high_usage_percent
        )

    def _summary(self, snapshot: Snapshot) -> wire.Json:
        return payloads.gpu_summary(snapshot, self._station.settings)

    # What clients ask. These never wait: a new client's first event follows its acceptance.

    async def _connect(self, sid: str, environ: dict[str, Any], auth: object = None) -> None:
        scope = environ["asgi.scope"]
        trusted = self._grade(auth, scope) or bool(scope.get(TRUSTED))
        connection = self._server.manager.eio_sid_from_sid(sid, "/")
        self._clients[sid] = Client(connection, trusted)
        if _LINE in scope:
            self._lines[connection] = scope[_LINE]
        self._server.start_background_task(self._welcome, sid)

    def _grade(self, auth: object, scope: Scope) -> bool:
        """The key in Socket.IO's own greeting; a wrong one is refused, and counted."""
        shown = auth.get("token") if isinstance(auth, dict) else None
        key = self._keys.grade(shown if isinstance(shown, str) else None)
        if key is not Key.WRONG:
            return key.is_right
        peer = (scope.get("client") or (None,))[0]
        if not self._lockout.wait_seconds(peer, self._clock()):
            self._lockout.failed(peer, self._clock())
            raise Refused("the token is not this server's")
        raise Refused("too many wrong tokens from this address")

    async def _welcome(self, sid: str) -> None:
        try:
            snapshot = self._station.latest()
        except AndonError:
            return  # the first update will tell
        await self._server.enter_room(sid, EVERYONE)
        client = self._clients.get(sid)
        if client is not None:
            await self._server.enter_room(sid, TRUST[client.trusted])
        await self._emit("gpu_status", self._summary(snapshot), sid)
        busy = self._busy_in(snapshot)
        if busy:
            await self._emit("high_gpu_usage_alert", self._high_usage(snapshot, busy), sid)

    async def _disconnect(self, sid: str, _reason: object = None) -> None:
        client = self._clients.pop(sid, None)
        if client is None:
            return
        self._lines.pop(client.connection, None)
        socket = self._server.eio.sockets.get(client.connection)
        if socket is not None:
            socket.queue.put_nowait(None)  # a poll that still waits would wait for nothing

    async def _request_gpu_update(self, sid: str, _data: object = None) -> None:
        with suppress(AndonError):
            await self._emit("gpu_status_update", self._summary(self._station.latest()), sid)

    async def _subscribe(self, sid: str, what: object = "snapshot") -> wire.Json:
        return await self._want(sid, what, True)

    async def _unsubscribe(self, sid: str, what: object = "snapshot") -> wire.Json:
        return await self._want(sid, what, False)

    async def _want(self, sid: str, what: object, wanted: bool) -> wire.Json:
        client = self._clients.get(sid)
        if client is None or what != "snapshot":
            reason = "there is no such event to subscribe to"
            return {"error": {"kind": "gone", "reason": reason, "hint": "snapshot"}}
        (client.wants.add if wanted else client.wants.discard)("snapshot")
        room = ROOMS[client.trusted]
        change = self._server.enter_room if wanted else self._server.leave_room
        await change(sid, room)
        return {"subscribed": sorted(client.wants)}

    # The connections.

    def _is_full(self) -> bool:
        return len(self._server.eio.sockets) >= MAX_CLIENTS

    async def _websocket(self, inner: App, scope: Scope, receive: Receive, send: Send) -> None:
        known = _connection(scope)
        if self._is_full() and known is None:
            await receive()
            await send({"type": "websocket.close", "code": 1013, "reason": "too many clients"})
            return
        line = scope[_LINE] = Line(inner(scope, receive, send))
        if known is not None and self.is_admitted(known):
            self._lines[known] = line
        await line.held()


def _connection(scope: Scope) -> str | None:
    found = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("sid")
    return found[0] if found else None


async def _full(send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"10")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    body = problem(503, f"{MAX_CLIENTS} clients are connected", "try again later")
    await send({"type": "http.response.body", "body": body})


def _risen(before: frozenset[str], busy: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The devices that have come above the threshold, and all that are: one alert per episode."""
    return busy - before, busy
