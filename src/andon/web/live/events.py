"""Live events over Socket.IO: a client whose bounded outbound queue overflows is disconnected."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from msgspec import Struct, field
from socketio.exceptions import ConnectionRefusedError as Refused

from andon.access.gate import LIVE, UNCHECKED, ShownKey
from andon.access.lockout import Lockout
from andon.access.roles import ANONYMOUS, Identity, Sight, sight_of
from andon.errors import AndonError
from andon.explain.conditions.rulebook import Rulebook
from andon.model import wire
from andon.model.alert import Alert
from andon.model.codec import document, to_json
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.node.seen.node import SeenNode
from andon.node.served import ServedNode
from andon.sampling.rules import timing
from andon.settings.resolution import Settings
from andon.web.answers import payloads
from andon.web.bindings.live_server import LiveServer, Prepared
from andon.web.live.frames import EVENTS, LiveTally
from andon.web.live.requests import VISITOR
from andon.web.live.run_watch import MOST_RUNS, is_too_many, run_in
from andon.web.live.transport import Transport
from andon.web.live.visitors import Visitor, Visitors
from andon.web.live.watch import Watch, prepared
from andon.web.transport.headers import App, Receive, Scope, Send
from andon.web.transport.keys import Keys

UPDATE_SECONDS = 5.0
MOST_ALERTS = 512  # waiting to be sent; /api/alerts has them all
SLOW_END = "disconnecting a slow client"
EVERYONE = "everyone"
SNAPSHOT = "snapshot"


class LiveClient(Struct):
    """One client that has joined, and its subscriptions."""

    visitor: Visitor
    node: SeenNode
    wants: set[str] = field(default_factory=set)
    greeted: bool = False  # has been sent the last snapshot


class Live:
    """Sends snapshots to clients; it never waits for one, and sampling never waits for it."""

    def __init__(
        self,
        node: ServedNode,
        keys: Keys,
        lockout: Lockout,
        settings: Settings,
        watches: Sequence[Watch],
    ) -> None:
        self._node, self._keys, self._lockout = node, keys, lockout
        self._settings, self._watches = settings, watches
        self._rounds: dict[str, asyncio.Task[None]] = {}  # that goes on, of each watch
        self._leases: LeaseList | None = None
        self._alerts: deque[Alert] = deque(maxlen=MOST_ALERTS)
        self._clients: dict[str, LiveClient] = {}
        self._seen: WeakValueDictionary[Sight, SeenNode] = WeakValueDictionary()
        self._troubles: dict[str, str] = {}  # of the last update of each kind
        self._newest: Snapshot | None = None
        self._unseen: Snapshot | None = None  # the last one that nobody was connected for
        self._slot: int | None = None
        self._busy: frozenset[str] = frozenset()
        self._came = asyncio.Event()
        self._visitors, self._tally = Visitors(), LiveTally()
        self._server = LiveServer(self._tally, self._began, self._ended)
        self._transport = Transport(self._server, self._visitors, keys, self._tally)
        for name in ("connect", "disconnect", *sorted(EVENTS)):
            self._server.on(name, getattr(self, f"_{name}"))

    # For the rest of the server.

    def over(self, app: App) -> App:
        """The application with live events in front of it, at one path."""

        async def entered(scope: Scope, receive: Receive, send: Send) -> None:
            await (self._transport if scope.get("path") == LIVE else app)(scope, receive, send)

        return entered

    def is_admitted(self, connection: str) -> bool:
        """Whether the gate has admitted this connection before."""
        return self._visitors.of(connection) is not None

    def health(self) -> wire.Json:
        troubles = sorted(self._troubles.values())
        return {
            "state": "degraded" if troubles else "ok",
            "reason": "; ".join(troubles) or None,
            "clients": len(self._clients),
            "dropped": self._tally.dropped,
            "refused": self._tally.refused,
            "malformed": self._tally.malformed,
            "errors": self._tally.errors,
        }

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Publish every new snapshot while the server runs."""
        loop, self._came = asyncio.get_running_loop(), asyncio.Event()

        def arrived(snapshot: Snapshot) -> None:
            """Wakes the event loop for a snapshot, but not while nobody is connected."""
            if self._visitors or self._troubles:
                loop.call_soon_threadsafe(self._arrived, snapshot)
            else:
                self._unseen = snapshot

        def alerted(changed: tuple[Alert, ...]) -> None:
            loop.call_soon_threadsafe(self._alerted, changed)

        def leased(found: LeaseList) -> None:
            loop.call_soon_threadsafe(self._leased, found)

        node = self._node
        leaving = [node.live.listen(arrived), node.alerts.subscribe(alerted)]
        leaving += [node.leases.book.subscribe(leased)] if node.leases.supported else []
        pump = asyncio.create_task(self._pump())
        try:
            yield
        finally:
            for leave in leaving:
                leave()
            for task in (pump, *self._rounds.values()):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    # What is published.

    def _arrived(self, snapshot: Snapshot) -> None:
        self._newest = snapshot
        self._came.set()

    def _alerted(self, changed: tuple[Alert, ...]) -> None:
        self._alerts.extend(changed)
        self._came.set()

    def _leased(self, found: LeaseList) -> None:
        """Takes the whole list of leases; a newer one replaces one that was not sent yet."""
        self._leases = found
        self._came.set()

    async def _pump(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            newest, self._newest = self._newest, None
            await self._tried("alerts", self._publish_alerts())
            await self._tried("leases", self._publish_leases())
            if newest is not None:
                await self._tried("finding slow clients", self._drop_the_slow())
                await self._tried("snapshots", self._publish(newest))

    async def _tried(self, what: str, work: Awaitable[None]) -> None:
        """Publishes one kind of update; a failure affects no other, and /api/health shows it."""
        if await self._tally.tried(what, work):
            self._troubles.pop(what, None)
        else:
            self._troubles[what] = f"{what}: the last attempt failed"

    async def _publish_alerts(self) -> None:
        while self._alerts:
            alert = self._alerts.popleft()
            for node in {client.node for client in self._clients.values()}:
                shown = to_json(node.alerts.seen(alert))
                await self._emit("alert", shown, _room("alerts", node.sight))

    async def _publish_leases(self) -> None:
        found, self._leases = self._leases, None
        if found is not None and self._clients:
            shown = SeenNode(self._node, ANONYMOUS).leases.seen(found)
            await self._emit("leases", prepared(document(shown)), EVERYONE)

    async def _publish(self, snapshot: Snapshot) -> None:
        unseen, self._unseen = self._unseen, None
        before = self._busy if unseen is None else self._busy_in(unseen)
        self._busy = self._busy_in(snapshot)
        risen = self._busy - before
        slot = timing.slot(time.monotonic(), UPDATE_SECONDS)
        due, self._slot = slot != self._slot, slot
        if not self._clients:
            return
        self._node.live.mark_watched()
        if due:
            await self._emit("gpu_status_update", self._summary(snapshot), EVERYONE)
        if risen:
            await self._emit("high_gpu_usage_alert", self._high_usage(snapshot, risen), EVERYONE)
        for node in {c.node for c in self._clients.values() if SNAPSHOT in c.wants}:
            text = node.live.text(snapshot)
            await self._emit("snapshot", Prepared(text), _room("snapshot", node.sight))
        self._begin_rounds()

    def _begin_rounds(self) -> None:
        """Each watch publishes in a task of its own, one round at a time: a folder may hang."""
        wants: dict[str, set[SeenNode]] = {}
        for client in self._clients.values():
            for what in client.wants - {SNAPSHOT}:
                wants.setdefault(what, set()).add(client.node)
        for watch in self._watches:
            name, _, _ = watch.events.partition(",")
            going = self._rounds.get(name)
            its = {what: nodes for what, nodes in wants.items() if watch.takes(what)}
            if going is not None and not going.done():
                continue
            if its:
                work = self._tried(name, watch.publish(its, self._emit_seen))
                self._rounds[name] = asyncio.ensure_future(work)
            else:
                watch.forget()

    async def _emit_seen(self, event: str, text: Prepared, what: str, sight: Sight) -> None:
        await self._emit(event, text, _room(what, sight))

    async def _drop_the_slow(self) -> None:
        self._troubles.pop(SLOW_END, None)
        for connection in self._server.slow():
            self._tally.drop()
            if not await self._tally.tried(SLOW_END, self._drop(connection)):
                self._troubles[SLOW_END] = "a slow client cannot be disconnected"

    async def _drop(self, connection: str) -> None:
        visitor = self._visitors.of(connection)
        if visitor is not None:
            await self._transport.end(visitor)
        else:
            await self._server.end(connection)

    async def _emit(self, event: str, value: wire.Json | Prepared, to: str) -> None:
        await self._server.emit(event, value, to=to)

    def _busy_in(self, snapshot: Snapshot) -> frozenset[str]:
        """The devices above the rule's threshold: each is reported once when it rises above."""
        return payloads.busy_uuids(snapshot, self._node.alerts.rulebook)

    def _high_usage(self, snapshot: Snapshot, uuids: frozenset[str]) -> wire.Json:
        book = self._node.alerts.rulebook or Rulebook()
        return payloads.high_usage(snapshot, uuids, book.thresholds.high_usage_percent)

    def _summary(self, snapshot: Snapshot) -> wire.Json:
        return payloads.gpu_summary(snapshot, self._settings)

    # Requests of clients. These never wait: a new client's first event follows its acceptance.

    def _began(self, connection: str, scope: Scope) -> None:
        self._visitors.began(scope[VISITOR], connection)

    def _ended(self, connection: str) -> None:
        self._transport.ended(connection)

    async def _connect(self, sid: str, _environ: object, auth: object = None) -> None:
        """Admits a client; its rights come from the table of visitors alone."""
        visitor = self._visitors.of(self._server.connection_of(sid))
        if visitor is None or visitor.joined:
            raise Refused("this connection has no handshake")
        self._grade(auth, visitor)
        visitor.joined = True
        self._clients[sid] = LiveClient(visitor, self._node_for(visitor.who))
        self._transport.start(self._welcome(sid))

    def _node_for(self, who: Identity) -> SeenNode:
        """Returns the node as this caller sees it: the same for all who see the same."""
        return self._seen.setdefault(sight_of(who), SeenNode(self._node, who))

    def _grade(self, auth: object, visitor: Visitor) -> None:
        """Check the key in Socket.IO's connect packet; a wrong one is refused and counted."""
        shown = auth.get("token") if isinstance(auth, dict) else None
        secret = shown if isinstance(shown, str) else None
        key, who = self._keys.identify(secret)
        if key.is_right and self._transport.tie(visitor, secret or ""):
            self._visitors.trust(visitor, who)
        elif key is ShownKey.UNCHECKED:
            raise Refused(UNCHECKED.reason)
        elif key is not ShownKey.NONE:
            self._refuse_key(visitor.address)

    def _refuse_key(self, address: str | None) -> None:
        if not self._lockout.wait_seconds(address, time.monotonic()):
            self._lockout.failed(address, time.monotonic())
            raise Refused("wrong token for this server")
        raise Refused("too many wrong tokens from this address")

    async def _welcome(self, sid: str) -> None:
        """Adds a client to its rooms and sends the first data; the library forgets one that has
        disconnected already."""
        client = self._clients.get(sid)
        if client is None:
            return
        await self._server.enter_room(sid, EVERYONE)
        await self._server.enter_room(sid, _room("alerts", client.node.sight))
        with suppress(AndonError):  # no snapshot yet: the first update will have it
            snapshot = self._node.live.latest()
            await self._emit("gpu_status", self._summary(snapshot), sid)
            busy = self._busy_in(snapshot)
            if busy:
                await self._emit("high_gpu_usage_alert", self._high_usage(snapshot, busy), sid)

    async def _disconnect(self, sid: str, _reason: object = None) -> None:
        """Ends the connection when its client leaves the namespace."""
        client = self._clients.pop(sid, None)
        if client is not None:
            self._transport.start(self._transport.end(client.visitor))

    async def _request_gpu_update(self, sid: str, _data: object = None) -> None:
        with suppress(AndonError):
            await self._emit("gpu_status_update", self._summary(self._node.live.latest()), sid)

    async def _subscribe(self, sid: str, what: object = "snapshot") -> wire.Json:
        return await self._want(sid, what, True)

    async def _unsubscribe(self, sid: str, what: object = "snapshot") -> wire.Json:
        return await self._want(sid, what, False)

    async def _want(self, sid: str, what: object, wanted: bool) -> wire.Json:
        client = self._clients.get(sid)
        if client is None or not isinstance(what, str) or not self._is_event(what):
            reason = "no such event to subscribe to"
            return {"error": {"kind": "gone", "reason": reason, "hint": self._events()}}
        if wanted and what not in client.wants and run_in(what) and is_too_many(client.wants):
            reason = f"one client can follow at most {MOST_RUNS} runs"
            return {"error": {"kind": "conflict", "reason": reason, "hint": "unsubscribe"}}
        (client.wants.add if wanted else client.wants.discard)(what)
        change = self._server.enter_room if wanted else self._server.leave_room
        await change(sid, _room(what, client.node.sight))
        if what == SNAPSHOT and wanted and not client.greeted:
            client.greeted = True
            with suppress(AndonError):  # the next one may be a minute away
                await self._emit("snapshot", Prepared(client.node.live.text()), sid)
        for watch in self._watches if wanted else ():
            with suppress(AndonError):  # its next round has it
                if watch.takes(what) and (first := await watch.first(client.node)) is not None:
                    await self._emit(*first, sid)
        return {"subscribed": sorted(client.wants)}

    def _is_event(self, what: str) -> bool:
        return what == SNAPSHOT or any(watch.takes(what) for watch in self._watches)

    def _events(self) -> str:
        return ", ".join((SNAPSHOT, *(watch.events for watch in self._watches)))


def _room(what: str, sight: Sight) -> str:
    """Returns the room of a subscription: clients with the same rights get the same text."""
    if sight.everything:
        return f"{what} with all commands"
    return what if sight.user is None else f"{what} with the commands of {sight.user}"
