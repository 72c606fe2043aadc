"""The readings of a host over SSH, from `andon status` or `andon watch` there."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.errors import AndonError, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.leases.rules.verdict import by_readings
from andon.model.codec import Wrong, read
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.model.wire import Json
from andon.node.following import PolledSession
from andon.node.remote.live import BACK_OFF, RemoteLive
from andon.node.rest import Notify
from andon.node.ssh.client import STATUS, Printed, SshHost
from andon.node.ssh.failures import UNEXPECTED, unexpected
from andon.sampling.rules.readings import checked_snapshot

T = TypeVar("T")
SOON_SECONDS = 0.2
JUDGED = "judged"  # the key of lamps and verdicts in a status for another andon
LATE_SECONDS = 5.0  # more than the interval: then a host that is followed counts as silent


class SshLive(RemoteLive):
    """Reads `andon status` on the host, or follows `andon watch` there."""

    def __init__(
        self, host: SshHost, rulebook: Callable[[], Rulebook], notify: Notify = lambda _: None
    ) -> None:
        super().__init__(host, rulebook, notify)
        self.host = host
        self._judged: Json | None = None  # the lamps and verdicts of the last status
        self._last: Snapshot | None = None
        self._verdicts: tuple[DeviceVerdict, ...] | None = None

    def read(self, expensive_fields: bool = False) -> Snapshot:
        return self.take(self.host.ask(STATUS)[0])

    def take(self, status: Printed) -> Snapshot:
        """Returns the snapshot of a status or a watch there, and stores the rest of a status."""
        if isinstance(status, bytes):
            from andon.node.ssh.smi import snapshot_from_smi

            found, self._verdicts = snapshot_from_smi(status, self.host.name, time.time())
            self._judged, self._last = None, checked_snapshot(found)
            return self._last
        fields = status if isinstance(status, dict) else {}
        found = self._snapshot(fields)
        if isinstance(judged := fields.get(JUDGED), dict):
            self._judged, self._verdicts, self._last = judged, None, found
        return found

    def verdicts(self) -> tuple[DeviceVerdict, ...]:
        """Returns the verdicts of the last status."""
        if self._verdicts is None:
            judged = {"verdicts": []} if self._judged is None else self._judged
            if (unknown := judged.get("unknown")) is not None:
                raise Unavailable(f"andon there: {str(unknown)[:200]}")
            if (given := judged.get("verdicts")) is None:  # nothing is leased there
                self._verdicts = by_readings(self._last.devices if self._last else ())
            else:
                self._verdicts = self._part(tuple[DeviceVerdict, ...], given)
        return self._verdicts

    def free(self) -> int | None:
        """Returns how many devices of the last status are free; None if that is not known."""
        try:
            found = self.verdicts()
        except Unavailable:
            return None
        return sum(one.kind is VerdictKind.FREE for one in found) if found else None

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        if self._judged is None or self._last is not snapshot:
            return lamps_from_sample(snapshot, self._rulebook())
        if (given := self._judged.get("lamps")) is None:  # by the usual thresholds
            return lamps_from_sample(snapshot, Rulebook())
        return self._part(tuple[DeviceLamp, ...], given)

    def _part(self, kind: type[T], value: object) -> T:
        try:
            return read(kind, value)
        except Wrong as exc:
            raise self.host.of_another_version(str(exc)) from exc

    def minutes(self) -> Sequence[Snapshot]:
        return ()

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> PolledSession:
        if self.host.limits is not None:
            return SshSamples(self, interval_seconds)
        stream = SshStream(self, interval_seconds, SOON_SECONDS if stays else None)
        return self._polled(stream.latest, interval_seconds)


class SshSamples(PolledSession):
    """Snapshots of one of many hosts, over a connection that ends with the session. It runs a
    status first, for its verdicts, then a watch, which reads more."""

    def __init__(self, live: SshLive, interval_seconds: float) -> None:
        super().__init__(live.read, interval_seconds)
        self._live, self._lines = live, live.host.follow(watch_arguments(interval_seconds), STATUS)

    def __iter__(self) -> Iterator[Snapshot]:
        for printed in self._lines:
            found = self._live.take(printed)
            if isinstance(printed, bytes) or JUDGED not in printed:
                yield found

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def watch_arguments(interval_seconds: float) -> tuple[str, ...]:
    return ("watch", "--format", "jsonl", "--interval", f"{interval_seconds:g}s")


class SshStream:
    """The latest snapshot of a host that is followed over one connection; a lost connection is
    retried with increasing delays."""

    def __init__(self, live: SshLive, interval_seconds: float, wait: float | None) -> None:
        """`wait` limits how long `latest` waits for the first snapshot; None waits until it comes
        or fails."""
        self._live, self._interval, self._wait = live, max(0.1, interval_seconds), wait
        self._changed = threading.Condition()
        self._found: Snapshot | None = None
        self._trouble: AndonError | None = None
        self._at = 0.0
        threading.Thread(target=self._run, name="ssh stream", daemon=True).start()

    def latest(self) -> Snapshot:
        """Returns the latest snapshot; raises the reason if there is no recent one."""
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
                for printed in self._live.host.follow(watch_arguments(self._interval)):
                    failed = 0
                    self._set(self._live.take(printed), None)
                time.sleep(max(1.0, self._interval))  # nvidia-smi, asked again
            except UNEXPECTED as exc:
                failed += 1
                self._set(self._found, unexpected(exc))
                time.sleep(BACK_OFF.seconds(failed))

    def _set(self, found: Snapshot | None, trouble: AndonError | None) -> None:
        with self._changed:
            self._found, self._trouble = found, trouble
            self._at = self._at if trouble else time.monotonic()
            self._changed.notify_all()
