"""A recording as a backend: its devices keep their identity, and are marked as replayed.

Their names end in `(replayed)`, and `versions` says which file is played and when it was recorded,
so that it is visible wherever a name or a version is shown.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from andon.drivers.replay.recording import RecordedMoment, Recording
from andon.errors import Invalid, Unavailable
from andon.model.codec import LATEST
from andon.model.device import (
    SAMPLE_VALUES,
    Card,
    Device,
    DeviceStatus,
    Process,
    Reading,
    Sample,
    Snapshot,
    State,
)

CARD: Final = Card("recording", 0, name="recorded devices")
MARK: Final = " (replayed)"
NOT_RECORDED: Final = "not in the recording"
HINT: Final = "nothing is broken: this is a replay"


class Replay:
    """Plays a file from `origin` on (else from the first `open`), at the given speed.

    Set `origin` where readers are restarted: the replay then continues where it was. `root` is
    where the reader looks up processes: pass an empty folder, because a recorded pid is not one of
    this machine.
    """

    name = "replay"

    def __init__(
        self,
        path: str,
        speed: float = 1.0,
        loop: bool = False,
        root: str = "/",
        origin: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not math.isfinite(speed) or speed <= 0:
            raise Invalid(
                f"speed must be greater than 0, not {speed}", hint="1 is as recorded, 10 is faster"
            )
        self._path, self._speed, self._loop = path, speed, loop
        self._origin, self._clock = origin, clock
        self._recording: Recording | None = None
        self._read_at = 0.0
        self._seen: dict[str, Device] = {}

    def glance(self) -> Sequence[Card]:
        """Returns no cards: the operating system knows nothing of recorded devices."""
        return []

    def open(self) -> Sequence[Card]:
        self._read_at = self._clock()
        if self._origin is None:
            self._origin = self._read_at
        self.close()
        self._recording = Recording(self._path, self._loop)
        return [CARD]

    def describe(self, card: Card) -> Sequence[Device]:
        """Returns the devices of the latest reading; a board that is missing from it is still
        described.

        Partitions may be removed, and so may addresses used before a device's uuid was known.
        """
        stay = {u: d for u, d in self._seen.items() if d.parent is None and "@" not in u}
        self._seen = stay | _marked_devices(self._moment(self._read_at).snapshot)
        return list(self._seen.values())

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        self._read_at = at
        moment = self._moment(at)
        _refuse_without_devices(moment.snapshot)
        played_at = self._start() + moment.offset_seconds / self._speed
        shift_seconds = self._start() - self._opened().first.at
        readings = [
            self._reading(status, moment, played_at, shift_seconds)
            for status in moment.snapshot.devices
        ]
        gone = self._missing_readings({reading.uuid for reading in readings})
        self._seen |= _marked_devices(moment.snapshot)
        return readings + gone

    def versions(self) -> Mapping[str, str]:
        first = self._opened().first
        source = f"{Path(self._path).name}, recorded on {first.node} at {_date(first.at)}"
        return {**{name: text for name, text in first.versions.items() if text}, "replay": source}

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()
            self._recording = None

    def _opened(self) -> Recording:
        if self._recording is None:
            raise Unavailable("the recording has not been opened")
        return self._recording

    def _start(self) -> float:
        return 0.0 if self._origin is None else self._origin

    def _moment(self, at: float) -> RecordedMoment:
        return self._opened().at((at - self._start()) * self._speed)

    def _missing_readings(self, now: set[str]) -> list[Reading]:
        return [
            Reading(uuid, state=State.LOST, reason=f"{NOT_RECORDED} at this point", hint=HINT)
            for uuid in self._seen
            if uuid not in now
        ]

    def _reading(
        self, status: DeviceStatus, moment: RecordedMoment, played_at: float, shift_seconds: float
    ) -> Reading:
        sample_shift_seconds = played_at - moment.snapshot.at
        sample = status.sample and _shifted(status.sample, sample_shift_seconds)
        silent = moment.silence if status.state is State.OK else None
        return Reading(
            uuid=status.device.uuid,
            sample=sample,
            missing=_whole(status.missing, sample),
            processes=tuple(_started_later(p, shift_seconds) for p in status.processes),
            state=State.STALE if silent else status.state,
            reason=silent or status.reason,
            hint=HINT if silent else status.hint,
        )


def _marked_devices(snapshot: Snapshot) -> dict[str, Device]:
    return {status.device.uuid: _marked(status.device) for status in snapshot.devices}


def _marked(device: Device) -> Device:
    return replace(device, name=device.name.removesuffix(MARK) + MARK)


def _date(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def _shifted(sample: Sample, seconds: float) -> Sample:
    """Moves a sample to the time of the replay; the relative age of single values is kept."""
    read_at = {
        name: _moved(at, seconds)
        for name, at in sample.read_at.items()
        if getattr(sample, name, None) is not None
    }
    return replace(sample, at=_moved(sample.at, seconds), read_at=read_at)


def _started_later(process: Process, seconds: float) -> Process:
    """Moves a start time by the same amount in every sample: it identifies a process."""
    if process.started is None:
        return process
    return replace(process, started=_moved(process.started, seconds))


def _moved(at: float, seconds: float) -> float:
    """Moves a time, clamped to what a calendar can show: a recording may be contradictory."""
    return min(max(at + seconds, 0.0), LATEST)


def _whole(missing: Mapping[str, str], sample: Sample | None) -> dict[str, str]:
    """Returns a reason for each missing value and no other: the recorder may be another version."""
    if sample is None:
        return {}
    absent = [name for name in SAMPLE_VALUES if getattr(sample, name) is None]
    reasons = {name: missing.get(name) or NOT_RECORDED for name in absent}
    lists = {"processes": missing["processes"]} if missing.get("processes") else {}
    return {**reasons, **lists}


def _refuse_without_devices(snapshot: Snapshot) -> None:
    """Raises the recorded fault if nothing could be read on the node."""
    if snapshot.devices or not snapshot.faults:
        return
    fault = snapshot.faults[0]
    reason = f"recorded from {fault.source}: {fault.reason}"
    raise Unavailable(reason, hint=fault.hint, cause=fault.code)
