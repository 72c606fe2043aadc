"""Reads the devices of a probe: what a trial used, and whether its memory is free again."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.failures.log import FailureLog
from andon.model.device import Snapshot
from andon.model.naming import title
from andon.model.request import RunAccount
from andon.model.run.record import RunDevice
from andon.model.run.use import known_of, mean_of, sum_of
from andon.runs.record import SampleSource
from andon.runs.rules.oom import MemoryBeforeEnd
from andon.runs.rules.sampled import sample_line
from andon.runs.rules.summary import RunTallies
from andon.sampling.follower import Follower
from andon.units import MIB, human_bytes, human_seconds

SAMPLE_SECONDS = 0.25  # a peak between two samples is not seen
BACK_SECONDS = 20.0  # a driver may take a few seconds to free what a killed process had
POLL_SECONDS = 0.25
NEVER_READ = "the trial ended before its devices were read"
SLACK_SHARE, SLACK_BYTES = 0.002, 64 * MIB


class TrialReadings(Struct, frozen=True):
    """What was read during one trial; None is explained in `missing`."""

    peak_memory_bytes: int | None
    utilization_percent: float | None
    energy_joules: float | None
    energy_source: str | None
    samples: int
    missing: Mapping[str, str]
    memory: tuple[MemoryBeforeEnd, ...]


class TrialMeter:
    """Samples the devices from the start of a trial to its end."""

    def __init__(self, source: SampleSource, devices: Sequence[RunDevice]) -> None:
        self._source, self._devices = source, tuple(devices)
        self._tallies = RunTallies(self._devices, time.time())
        self._lock = threading.Lock()
        self._during = 0
        self._latest: Mapping[str, Any] = {}
        self._take(source.once(with_host=False, account=RunAccount.ENERGY))
        session = source.subscribe(SAMPLE_SECONDS)
        failures = FailureLog("andon.probe", "a sample was not taken", brief=True)
        self._began = time.time()
        self._follower = Follower(session, self._taken, "andon trial", failures).start()

    def _taken(self, snapshot: Snapshot) -> None:
        if snapshot.at > self._began:  # not the one from before the command was started
            self._take(snapshot)
            self._during += 1
            self._latest = dict(self._tallies.latest)

    def _take(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._tallies.add(sample_line(snapshot, self._tallies.devices))

    def close(self) -> TrialReadings:
        """Ends the sampling, with the energy counters as they are now."""
        self._follower.close(2.0)
        during, latest = self._during, self._latest
        self._take(self._source.once(with_host=False, account=RunAccount.ENERGY))
        summaries = list(self._tallies.summary().values())
        missing, joules = dict[str, str](), sum_of(summaries, "energy_joules")
        peak = max(known_of(summaries, "peak_memory_bytes"), default=None) if during else None
        mean = mean_of(summaries, "utilization_percent") if during else None
        if peak is None:
            missing["peak_memory_bytes"] = "not read by the driver" if during else NEVER_READ
        if mean is None:
            missing["utilization_percent"] = "not read by the driver" if during else NEVER_READ
        if joules is None:
            missing["energy_joules"] = "its devices report neither energy nor power"
        sources = {str(one["energy_source"]) for one in summaries} if joules is not None else ()
        return TrialReadings(
            peak_memory_bytes=peak,
            utilization_percent=None if mean is None else round(mean, 1),
            energy_joules=None if joules is None else round(joules, 1),
            energy_source=", ".join(sorted(sources)) or None,
            samples=during,
            missing=missing,
            memory=tuple(
                MemoryBeforeEnd(
                    one.label, latest[one.uuid].get("memory_used_bytes"), one.memory_total_bytes
                )
                for one in self._devices
                if one.uuid in latest
            ),
        )


class MemoryReturn:
    """Waits until the memory of the devices is as it was before the first trial."""

    def __init__(self, source: SampleSource, devices: Sequence[RunDevice], simulated: bool) -> None:
        self._source, self._devices = source, tuple(devices)
        self._simulated = simulated  # such memory belongs to no process, and comes and goes
        self._before = {} if simulated else self._used()

    def wait(self) -> str | None:
        """Waits until the memory is free again; returns None, or which device still holds how
        much."""
        if self._simulated:
            return None
        until = time.monotonic() + BACK_SECONDS
        while True:
            left, rest_seconds = self._left(), until - time.monotonic()
            if left is None or rest_seconds <= 0:
                return left
            time.sleep(min(POLL_SECONDS, rest_seconds))

    def _left(self) -> str | None:
        now = self._used()
        for device in self._devices:
            before, used = self._before.get(device.uuid), now.get(device.uuid)
            name = title(device.label)
            if used is None:
                return f"the memory of {name} could not be read after the trial before this one"
            slack = max(SLACK_BYTES, int(SLACK_SHARE * (device.memory_total_bytes or 0)))
            if before is not None and used > before + slack:
                waited = human_seconds(BACK_SECONDS)
                return (
                    f"{name} still held {human_bytes(used)} {waited} after the trial before this "
                    f"one ({human_bytes(before)} before)"
                )
        return None

    def _used(self) -> dict[str, int | None]:
        snapshot = self._source.once(with_host=False)
        return {
            status.device.uuid: status.sample.memory_used_bytes if status.sample else None
            for status in snapshot.devices
            if status.answered
        }
