"""A machine that is reached by SSH, with or without andon there: what its commands print as JSON is
read as the answers of a server are."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from andon.alerts.rules.glance import lamps_now
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Bucket
from andon.leases.rules.offer import Offer, offer_by
from andon.model.codec import Wrong, read
from andon.model.device import Device, Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.lease import DeviceRequest
from andon.model.lease_list import LeaseList, list_from_json
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.model.wire import Json
from andon.node.remote import RemoteNode
from andon.node.remote.leases import RemoteLeases
from andon.node.remote.live import BACK_OFF, RemoteLive, Session
from andon.node.remote.past import RemotePast
from andon.node.ssh.client import LEASES, STATUS, SshHost
from andon.node.ssh.smi import status_from_smi
from andon.runs.rules.matching import RunListing, RunQuery, matches

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook

T = TypeVar("T")
TOGETHER = (
    "utilization_percent,power_watts,power_limit_watts,temperature_celsius,memory_used_bytes,"
    "memory_free_bytes,memory_reserved_bytes"
)
"""Readings that a history shows together: they are asked for at once."""
FEW_POINTS = 400
SOON_SECONDS = 0.2
LATE_SECONDS = 5.0  # more than the interval: then a host that is followed counts as silent


class SshNode(RemoteNode):
    """One host. Each question is a connection of its own, unless it is followed."""

    def __init__(self, host: SshHost, rulebook: "Callable[[], Rulebook]") -> None:
        super().__init__(host, rulebook)  # type: ignore[arg-type]  # it answers as a server does
        self.host = host

    @cached_property
    def live(self) -> "SshLive":
        return SshLive(self.host, self._rulebook)

    @cached_property
    def leases(self) -> "SshLeases":
        return SshLeases(self.live, self.host)

    @cached_property
    def past(self) -> "SshPast":
        return SshPast(self.host)

    @cached_property
    def runs(self) -> "SshRuns":  # type: ignore[override]
        return SshRuns(self.host)

    def shared(self) -> "SshNode":
        """Returns this node, from now on read by one connection that stays."""
        self.live.follow(1.0, patient=False)
        return self

    def close(self) -> None:
        self.host.close()


class SshLive(RemoteLive):
    """A status there, or the stream of a watch there."""

    def __init__(self, host: SshHost, rulebook: "Callable[[], Rulebook]") -> None:
        super().__init__(host, rulebook)  # type: ignore[arg-type]
        self.host, self._known = host, {}  # type: SshHost, Json
        self._stream: Stream | None = None

    def read(self, expensive_fields: bool = False) -> Snapshot:
        if self._stream is not None:
            return self._stream.latest()
        return self.take(self.host.ask(STATUS)[0])

    def take(self, status: Json) -> Snapshot:
        self._known = status
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
            self._stream = Stream(self, interval_seconds, None if patient else SOON_SECONDS)

    def subscribe(self, interval_seconds: float, watching: bool = False) -> Session:
        self.follow(interval_seconds)
        return super().subscribe(interval_seconds, watching)


class Stream:
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


class SshLeases(RemoteLeases):
    """Leases as `andon leases` lists them there, and verdicts of the last status."""

    def __init__(self, live: SshLive, host: SshHost) -> None:
        super().__init__(live)
        self._ssh, self._host = live, host

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        status, listed = self._host.ask(STATUS, (*LEASES, *(("--mine",) if mine else ())))
        return snapshot or self._ssh.take(status), self._list(listed), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return self._ssh.verdicts()

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._ssh.read()
        return offer_by(snapshot, {one.uuid: one for one in self._ssh.verdicts()}, request)

    def release(self, name: str, note: str) -> str:
        raise self._host.refused()

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        raise self._host.refused()

    def _list(self, value: Json) -> LeaseList:
        try:
            return list_from_json(value)
        except Invalid as exc:
            raise self._host.of_another_version(exc.reason) from exc


class SshPast(RemotePast):
    """The history as `andon history` prints it there; each span is asked for once."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host)  # type: ignore[arg-type]
        self._host = host
        self._kept: dict[tuple[str, ...], Json] = {}

    @property
    def recorded(self) -> bool:  # type: ignore[override]
        try:
            self._asked("--who", "--since", "1h")
        except AndonError:
            return False
        return True

    def devices(self) -> Sequence[Device]:
        listed = self._asked("--metric", "utilization_percent", "--points", "1").get("series")
        known = {str(one.get("device")) for one in listed} if isinstance(listed, list) else set()
        now = [status.device for status in SshLive(self._host, _no_rules).read().devices]
        return [device for device in now if device.uuid in known]

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        many = metric in TOGETHER.split(",") and points <= FEW_POINTS and device != "host"
        span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}", "--points", str(points))
        named = ("--device", "host") if device == "host" else ()
        found = self._asked("--metric", TOGETHER if many else metric, *span, *named).get("series")
        for one in found if isinstance(found, list) else ():
            if one.get("device") == device and one.get("metric") == metric:
                return self._each(one, "buckets", Bucket)
        raise Gone(f"nothing is recorded of {device[:40]!r}")

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}", "--points", str(points))
        found = self._asked("--metric", "throttle", *span).get("series")
        counts, shares = [0] * points, dict[str, list[float | None]]()
        for one in found if isinstance(found, list) else ():
            if one.get("device") == device:
                buckets = self._each(one, "buckets", Bucket)
                counts = [bucket.count for bucket in buckets]
                name = str(one.get("metric")).removeprefix("throttle_").removesuffix("_percent")
                shares[name] = [None if b.mean is None else b.mean / 100.0 for b in buckets]
        shares.pop("any", None)
        return counts, shares

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}")
        found = self._each(self._asked("--who", *span), "usage", UsageInterval)
        return [use for use in found if device in (None, use.device)]

    def _asked(self, *words: str) -> Json:
        if words not in self._kept:
            self._kept[words] = self._host.ask(("history", "--json", *words))[0]
        return self._kept[words]


class SshRuns:
    """The runs that `andon runs` lists there; records stay there."""

    def __init__(self, host: SshHost) -> None:
        self._host = host

    def listed(self, query: RunQuery) -> RunListing:
        rows, total = self._rows()
        found = [row for row in rows if matches(row, query)]
        return RunListing(found[: query.limit], max(total, len(found)))

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        return any(row.id == word for row in self._rows()[0])

    def resolve(self, word: str) -> RunRow:
        for row in self._rows()[0]:
            if word in (row.id, "last"):
                return row
        raise Gone(f"there is no run {word[:40]!r} there")

    def with_record(self, row: RunRow) -> RunRow:
        raise self._host.refused()

    def close(self) -> None:
        """Does nothing: nothing was downloaded."""

    def _rows(self) -> tuple[list[RunRow], int]:
        page = self._host.ask(("runs", "--json", "-n", "1000"))[0]
        try:
            return [row_from_json(one) for one in page["runs"]], int(page["total"])
        except (Wrong, KeyError, TypeError, ValueError) as exc:
            raise self._host.of_another_version(f"a run is not as expected: {exc}") from exc


def _no_rules() -> "Rulebook":
    raise AssertionError("a list of devices needs no thresholds")
