"""One map from its first device to its summary: the workers, the record and the listeners."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from msgspec import Struct, field

from andon.leases.placement import Placement
from andon.leases.rules.eligibility import chosen_by
from andon.leases.rules.environment import NO_GPU
from andon.model.redaction import redact
from andon.model.run.record import ItemState, RunEnd, RunItem, RunKind, RunState
from andon.runs.facts import find_facts
from andon.runs.header import new_run
from andon.runs.opening import RunRecording
from andon.runs.record import RunOutcome, RunRecorder
from andon.work.map.calls import CallEnd
from andon.work.map.places import MapPlace
from andon.work.map.pool import WorkerPool
from andon.work.rules.map.plan import MapPlan, MapUnit

WITHOUT_DEVICE = "it works without a device"


class ItemOutputs(Protocol):
    """Takes the output of each item, when it has ended."""

    def ended(self, unit: MapUnit, end: CallEnd, state: ItemState) -> None: ...
    def close(self) -> None: ...


class MapProgress(Struct):
    """The progress of a map."""

    total: int
    done: int
    failed: int
    running: int
    seconds: float
    workers: tuple[str, ...] = ()  # the labels of their devices
    stopped: str | None = None

    @property
    def ended(self) -> int:
        return self.done + self.failed

    @property
    def per_second(self) -> float | None:
        return self.ended / self.seconds if self.ended and self.seconds > 0 else None

    @property
    def left_seconds(self) -> float | None:
        """Returns the expected time that is left, if the rest takes as long as the items so far."""
        rate = self.per_second
        return None if rate is None else (self.total - self.ended) / rate


class MapResult(Struct, frozen=True):
    """The result of a map."""

    progress: MapProgress
    used: tuple[str, ...]  # the labels of its devices, once for each worker
    end: RunEnd
    path: Path | None  # of the record, if it could be written
    run: str


class MapRecord(Struct, frozen=True):
    """How a map is recorded."""

    name: str
    command: Sequence[str]  # none in Python
    recording: RunRecording
    params: Mapping[str, Any]
    image: str | None = None
    unsampled: str | None = None  # where it takes no samples here

    def open(self, places: Sequence[Placement]) -> RunRecorder:
        """Begins the record with the first devices; others may join."""
        first, source = places[0] if places else Placement(), self.recording.source
        assert source is not None
        uuids = dict.fromkeys(uuid for place in places for uuid in place.uuids)
        begin = new_run(
            RunKind.MAP,
            self.name,
            first.snapshot or source.once(with_host=False),
            uuids,
            os.environ,
            command=redact(tuple(self.command)) if self.command else None,
            params=dict(self.params),
            waited_seconds=round(first.waited_seconds, 3),
            allocation_method=chosen_by(None) if uuids else None,
        )
        facts = partial(find_facts, list(self.command) or None, image=self.image)
        return self.recording.open(
            begin, facts, self.unsampled or (None if uuids else WITHOUT_DEVICE)
        )


class MapSession(Struct):
    """Use it once: `run`. `record` makes the recorder when the first devices are known."""

    plan: MapPlan
    pool: WorkerPool
    record: Callable[[Sequence[Placement]], RunRecorder]
    outputs: ItemOutputs
    _recorder: RunRecorder | None = None
    _opened: float = 0.0
    _began: float | None = None  # its first item
    _ended: float | None = None  # its last item, once all have
    _last: float | None = None  # the last item so far
    _held: dict[str, int] = field(default_factory=dict)  # uuid -> workers on it
    _workers: Counter[str] = field(default_factory=Counter)  # label -> workers there now
    _used: Counter[str] = field(default_factory=Counter)  # label -> the most workers at once
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_open(self) -> bool:
        """Whether it has taken its first devices."""
        return self._recorder is not None

    def run(self, tick: Callable[[MapProgress], None]) -> MapResult:
        """Works through the items. Raises the error that prevented the first device."""
        first = self.pool.first()
        try:
            recorder = self._recorder = self.record(first)
        except BaseException:
            for place in first:
                place.release()
            raise
        self._opened = time.monotonic()
        outcome = RunOutcome(RunState.STOPPED)
        try:
            self.pool.run(first, recorder, self, lambda: tick(self.progress()))
            outcome = self._outcome()
        finally:
            self._ended = self._last
            self.outputs.close()
            recorder.read_last()
            end = recorder.end(outcome)
        path = recorder.path if recorder.file.writes else None
        used = tuple(self._used.elements())
        return MapResult(self.progress(), used, end, path, recorder.begin.id)

    def progress(self) -> MapProgress:
        plan = self.plan
        return MapProgress(
            len(plan.items),
            plan.done,
            plan.failed,
            plan.running,
            self._worked_seconds(),
            tuple(self.pool.workers),
            plan.stopped,
        )

    def _worked_seconds(self) -> float:
        """Returns the seconds from the first item's begin to now, or to the last one's end: on a
        cluster these times become known later."""
        if self._began is None:
            return 0.0
        return max(0.0, (time.monotonic() if self._ended is None else self._ended) - self._began)

    def _outcome(self) -> RunOutcome:
        plan, seconds = self.plan, time.monotonic() - self._opened
        message = f"{plan.done} of {len(plan.items)} items succeeded, {plan.failed} failed"
        if plan.stopped:
            state, message = RunState.STOPPED, f"{message}; {plan.stopped}"
        else:
            state = RunState.FAILED if plan.failed else RunState.SUCCEEDED
        code = 0 if state is RunState.SUCCEEDED else 1
        return RunOutcome(state, code, None, message, duration_seconds=round(seconds, 3))

    # Events of the pool.

    def joined(self, place: MapPlace, at: float | None = None) -> None:
        with self._lock:
            self._workers[place.label] += 1
            self._used[place.label] = max(self._used[place.label], self._workers[place.label])
            for device in place.devices:
                self._held[device.uuid] = self._held.get(device.uuid, 0) + 1
                if self._recorder is not None:
                    self._recorder.join(device, at)

    def left(self, place: MapPlace, at: float | None = None) -> None:
        with self._lock:
            self._workers[place.label] -= 1
            for device in place.devices:
                self._held[device.uuid] -= 1
                last = not any(self._held.values())  # the last one is read once more at the end
                if self._recorder is not None and not self._held[device.uuid] and not last:
                    self._recorder.leave(device.uuid, at)

    def began(self, unit: MapUnit, place: MapPlace, at: float | None = None) -> None:
        ago = _ago(at)
        moment = time.monotonic() - ago
        self._began = moment if self._began is None else min(moment, self._began)
        self._write(ago, unit, place, ItemState.START)

    def ended(
        self,
        unit: MapUnit,
        place: MapPlace,
        end: CallEnd,
        state: ItemState,
        at: float | None = None,
    ) -> None:
        ago = _ago(at)
        moment = time.monotonic() - ago
        self._last = moment if self._last is None else max(moment, self._last)
        self._write(ago, unit, place, state, end)
        self.outputs.ended(unit, end, state)

    def withdrawn(self, unit: MapUnit, place: MapPlace) -> None:
        self._write(0.0, unit, place, ItemState.RETRY)

    def _write(
        self,
        ago: float,
        unit: MapUnit,
        place: MapPlace,
        state: ItemState,
        end: CallEnd | None = None,
    ) -> None:
        if self._recorder is None:
            return
        at, device = time.time() - ago, None if place.label == NO_GPU else place.label
        output = None if end is None else _output_of(end)
        for item in unit.items:
            self._recorder.write(
                RunItem(
                    at, state, item.index, item.shown, device, unit.attempt,
                    None if end is None else round(end.seconds, 6), output, item.begun_before,
                )
            )  # fmt: skip


def _ago(at: float | None) -> float:
    """Returns how many seconds ago that was; the clock of another machine may be ahead."""
    return 0.0 if at is None else max(0.0, time.time() - at)


def _output_of(end: CallEnd) -> str | None:
    """Returns the end of its output; the reason of a failure comes last."""
    tail = end.tail().rstrip()
    if end.ok or not end.reason:
        return tail or None
    return f"{tail}\n{end.reason}" if tail else end.reason


@contextmanager
def handled_signals(session: MapSession, notify: Callable[[str], None]) -> Iterator[list[int]]:
    """Handles signals: the first Ctrl-C starts no further items, the second kills the running ones.
    SIGTERM and SIGHUP end running items at once; if workers outlive this process, a closed terminal
    only ends the collecting.

    SIGTERM may also come from `andon release`, which means one worker alone.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not session.is_open:
            raise KeyboardInterrupt
        if number == signal.SIGTERM and session.pool.release():
            return
        received.append(number)
        if number != signal.SIGINT:
            session.pool.stop(f"asked to end by {signal.Signals(number).name}")
            session.pool.end(signal.SIGTERM if len(received) == 1 else signal.SIGKILL)
        elif len(received) == 1:
            session.pool.stop("stopped on request")
            if session.plan.running:
                notify("no further items start; running ones continue. Ctrl-C again kills them")
        else:
            session.pool.end()

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
        and not (number == signal.SIGHUP and session.pool.outlives)
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
