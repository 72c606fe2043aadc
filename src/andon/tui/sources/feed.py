"""Takes snapshots in a thread of its own and judges them: no driver or server delays a key."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from andon.alerts.rules import state_machine
from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import LampBoard, board
from andon.alerts.rules.state import EMPTY
from andon.cli.sources import node_of, rulebook_of, settings_of
from andon.cli.terminal import Choices
from andon.errors import AndonError
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.host.clock import clocks
from andon.model.alert import Alert
from andon.model.device import Snapshot
from andon.model.naming import chosen_uuids, only
from andon.tui.sources.snapshots import (
    OwnSampler,
    Player,
    ServerReturn,
    ServerSnapshots,
    SnapshotSource,
    open_source,
)

KEPT = 120  # snapshots, for the explanation on a device's page
RETRY_SECONDS = 2.0


class Tick(Struct, frozen=True):
    """A snapshot with its lamps and alerts; or only a message."""

    snapshot: Snapshot | None = None
    lamps: LampBoard | None = None
    alerts: tuple[Alert, ...] = ()
    source: str = ""
    replay: str | None = None
    notice: str | None = None


class SharedAlerts(Struct):
    """The alerts of a server, read elsewhere (None without a server), and the last ones shown."""

    alerts: tuple[Alert, ...] | None = None
    lamps: LampBoard | None = None
    past: deque[Snapshot] = field(default_factory=lambda: deque(maxlen=KEPT))


class Feed:
    """One thread; `tell` is called in it with each tick and must not block."""

    def __init__(
        self, choices: Choices, interval_seconds: float, devices: set[str] | None = None
    ) -> None:
        self._choices, self._interval = choices, interval_seconds
        self._rulebook = rulebook_of(choices)
        self._state = EMPTY
        self.shared = SharedAlerts()
        self.devices = devices  # the uuids to show; None: all
        self.names: Sequence[str] = ()  # of the devices to show, until a snapshot tells which
        self._tell: Callable[[Tick], None] | None = None
        self._closed = False
        self.source: SnapshotSource = open_source(choices, interval_seconds)
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._handing = threading.Lock()
        self._waiting: deque[Tick] = deque(maxlen=8)
        self._unsaid: str | None = None
        self._first = threading.Event()
        self._told_away = False
        self._return: ServerReturn | None = None

    @property
    def rulebook(self) -> Rulebook:
        return self._rulebook

    @property
    def is_server(self) -> bool:
        return isinstance(self.source, ServerSnapshots)

    def start(self) -> None:
        if isinstance(self.source, OwnSampler) and not settings_of(self._choices).simulate:
            self._return = ServerReturn(self._choices, self._interval)  # it may be slow, or start
        self._thread.start()

    def first(self, seconds: float) -> Tick | None:
        """Returns the first tick, for the picture before anything else is imported."""
        self._first.wait(seconds)
        return next((tick for tick in reversed(self._waiting) if tick.snapshot), None)

    def attach(self, tell: Callable[[Tick], None]) -> None:
        """Sends ticks to `tell` from now on, beginning with those received so far."""
        with self._handing:
            self._tell = tell
            while self._waiting:
                tell(self._waiting.popleft())
            if self._unsaid is not None:
                tell(Tick(notice=self._unsaid))

    def pace(self, interval_seconds: float) -> None:
        self._interval = interval_seconds
        self.source.pace(interval_seconds)

    def pause(self, paused: bool) -> None:
        """Pauses a recording; a live picture is frozen by the app instead."""
        if isinstance(self.source, Player):
            self.source.pause(paused)

    def step(self, by: int) -> None:
        if isinstance(self.source, Player):
            self.source.step(by)

    def close(self) -> None:
        self._closed = True
        if self._return is not None:
            self._return.close()
        self.source.close()

    # The thread.

    def _run(self) -> None:
        while not self._closed:
            if self._return is not None and (server := self._return.found) is not None:
                self._come_back(server)
            try:
                snapshot = self.source.get()
            except AndonError as error:
                self._without(error)
                continue
            if snapshot is not None and not self._closed:
                self._take(snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        self.shared.past.append(snapshot)
        alerts = self._judged(snapshot)
        lamps = self.shared.lamps = board(snapshot, alerts)
        notice = self._find_named(snapshot)
        shown = snapshot if self.devices is None else only(snapshot, self.devices)
        place = self.source.place() if isinstance(self.source, Player) else None
        if self._told_away and isinstance(self.source, ServerSnapshots):
            self._told_away, notice = False, f"{self.source.words} is responding"
        self._give(Tick(shown, lamps, alerts, self.source.words, place, notice))

    def _find_named(self, snapshot: Snapshot) -> str | None:
        """The error for wrong device names, if no snapshot came in time to report it before."""
        names, self.names = self.names, ()
        try:
            self.devices = chosen_uuids(snapshot, names) if names else self.devices
        except AndonError as error:
            return f"{error.reason}; all devices are shown"
        return None

    def _judged(self, snapshot: Snapshot) -> tuple[Alert, ...]:
        """Returns the server's alerts, or without a server those of the same rules here."""
        if self.shared.alerts is not None:
            return self.shared.alerts
        seen = Observation(snapshot, snapshot.events)
        self._state = state_machine.step(self._state, seen, Moment(*clocks()), self._rulebook).state
        return current(self._state)

    def _without(self, error: AndonError) -> None:
        """Samples this node because its server does not answer; another machine's is retried."""
        if node_of(self._choices).url is None:
            # The line is cut where the terminal ends: what is done comes before the reason.
            words = f"reading the devices directly from now on: {error.reason}"
            self.source.close()
            self.shared.alerts = None
            self.source = OwnSampler(settings_of(self._choices), self._interval)
            self._return = ServerReturn(self._choices, self._interval)
            self._give(Tick(notice=words))
            return
        if not self._told_away:
            self._told_away = True
            self._give(Tick(notice=f"{error.reason}; retrying"))
        time.sleep(RETRY_SECONDS)

    def _come_back(self, server: ServerSnapshots) -> None:
        """Uses the server again because it answers: one sampler for all viewers."""
        self.source.close()
        server.pace(self._interval)
        self.source, self._return, self._told_away = server, None, True

    def _give(self, tick: Tick) -> None:
        with self._handing:
            if self._tell is None:
                self._waiting.append(tick)
                self._unsaid = tick.notice or self._unsaid  # old ticks are dropped, this is not
            else:
                self._tell(tick)
        if tick.snapshot is not None:
            self._first.set()
