"""Takes a node's snapshots in a thread of its own and judges them: nothing delays a key."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, field

from andon.alerts.rules import state_machine
from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import LampBoard, board
from andon.alerts.rules.state import EMPTY
from andon.errors import AndonError
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.host.clock import clocks
from andon.model.alert import Alert
from andon.model.device import Snapshot
from andon.model.naming import chosen_uuids, only

if TYPE_CHECKING:
    from andon.node.port import Node

MOST_SNAPSHOTS = 120  # snapshots, for the explanation on a device's page
RETRY_SECONDS = 2.0
RETURN_SECONDS = 3.0  # between two looks for a server, at first or after it went away
WAIT_SECONDS = 0.5  # how long a session may block before the next attempt


class Tick(Struct, frozen=True):
    """A snapshot with its lamps and alerts; or only a message."""

    snapshot: Snapshot | None = None
    lamps: LampBoard | None = None
    alerts: tuple[Alert, ...] = ()
    source: str = ""
    replay: str | None = None
    notice: str | None = None


class SharedAlerts(Struct):
    """The alerts of a server (None without a server; the background reader reads them), and the
    last snapshots."""

    alerts: tuple[Alert, ...] | None = None
    lamps: LampBoard | None = None
    past: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=MOST_SNAPSHOTS))


class Feed:
    """One thread; `tell` is called in it with each tick and must not block."""

    def __init__(self, node: "Node", rulebook: Rulebook, interval_seconds: float) -> None:
        self._node, self.rulebook, self._interval = node, rulebook, interval_seconds
        self._state = EMPTY
        self.shared = SharedAlerts()
        self.remembered: Sequence[Snapshot] = ()  # of the last minutes, by a server
        self.devices: set[str] | None = None  # the uuids to show; None: all
        self.names: Sequence[str] = ()  # of the devices to show, until a snapshot tells which
        self._on_tick: Callable[[Tick], None] | None = None
        self._over, self._found = threading.Event(), self._server()
        self._take_from(self._found or node)
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._handing = threading.Lock()
        self._waiting: deque[Tick] = deque(maxlen=8)
        self._pending: str | None = None
        self._first = threading.Event()
        self._reported_away = False

    @property
    def is_server(self) -> bool:
        return self.shown.url is not None

    def start(self) -> None:
        if self._found is None and not (self._node.simulated or self._node.recording):
            self._search_server()  # it may be slow, or start
        self._thread.start()

    def first(self, seconds: float) -> Tick | None:
        """Returns the first tick, for a picture before the app is imported."""
        self._first.wait(seconds)
        return next((tick for tick in reversed(self._waiting) if tick.snapshot), None)

    def attach(self, on_tick: Callable[[Tick], None]) -> None:
        """Sends ticks to `tell` from now on, beginning with those received so far."""
        with self._handing:
            self._on_tick = on_tick
            while self._waiting:
                on_tick(self._waiting.popleft())
            if self._pending is not None:
                on_tick(Tick(notice=self._pending))

    def pace(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self._session.pace(interval_seconds)

    def pause(self, paused: bool) -> None:
        """Pauses a recording; a live picture is frozen by the app instead."""
        if self._session.playing is not None:
            self._session.playing.pause(paused)

    def step(self, by: int) -> None:
        if self._session.playing is not None:
            self._session.playing.step(by)

    def close(self) -> None:
        self._over.set()
        self._session.close()

    # The thread.

    def _run(self) -> None:
        while not self._over.is_set():
            if self._found is not None and self._found is not self.shown:
                self._session.close()
                self._take_from(self._found)  # it answers again: one sampler for all viewers
                self._reported_away = True
            try:
                snapshot = self._session.get(WAIT_SECONDS)
            except AndonError as error:
                self._without(error)
                continue
            if snapshot is not None and not self._over.is_set():
                self._take(snapshot)

    def _take_from(self, node: "Node") -> None:
        self.shown, self.source = node, node.url or ""
        self._session = node.live.subscribe(self._interval, watching=True, stays=True)

    def _server(self) -> "Node | None":
        """Returns the node behind the named server, or behind the one that watches this node."""
        with suppress(AndonError):
            server = self._node.shared()
            if server is not None and server is not self._node:
                self.remembered = server.live.minutes()
            return server
        return None

    def _search_server(self) -> None:
        """Looks for a server in a thread, because a request may take long."""

        def search() -> None:
            while self._found is None and not self._over.wait(RETURN_SECONDS):
                self._found = self._server()

        threading.Thread(target=search, name="server return", daemon=True).start()

    def read_alerts(self, snapshot: Snapshot) -> None:
        """Reads the server's alerts; if it cannot or may not show them, they are evaluated here."""
        found = None
        if self.is_server:
            with suppress(AndonError):
                page = self.shown.alerts.page()
                same = (page.node, page.simulated) == (snapshot.node, snapshot.simulated)
                found = page.alerts if same else None
        self.shared.alerts = found

    def _take(self, snapshot: Snapshot) -> None:
        if not self.shared.past:
            self.read_alerts(snapshot)  # else an old alert would begin in the first picture
        self.shared.past.append(snapshot)
        alerts = self._judged(snapshot)
        lamps = self.shared.lamps = board(snapshot, alerts)
        notice = self._find_named(snapshot)
        shown = snapshot if self.devices is None else only(snapshot, self.devices)
        place = self._session.playing.place() if self._session.playing is not None else None
        if self._reported_away and self.is_server:
            self._reported_away, notice = False, f"{self.source} is responding"
        self._give(Tick(shown, lamps, alerts, self.source, place, notice))

    def _find_named(self, snapshot: Snapshot) -> str | None:
        """Returns the error for wrong device names, unless a snapshot has shown it before."""
        names, self.names = self.names, ()
        try:
            self.devices = chosen_uuids(snapshot, names) if names else self.devices
        except AndonError as error:
            return f"{error.reason}; all devices are shown"
        return None

    def _judged(self, snapshot: Snapshot) -> tuple[Alert, ...]:
        """Returns the server's alerts, or without a server those by the same rules."""
        if self.shared.alerts is not None:
            return self.shared.alerts
        seen = Observation(snapshot, snapshot.events)
        self._state = state_machine.step(self._state, seen, Moment(*clocks()), self.rulebook).state
        return current(self._state)

    def _without(self, error: AndonError) -> None:
        """Samples this node as its server does not answer; for another machine, retries."""
        if self.shown is not self._node:
            # The line is cut where the terminal ends: what is done comes before the reason.
            notice = f"reading the devices directly from now on: {error.reason}"
            self._session.close()
            self.shared.alerts = self._found = None
            self._take_from(self._node)
            self._search_server()
            self._give(Tick(notice=notice))
            return
        if not self._reported_away:
            self._reported_away = True
            self._give(Tick(notice=f"{error.reason}; retrying"))
        time.sleep(RETRY_SECONDS)

    def _give(self, tick: Tick) -> None:
        with self._handing:
            if self._on_tick is None:
                self._waiting.append(tick)
                self._pending = tick.notice or self._pending  # old ticks are dropped, this is not
            else:
                self._on_tick(tick)
        if tick.snapshot is not None:
            self._first.set()
