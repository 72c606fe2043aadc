"""Where snapshots come from: this node's sampler, a server, or a recording that can be paused."""

import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from andon.app.leases import open_lease_tracker
from andon.app.sampler import open_sampler
from andon.cli.sources import node_of, settings_of
from andon.cli.terminal import Choices
from andon.errors import AndonError
from andon.host.files import expanded
from andon.model.device import Snapshot
from andon.node.latest_snapshot import filled
from andon.node.usual_server import may_be_running
from andon.settings.resolution import Settings
from andon.units import human_seconds

if TYPE_CHECKING:
    from andon.host.processes.facts import ProcessTable
    from andon.node.port import Node

RETURN_SECONDS = 3.0  # between two looks for a server, at first or after it went away
WAIT_SECONDS = 0.5  # how long a source may block before it is asked again


class SnapshotSource(Protocol):
    """Snapshots one after the other; `get` returns None when none arrived within a moment."""

    words: str

    def get(self) -> Snapshot | None: ...
    def pace(self, interval_seconds: float) -> None: ...
    def close(self) -> None: ...


class OwnSampler:
    """This node's devices, or simulated ones; a reader process calls the driver."""

    words = ""

    def __init__(self, settings: Settings, interval_seconds: float) -> None:
        with ExitStack() as stack:
            self._sampler = stack.enter_context(open_sampler(settings))
            self._session = self._sampler.subscribe(interval_seconds, watching=True, size=2)
            self._stack = stack.pop_all()
        self._settings: Settings | None = settings  # until the leases are tracked
        self._is_first = True

    def get(self) -> Snapshot | None:
        found = self._session.get(WAIT_SECONDS)
        if found is not None and self._is_first:
            self._is_first = False
        elif self._settings is not None and not self._is_first:
            self._track_leases(self._settings)
        return found

    def _track_leases(self, settings: Settings) -> None:
        """Starts tracking leases after the first picture, which would wait for the imports."""
        self._settings = None
        tracker = open_lease_tracker(settings, self._sampler)
        if tracker is not None:
            self._stack.callback(tracker.close)

    def pace(self, interval_seconds: float) -> None:
        self._session.pace(interval_seconds, time.monotonic())

    def close(self) -> None:
        self._session.close()
        self._stack.close()


class ServerSnapshots:
    """A server's devices. What it withholds of this machine's processes comes from /proc."""

    def __init__(
        self, node: "Node", interval_seconds: float, table: "ProcessTable | None" = None
    ) -> None:
        self.node, self.words = node, node.url or ""
        self._interval, self._table = interval_seconds, table
        self._due, self._last = 0.0, -1.0
        self._woken = threading.Event()
        self.remembered: list[Snapshot] = []  # of the last minutes, before the first reading

    def get(self) -> Snapshot | None:
        """Returns the next snapshot; raises AndonError if the server does not answer."""
        self._woken.clear()
        wait = self._due - time.monotonic()
        if wait > 0 and self._woken.wait(min(wait, WAIT_SECONDS)):
            return None
        if time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + self._interval
        snapshot = self.node.live.read()
        if snapshot.at == self._last:
            return None
        self._last = snapshot.at
        return self._filled(snapshot)

    def pace(self, interval_seconds: float) -> None:
        self._interval, self._due = interval_seconds, 0.0
        self._woken.set()

    def close(self) -> None:
        self._woken.set()

    def _filled(self, snapshot: Snapshot) -> Snapshot:
        if self._table is None:
            return snapshot
        return filled(snapshot, self._table)


class Player:
    """A recording at its own pace; it can be paused, and stepped through both ways."""

    words = ""

    def __init__(self, settings: Settings) -> None:
        from andon.drivers.replay.recording import Recording

        path = expanded(settings.replay)
        self._recording = Recording(str(path.absolute()), settings.replay_loop)
        self._name, self._speed = Path(path).name, settings.replay_speed
        self._elapsed, self._since = 0.0, time.monotonic()
        self._paused, self._shown = False, -1.0
        self._stepped: float | None = None  # where the last step went
        self._changed = threading.Condition()

    def get(self) -> Snapshot | None:
        with self._changed:
            snapshot, offset = self._moment()
            if snapshot is None:
                self._changed.wait(0.1)
                snapshot, offset = self._moment()
            if snapshot is None:
                return None
            self._shown = offset
        versions = {**snapshot.versions, "replay": f"{self._name}"}
        return replace(snapshot, versions=versions)

    def _moment(self) -> tuple[Snapshot | None, float]:
        found = self._recording.at(self._position())
        if found.offset_seconds == self._shown:
            return None, self._shown
        return found.snapshot, found.offset_seconds

    def _position(self) -> float:
        if self._paused:
            return self._elapsed
        return self._elapsed + (time.monotonic() - self._since) * self._speed

    def pause(self, paused: bool) -> None:
        with self._changed:
            self._elapsed, self._since = self._position(), time.monotonic()
            self._paused, self._stepped = paused, None
            self._changed.notify_all()

    def step(self, by: int) -> None:
        """Steps one snapshot forward or back, and stays paused there."""
        with self._changed:
            shown = self._shown if self._shown >= 0 else 0.0
            # A key may come before the last step was shown: the next one goes on from there.
            now = shown if self._stepped is None else self._stepped
            self._elapsed = self._stepped = self._recording.beside(now, by)
            self._paused = True
            self._changed.notify_all()

    def place(self) -> str:
        """Returns the recording's name, and how far it has been played."""
        shown = max(0.0, self._shown)
        return f"{self._name} +{human_seconds(shown) if shown >= 60 else f'{shown:.1f} s'}"

    def pace(self, interval_seconds: float) -> None:
        """Does nothing: a recording has its own pace."""

    def close(self) -> None:
        with self._changed:
            self._changed.notify_all()


def open_source(choices: Choices, interval_seconds: float) -> SnapshotSource:
    """The named server, a recording, simulated devices, the server that watches this machine, or
    this node's own sampler."""
    settings, node = settings_of(choices), node_of(choices)
    if node.recording:
        return Player(settings)
    return _of_server(choices, interval_seconds) or OwnSampler(settings, interval_seconds)


def _of_server(choices: Choices, interval_seconds: float) -> ServerSnapshots | None:
    """The named server; else the trusted one of this machine, if it watches real devices."""
    node = node_of(choices)
    try:
        server = node.shared()
        if server is None or node.url is not None:
            return None if server is None else ServerSnapshots(server, interval_seconds)
        from andon.host.processes.facts import ProcessTable

        table = ProcessTable(Path(settings_of(choices).root))
        source = ServerSnapshots(server, interval_seconds, table)
        source.remembered = [*server.live.minutes()]
        return None if source.remembered[-1].simulated else source
    except AndonError:
        return None


class ServerReturn:
    """Checks in a thread whether this machine's server answers: a request may take long."""

    def __init__(self, choices: Choices, interval_seconds: float) -> None:
        self.found: ServerSnapshots | None = None
        self._choices, self._interval = choices, interval_seconds
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="server return", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while self.found is None and not self._closed.wait(RETURN_SECONDS):
            with suppress(AndonError):
                if may_be_running():
                    self.found = _of_server(self._choices, self._interval)
