"""The record of a run: JSON lines that are only appended, so that it survives a crash."""

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from andon.core.runs.summary import RunTallies
from andon.engine.failure_log import FailureLog
from andon.engine.follower import Follower
from andon.engine.sampling.bus import Subscription
from andon.engine.sampling.sampler import Sampler
from andon.host.folders import make_private
from andon.model import wire
from andon.model.device import DeviceStatus, Snapshot
from andon.model.work import Lease

SCHEMA = "andon.run/1"
INTERVALS = ((600.0, 1.0), (3600.0, 2.0), (float("inf"), 5.0))
"""Up to this age of a run, its sampling interval."""
LEAVING_SECONDS = 2.0
SAMPLED = (
    "utilization_percent", "memory_used_bytes", "memory_free_bytes", "temperature_celsius",
    "power_watts", "power_limit_watts", "sm_clock_mhz", "throttle",
)  # fmt: skip


def path_in(folder: Path, name: str, at: float) -> Path:
    """`train.py_20251115T014107Z_3f2a.jsonl`: readable and unique."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name)[:60] or "run"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    return folder / f"{plain}_{stamp}_{os.urandom(2).hex()}.jsonl"


class RunLog:
    """Writes one run's record. A write error is reported once and never stops the run."""

    def __init__(
        self,
        path: Path,
        uuids: Sequence[str],
        notify: Callable[[str], None] = lambda message: None,
        also: Callable[[Snapshot], None] | None = None,
    ) -> None:
        """`also` gets each snapshot, to write it in another form."""
        self.path, self._notify, self._also = path, notify, also
        self.tallies = RunTallies(frozenset(uuids))
        self._began = time.monotonic()
        self._file: int | None = None
        self._complete = False
        self._lock = threading.Lock()
        self._follower: Follower | None = None
        try:
            make_private(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o600)
        except OSError as exc:
            self._give_up(exc)

    @property
    def writes(self) -> bool:
        """Whether there is a record."""
        return self._file is not None or self._complete

    def begin(self, lease: Lease | None, facts: dict[str, Any]) -> None:
        held = None if lease is None else lease.id
        self.write("begin", {"schema": SCHEMA, "lease": held, **facts})

    def follow(self, sampler: Sampler, first: Snapshot | None) -> None:
        """Sample the run's devices, and no others, from now on."""
        if first is not None:
            self.take(first)
        session = sampler.subscribe(INTERVALS[0][1], at_once=first is None)

        def taken(snapshot: Snapshot) -> None:
            self.take(snapshot)
            self._slow_down(session, time.monotonic())

        failures = FailureLog("andon.run", "a sample was not recorded", brief=True)
        self._follower = Follower(session, taken, "andon run", failures).start()

    def take(self, snapshot: Snapshot) -> None:
        counted = self.tallies.add(snapshot)
        self.write(
            "sample",
            {"sampled_at": snapshot.at, "devices": {s.device.uuid: _short(s) for s in counted}},
        )
        if self._also is not None:
            self._also(snapshot)

    def latest_of_run(self) -> list[DeviceStatus]:
        """The devices as last read; none where they were read only before the run."""
        return list(self.tallies.latest.values()) if self.tallies.samples > 1 else []

    def end(self, facts: dict[str, Any]) -> None:
        """Write the summary; the file is complete from here on."""
        if self._follower is not None:
            self._follower.close(LEAVING_SECONDS)
        why = None if self.tallies.samples else "the run ended before its devices were read"
        self.write(
            "end",
            {
                **facts,
                "samples": self.tallies.samples,
                "no_samples_reason": why,
                "summary": self.tallies.result(),
            },
        )
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file, self._complete = None, True

    def write(self, event: str, facts: dict[str, Any]) -> None:
        """One line in one write: a reader sees all of it or nothing."""
        line = wire.dumps({"event": event, "at": time.time(), **facts}) + "\n"
        with self._lock:
            if self._file is None:
                return
            try:
                os.write(self._file, line.encode())
            except OSError as exc:
                self._give_up(exc)

    def _give_up(self, exc: OSError) -> None:
        self._notify(f"the run is not recorded: {self.path}: {exc.strerror}")
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
        self._file = None

    def _slow_down(self, session: Subscription, now: float) -> None:
        interval = interval_at(now - self._began)
        if interval != session.interval_seconds:
            session.pace(interval, now)


def interval_at(age_seconds: float) -> float:
    """The sampling interval of a run of this age."""
    return next(interval for until, interval in INTERVALS if age_seconds < until)


def _short(status: DeviceStatus) -> dict[str, Any]:
    sample = status.sample if status.answered else None
    out: dict[str, Any] = {"state": str(status.state)}
    if sample is not None:
        out |= {name: getattr(sample, name) for name in SAMPLED}
    return out
