"""What the frameworks' callbacks share: the steps of a fit, its record, its trackers' values.

A hook of the loop only counts and queues: a thread writes the lines each second, so that the loop
never waits for a file, a driver or a server.
"""

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from andon.callbacks.monitor import GpuMonitorCallback
from andon.callbacks.rules.steps import (
    PREFIX,
    TRACKED_BY_OTHERS,
    StepClock,
    StepRates,
    shapes_of,
    tracked_values,
)
from andon.errors import Invalid

if TYPE_CHECKING:
    from andon.api.compat.metrics import GpuMetrics
    from andon.model.run.record import RunBegin, RunDevice, RunEnd, RunLine

log = logging.getLogger("andon")

Trackers = Literal["missing", "all", "none"]
TRACKERS = ("missing", "all", "none")
LINE_SECONDS = 1.0  # at most one line of steps in this time
MOST_QUEUED = 2000
BATCHES = ("batch", "inputs", "data")  # what frameworks call the batch in their own functions


class StoppedBySigterm(BaseException):
    """The error that ends a fit whose process received SIGTERM, for example from a scheduler."""


def missing(framework: str, package: str) -> ImportError:
    """Returns the error of a module whose framework is not installed."""
    return ImportError(f"{framework} is not installed here: pip install {package}")


class TrainingMonitor(GpuMonitorCallback):
    """The base of the callbacks for frameworks, which add their hooks."""

    def __init__(self, *args: Any, trackers: Trackers = "missing", **keywords: Any) -> None:
        """As GpuMonitorCallback. `trackers`: which values the framework's own loggers get:
        those that they lack, all, or none."""
        if trackers not in TRACKERS:
            raise Invalid(f"{trackers!r} is not a choice", hint='"missing", "all" or "none"')
        self._trackers = trackers
        super().__init__(*args, **keywords)
        from andon.failures.log import FailureLog

        self._failures = FailureLog("andon", "recording a fit failed; continuing")
        self._reset()

    def _reset(self) -> None:
        self._clock, self._rates = StepClock(), StepRates()
        self._queue: deque[RunLine] = deque(maxlen=MOST_QUEUED)
        self._later: deque[Callable[[], object]] = deque(maxlen=MOST_QUEUED)
        self._seen: BaseException | None = None
        self._values: dict[str, float] = {}
        self._config_values: dict[str, str] = {}
        self._total: float | None = None
        self._noted = 0.0
        self._pulse: threading.Thread | None = None
        self._over = threading.Event()
        self._parent: Path | None = None
        self._ranks = 1
        self.stopped = False

    def _keywords(self) -> dict[str, Any]:
        return {**super()._keywords(), "trackers": self._trackers}

    # A fit, from its begin to its end.

    def fit_begins(
        self, total_steps: float | None, variables: Mapping[str, str] | None = None, ranks: int = 1
    ) -> None:
        """Starts the record, its thread and the alerts; ends a fit that was left open. If they
        cannot start, as without threads or with wrong settings, the fit continues without them."""
        try:
            self._start(total_steps, variables, ranks)
        except Exception as error:  # noqa: BLE001 - logged, and training goes on
            self._failures.add(error)
            self.end(error)

    def _start(
        self, total_steps: float | None, variables: Mapping[str, str] | None, ranks: int
    ) -> None:
        from andon.api.run import RecordedRun
        from andon.model.run.record import RunKind
        from andon.runs.rules.ranks import RECORD_VARIABLE

        if self._run.id is not None:
            if self._run.ended is None:
                if self._clock.untouched:  # it is listed twice
                    return
                self.end(GeneratorExit())
            self._reset()
        self._total, self._ranks = total_steps, ranks
        given = os.environ.get(RECORD_VARIABLE)
        self._parent = Path(given) if given and os.environ.get("ANDON_RUN") else None
        self._run = RecordedRun(
            self._name, self._given, kind=RunKind.CALLBACK,
            quiet=self._quiet or self._parent is not None, variables=variables,
            unsampled="the run around it samples the devices" if self._parent else None,
            words=self._end_text,
        )  # fmt: skip
        self.begin()
        self._config_values = {f"{PREFIX}run": self._run.id or ""}
        self._seen = _last_error()
        pulse = threading.Thread(target=self._beat, name="andon training", daemon=True)
        pulse.start()
        self._pulse = pulse  # a thread that did not start cannot be joined
        atexit.register(self._left)
        if threading.current_thread() is threading.main_thread():
            with suppress(ValueError):
                if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                    signal.signal(signal.SIGTERM, self._terminated)

    def _follow(self) -> None:
        if self._parent is None:
            super()._follow()

    def end(self, error: BaseException | None = None) -> None:
        """Completes the record and prints what the fit used."""
        pulse, self._pulse = self._pulse, None
        if pulse is not None:
            self._over.set()
            if pulse is not threading.current_thread():
                pulse.join(2 * LINE_SECONDS)
            atexit.unregister(self._left)
            self._note_steps(time.monotonic())
            self._safely(partial(self._explain, error))
            self._safely(self._write_queue)
        with suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._safely(partial(super().end, error))

    def _left(self) -> None:
        """Ends a fit that was left by an error, without a callback of the framework."""
        error = _last_error()
        self.end(None if error is self._seen else error)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self.end(StoppedBySigterm())
        os.kill(os.getpid(), number)  # the default action, which `end` restored

    def _explain(self, error: BaseException | None) -> None:
        """Records how long the loop waited and, for a failed allocation, the batch's shape."""
        from andon.runs.rules.plain import plain_text

        share = self._clock.waiting_share(time.monotonic())
        if share is not None:
            waited = round(self._clock.waited_seconds, 3)
            self.note("waiting_for_data", seconds=waited, share=round(share, 4))
        if error is not None and "out of memory" in plain_text(error).lower():
            shapes = next((found for one in _batches(error) if (found := shapes_of(one))), None)
            self.note("out_of_memory", step=self._clock.steps, batch_shape=shapes)

    def _end_text(self, begin: "RunBegin", end: "RunEnd") -> str:
        from andon.runs.rules.usage_text import loop_text

        return loop_text(begin, end, self._clock.waiting_share(time.monotonic()))

    # What hooks call.

    def step_begins(self, number: object) -> None:
        self._clock.begin(time.monotonic(), number)

    def step_ends(self, number: object, samples: int = 0, tokens: int = 0) -> None:
        """Counts a step; a line of them is queued each second."""
        now = time.monotonic()
        if not self._clock.end(now, number):
            return
        self._clock.samples += samples
        self._clock.tokens += tokens
        if now - self._noted >= LINE_SECONDS:
            self._note_steps(now)

    def hold(self, step_syncs: bool = True) -> bool:
        """Waits while the loop is paused; returns whether it should stop. With several ranks, each
        asks the others at the steps named by `step_syncs`, since a rank alone would block them."""
        wanted = (bool(self._pausing), self.stopped)
        if self._ranks > 1:
            wanted = self.agree(*wanted) if step_syncs else (False, False)
            self.stopped = self.stopped or wanted[1]
        if wanted[0] and not wanted[1]:
            if self._pausing:
                self._wait()
            if self._ranks > 1:
                self.barrier()
            self._clock.resume(time.monotonic())
        return wanted[1]

    def agree(self, pausing: bool, stopped: bool) -> tuple[bool, bool]:
        """Returns whether another rank pauses, and whether one stops; no other rank is asked
        here."""
        return False, False

    def barrier(self) -> None:
        """Waits for all ranks."""

    def note(self, name: str, /, **data: Any) -> None:
        """Queues an event of the record."""
        from andon.api.run import event_line

        self._queue.append(event_line(name, data))

    def logged(self, step: Any, values: Mapping[str, Any]) -> None:
        """Queues the values that the framework logs, at that time: they are numbers by then."""
        from andon.api.run import logged_lines

        self._safely(lambda: self._queue.extend(logged_lines(step, values)))

    def interrupted(self, what: str, /, **data: Any) -> None:
        """Notes that something other than training begins, such as validation; the clock stops."""
        self._clock.interrupt(time.monotonic())
        self.note(what, **data)

    def waits_no_longer(self) -> None:
        """Stops the clock for something whose begin had no callback, such as validation."""
        self._clock.interrupt(time.monotonic())

    def resumed(self) -> None:
        self._clock.resume(time.monotonic())

    def values(self, taken: Mapping[str, Any] = {}, monitored: bool = False) -> dict[str, float]:
        """Returns the values for a tracker, without those in `taken` and, if `monitored`, those
        that its own system monitor records."""
        if self._trackers == "none":
            return {}
        left_out = TRACKED_BY_OTHERS if monitored and self._trackers == "missing" else frozenset()
        named = {f"{PREFIX}{name}": v for name, v in self._values.items() if name not in left_out}
        return {name: value for name, value in named.items() if name not in taken}

    def config_values(self) -> dict[str, str]:
        """Returns the run's id and board link at the first call; empty afterwards."""
        found, self._config_values = self._config_values, {}
        return {} if self._trackers == "none" else found

    def send_config(self) -> None:
        """Sends the config values to the tracker's open run in this process, for frameworks whose
        callbacks cannot. It may contact a server, so the thread does it."""
        values = self.config_values()
        wandb, mlflow = sys.modules.get("wandb"), sys.modules.get("mlflow")
        if values and wandb is not None and wandb.run is not None:
            self._later.append(partial(wandb.run.config.update, values))
        if values and mlflow is not None and (run := mlflow.active_run()) is not None:
            self._later.append(partial(mlflow.log_params, values, run_id=run.info.run_id))

    # The thread.

    def _note_steps(self, now: float) -> None:
        from andon.model.run.record import WAITED

        self._noted, share = now, self._clock.waiting_share(now)
        line = self._rates.take(self._clock, now)
        if share is not None:
            line[WAITED] = round(100 * share, 2)
        if line and self._total:
            line["total_steps"] = self._total
        self.logged(self._clock.steps, line)

    def _beat(self) -> None:
        self._safely(self._find_board)
        lines = self._parents_samples()
        while True:
            over = self._over.wait(LINE_SECONDS)
            self._safely(self._write_queue)
            self._safely(lambda: next(lines, None))
            self._safely(self._count)
            while self._later:
                self._safely(self._later.popleft())
            if over:
                return
            if _last_error() is not self._seen:  # a notebook's cell has failed, and goes no further
                self._left()
                return

    def _safely(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - logged, and training goes on
            self._failures.add(error)

    def _find_board(self) -> None:
        from andon.node.running import running_server
        from andon.node.usual_server import may_be_running

        server = running_server(None) if may_be_running() else None
        if server is not None and self._config_values:
            self._config_values |= {f"{PREFIX}board": f"{server.url}/#/runs/{self._run.id}"}

    def _write_queue(self) -> None:
        recorder = self._run.recorder
        while self._queue and recorder is not None:
            recorder.write(self._queue.popleft())

    def _parents_samples(self) -> Iterator[None]:
        """Reads the new samples of the enclosing run from its record."""
        recorder = self._run.recorder
        if self._parent is None or recorder is None:
            return
        from andon.model.run.record import RunSample
        from andon.runs.follower import RecordFollower

        devices = {one.uuid: one for one in recorder.begin.devices}
        with RecordFollower(self._parent, 1) as record:
            record.recent()
            while True:
                for line in record.new():
                    if isinstance(line, RunSample):
                        recorder.add(line)
                        shown = line.devices.items()
                        found = [_metrics(devices[u], r) for u, r in shown if u in devices]
                        self.check(found)
                yield

    def _count(self) -> None:
        recorder = self._run.recorder
        used = [] if recorder is None or not recorder.tallies.samples else recorder.used()
        share = self._clock.waiting_share(time.monotonic())
        self._values = tracked_values(used, share, len(self._current))


def _metrics(device: "RunDevice", readings: Mapping[str, Any]) -> "GpuMetrics":
    from andon.api.compat.metrics import GpuMetrics

    return GpuMetrics(
        device_id=device.index,
        name=device.name,
        temperature_celsius=readings.get("temperature_celsius"),
        utilization_percent=readings.get("utilization_percent"),
        memory_used_bytes=readings.get("memory_used_bytes"),
        memory_total_bytes=device.memory_total_bytes,
        power_watts=readings.get("power_watts"),
        power_limit_watts=readings.get("power_limit_watts") or device.power_limit_watts,
    )


def _batches(error: BaseException) -> Iterator[Any]:
    """Yields the batches in the frames that the error came through, the innermost first."""
    frames, place = [], error.__traceback__
    while place is not None:
        frames.append(place.tb_frame)
        place = place.tb_next
    for frame in reversed(frames):
        yield from (frame.f_locals[name] for name in BATCHES if name in frame.f_locals)


def _last_error() -> BaseException | None:
    """Returns the latest error that reached the top of the program, or of a notebook's cell."""
    error: BaseException | None = getattr(sys, "last_value", None)
    return error


def has_system_monitor() -> bool:
    """Whether an open tracker's run of this process records utilisation and memory itself."""
    wandb = sys.modules.get("wandb")
    return getattr(wandb, "run", None) is not None
