"""The readings of a host over SSH: a status there, or the stream of a watch there."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from andon.alerts.rules.glance import lamps_now
from andon.errors import AndonError, Unavailable
from andon.model.codec import Wrong, read
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.model.wire import Json
from andon.node.following import PolledSession
from andon.node.remote.live import BACK_OFF, RemoteLive
from andon.node.server import Notify
from andon.node.ssh.client import STATUS, SshHost
from andon.node.ssh.smi import status_from_smi

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook

T = TypeVar("T")
_DECODING = threading.Lock()  # streams of several hosts have a thread each
SOON_SECONDS = 0.2
LATE_SECONDS = 5.0  # more than the interval: then a host that is followed counts as silent


class SshLive(RemoteLive):
    """A status there, or the stream of a watch there."""

    def __init__(
        self, host: SshHost, rulebook: "Callable[[], Rulebook]", notify: Notify = lambda _: None
    ) -> None:
        super().__init__(host, rulebook, notify)  # type: ignore[arg-type]
        self.host, self._known = host, {}  # type: SshHost, Json
        self._stream: SshStream | None = None

    def read(self, expensive_fields: bool = False) -> Snapshot:
        if self._stream is not None:
            return self._stream.latest()
        return self.take(self.host.ask(STATUS)[0])

    def take(self, status: Json) -> Snapshot:
        self._known = status
        with _DECODING:
            return self._snapshot(status)

    def verdicts(self) -> tuple[DeviceVerdict, ...]:
        """Those of the last status."""
        if (unknown := self._known.get("verdicts_unknown")) is not None:
            raise Unavailable(f"andon there: {str(unknown)[:200]}")
        return self._read(tuple[DeviceVerdict, ...], self._known.get("verdicts", []))

    def free(self) -> int | None:
        """Returns how many devices of the last status are free; None if that is not known."""
        if not self._known.get("verdicts"):
            return None
        return sum(one.kind is VerdictKind.FREE for one in self.verdicts())

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        if self._known.get("at") == snapshot.at and "lamps" in self._known:
            return self._read(tuple[DeviceLamp, ...], self._known["lamps"])
        return lamps_now(snapshot, self._rulebook())

    def _read(self, kind: type[T], value: object) -> T:
        try:
            return read(kind, value)
        except Wrong as exc:
            raise self.host.of_another_version(str(exc)) from exc

    def minutes(self) -> Sequence[Snapshot]:
        return ()

    def follow(self, interval_seconds: float, patient: bool = True) -> None:
        """Reads by one connection from now on; `patient`: waits for its first answer."""
        if self._stream is None:
            self._stream = SshStream(self, interval_seconds, None if patient else SOON_SECONDS)

    def subscribe(self, interval_seconds: float, watching: bool = False) -> PolledSession:
        self.follow(interval_seconds)
        return super().subscribe(interval_seconds, watching)


class SshStream:
    """The latest snapshot of a host that is followed by one connection; a lost one is made again,
    ever later."""

    def __init__(self, live: SshLive, interval_seconds: float, wait: float | None) -> None:
        """`wait`: for the first snapshot; None is until it has come or failed."""
        self._live, self._interval, self._wait = live, max(0.1, interval_seconds), wait
        self._changed = threading.Condition()
        self._found: Snapshot | None = None
        self._at, self._trouble = 0.0, None  # type: float, AndonError | None
        threading.Thread(target=self._run, name="ssh stream", daemon=True).start()

    def latest(self) -> Snapshot:
        """Returns it; raises why there is none that is recent, after a wait for the first."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._found is not None or self._trouble is not None, self._wait
            )
            age = time.monotonic() - self._at
            if self._trouble is not None:
                raise self._trouble
            if self._found is None:
                raise Unavailable("connecting")
            if age > self._interval + LATE_SECONDS:
                raise Unavailable(f"no reading for {age:.0f} s")
            return self._found

    def _run(self) -> None:
        failed = 0
        while not self._live.host.closed:
            try:
                for said in self._live.host.follow(
                    ("watch", "--format", "jsonl", "--interval", f"{self._interval:g}s")
                ):
                    failed = 0
                    self._take(said)
                time.sleep(max(1.0, self._interval))  # nvidia-smi, asked again
            except AndonError as exc:
                failed += 1
                with self._changed:
                    self._trouble = exc
                    self._changed.notify_all()
                time.sleep(BACK_OFF.seconds(failed))

    def _take(self, said: Json | bytes) -> None:
        host = self._live.host
        given = status_from_smi(said, host.name, time.time()) if isinstance(said, bytes) else said
        found = self._live.take(given)
        with self._changed:
            self._found, self._at, self._trouble = found, time.monotonic(), None
            self._changed.notify_all()
