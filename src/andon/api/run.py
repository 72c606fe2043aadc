"""`andon.run`: records part of a program as a run.

with andon.run("train", params={"lr": 1e-4}) as run:
    for step, batch in enumerate(loader):
        run.log(step=step, loss=train(batch))
"""

import asyncio
import atexit
import functools
import logging
import math
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from pathlib import Path
from typing import Any

from andon.api import watch as library
from andon.app.runs import recording
from andon.errors import AndonError, Invalid
from andon.host.clock import boot_seconds
from andon.model.codec import NAME
from andon.model.device import Snapshot
from andon.model.redaction import redact
from andon.model.run.record import (
    ItemState,
    RunBegin,
    RunCandidate,
    RunEnd,
    RunEvent,
    RunKind,
    RunLogged,
)
from andon.runs.facts import find_facts
from andon.runs.header import new_run, place_of
from andon.runs.record import RunRecorder
from andon.runs.rules.curves import NOT_FINITE
from andon.runs.rules.items import ItemLog
from andon.runs.rules.oom import Verdict
from andon.runs.rules.plain import ending_of, plain_numbers, plain_table, plain_text
from andon.runs.rules.ranks import RUN_VARIABLE
from andon.runs.rules.sampled import run_candidates
from andon.runs.rules.usage_text import end_text
from andon.settings.resolution import Settings

logger = logging.getLogger("andon")

LONGEST_OUTPUT = 4000
SEEN, NAMED = "the program, which sees them", "the program, which names them"
"""How the devices of a run were chosen."""

_current: ContextVar[str | None] = ContextVar("andon_run", default=None)
"""The run that this thread or task is in; other threads may be in others."""


class _Nesting:
    """Sets ANDON_RUN for the processes that this one starts: to the run that began last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[str] = []
        self._outer: str | None = None

    @property
    def outer(self) -> str | None:
        """The run that started this process."""
        return self._outer if self._inside else os.environ.get(RUN_VARIABLE)

    @property
    def latest(self) -> str | None:
        """The run that this process began last, of those that go on."""
        return self._inside[-1] if self._inside else None

    def enter(self, name: str) -> None:
        with self._lock:
            if not self._inside:
                self._outer = os.environ.get(RUN_VARIABLE)
            self._inside.append(name)
            os.environ[RUN_VARIABLE] = name

    def leave(self, name: str) -> None:
        with self._lock:
            if name in self._inside:
                self._inside.remove(name)
            left = self._inside[-1] if self._inside else self._outer
            if left is None:
                os.environ.pop(RUN_VARIABLE, None)
            else:
                os.environ[RUN_VARIABLE] = left


_nesting = _Nesting()


def current_run() -> str | None:
    """Returns the run that this thread or task is in, else the one that this process is in."""
    return _current.get() or os.environ.get(RUN_VARIABLE) or None


def parent_run(given: str | None = None) -> str:
    """Returns the run that a new one is part of; `given` is one that only its caller knows."""
    return _current.get() or given or _nesting.outer or ""


class RecordedRun:
    """A run of this program: a context manager. In a forked child it records nothing.

    Recording never stops a program: if nothing can be read or written, the program continues
    without it.
    """

    def __init__(
        self,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        devices: Collection[int | str] | None = None,
        telemetry_dir: str | os.PathLike[str] | None = None,
        kind: RunKind = RunKind.CODE,
        quiet: bool = False,
        variables: Mapping[str, str] | None = None,
        unsampled: str | None = None,
        words: Callable[[RunBegin, RunEnd], str] | None = None,
        group: str | None = None,
    ) -> None:
        """`devices` are indices or UUIDs; by default those that this process can see. At its end
        one line on standard error says what it used and where its record is, unless `quiet`.
        `variables` tell the rank where the environment does not; `unsampled` is why the devices
        are not sampled here; `words` returns another last line."""
        self._name = plain_text(name or _program(), NAME)
        self._params = plain_table(params or {})
        self._tags = tuple(plain_text(tag, NAME) for tag in tags)
        self._devices, self._kind, self._quiet = devices, kind, quiet
        self._group = group
        self._folder = None if telemetry_dir is None else Path(telemetry_dir)
        self._variables, self._unsampled, self._last_line = variables or {}, unsampled, words
        self._items, self._counted_at = ItemLog(), dict[str, float]()
        self.recorder: RunRecorder | None = None
        """Writes the record; None before it has begun."""
        self._token: Token[str | None] | None = None
        self._began = 0.0

    @property
    def id(self) -> str | None:
        """The id, eight letters; None before the run has begun."""
        return None if self.recorder is None else self.recorder.begin.id

    @property
    def path(self) -> Path | None:
        """Where the record is; None before it has begun."""
        return None if self.recorder is None else self.recorder.path

    @property
    def uuids(self) -> frozenset[str]:
        """The devices of the run."""
        recorder = self.recorder
        return frozenset(() if recorder is None else recorder.tallies.devices)

    @property
    def ended(self) -> RunEnd | None:
        """What it used, once it has ended."""
        return None if self.recorder is None else self.recorder.ended

    def begin(self) -> "RecordedRun":
        """Start recording; `with` calls it."""
        self.start()
        assert self.recorder is not None
        self._token = _current.set(self.recorder.begin.id)
        return self

    def start(self) -> None:
        """Starts recording without making this thread or task part of the run."""
        if self.recorder is not None:
            raise Invalid("this run has begun already", hint="andon.run(...) makes a new one")
        recorder = self.recorder = self._open(self._first_snapshot())
        self._began = boot_seconds()
        _open.add(self)
        _nesting.enter(recorder.begin.id)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Makes what is recorded in the block part of this run, for a run that goes on in steps."""
        token = _current.set(self.id)
        try:
            yield
        finally:
            _current.reset(token)

    def _first_snapshot(self) -> Snapshot:
        return library.shared().once(with_host=False)

    def _open(self, snapshot: Snapshot) -> RunRecorder:
        variables = {**os.environ, **self._variables}
        place = place_of(variables)
        uuids = chosen_devices(snapshot, self._devices)
        skipped = place.sampled_by_another(len(uuids))
        begin = new_run(
            self._kind, self._name, snapshot, uuids,
            {**variables, RUN_VARIABLE: parent_run()},
            command=redact(tuple(sys.orig_argv)), params=self._params, tags=self._tags,
            lease=os.environ.get("ANDON_LEASE") or None,
            allocation_method=SEEN if self._devices is None else NAMED,
            candidates=_candidates(snapshot, uuids, library.shared().settings),
            **({} if self._group is None else {"group": self._group}),
        )  # fmt: skip
        shared = library.shared()
        why = skipped or self._unsampled or (None if uuids else why_no_device(snapshot))
        found = recording(shared.settings, shared, logger.warning, self._folder)
        return found.open(begin, functools.partial(find_facts, None), why)

    def event(self, name: str, /, **data: Any) -> None:
        """Records an event: `run.event("epoch", number=3)`."""
        if self.recorder is not None:
            self.recorder.write(event_line(name, data))

    def log(self, step: float | None = None, /, **values: Any) -> None:
        """Records the program's values: `run.log(step=10, loss=0.3)` or `run.log(10, loss=0.3)`.

        `per_second` names amounts: `run.log(tokens=4096, per_second="tokens")` also records
        `tokens_per_second` since the call before.
        """
        if self.recorder is not None:
            named = values.pop("per_second", ())
            amounts = {named} if isinstance(named, str) else set(named)
            rates = self._rates_of({n: v for n, v in values.items() if n in amounts})
            for line in logged_lines(values.pop("step", step), {**values, **rates}):
                self.recorder.write(line)

    def _rates_of(self, amounts: Mapping[str, Any]) -> dict[str, float]:
        """Returns each amount per second since it was last logged."""
        now, found = time.monotonic(), dict[str, float]()
        for name, amount in plain_numbers(amounts)[0].items():
            before = self._counted_at.get(name)
            self._counted_at[name] = now
            if before is not None and now > before:
                found[f"{name}_per_second"] = amount / (now - before)
        return found

    def item(
        self,
        item: object,
        state: ItemState | str,
        index: int | None = None,
        device: int | str | None = None,
        attempt: int | None = None,
        runtime_seconds: float | None = None,
        output: object = None,
    ) -> None:
        """Records what happened to one item of many: `start`, `ok`, `failed` or `retry`."""
        if state not in set(ItemState):
            known = ", ".join(ItemState)
            raise Invalid(f"{state!r} is not a state of an item", hint=f"one of: {known}")
        if self.recorder is not None:
            where = None if device is None else plain_text(device, NAME)
            text = output if isinstance(output, str) else plain_text(output)
            output = None if output is None else text[-LONGEST_OUTPUT:]
            line = self._items.line(
                time.time(), plain_text(item), ItemState(state), index, where, attempt,
                runtime_seconds, output,
            )  # fmt: skip
            self.recorder.write(line)

    @contextmanager
    def working_on(
        self, item: object, index: int | None = None, device: int | str | None = None
    ) -> Iterator[None]:
        """Records the start of an item and how it ended: `with run.working_on("chunk 3"):`."""
        self.item(item, ItemState.START, index, device)
        try:
            yield
        except BaseException as error:
            self.item(item, ItemState.FAILED, index, device, output=plain_text(error, shown=repr))
            raise
        self.item(item, ItemState.OK, index, device)

    def used(self, lasted_seconds: float | None = None) -> Mapping[str, Mapping[str, Any]]:
        """Reads the devices once more; returns what the run has used so far, by uuid, or what it
        had used after these seconds."""
        if self.recorder is None:
            return {}
        lasted = boot_seconds() - self._began if lasted_seconds is None else lasted_seconds
        with suppress(AndonError, OSError):
            self.recorder.read_last()
        return self.recorder.tallies.summary(lasted_seconds=lasted)

    def end(self, error: BaseException | None = None) -> None:
        """End it; `with` calls it. Does nothing the second time, or in a forked child."""
        recorder = self.recorder
        if recorder is None or recorder.ended is not None or not recorder.is_own:
            _open.discard(self)
            return
        _nesting.leave(recorder.begin.id)
        self._leave()
        traceback_text = "" if error is None else "".join(traceback.format_exception_only(error))
        state, code, message = ending_of(error, traceback_text)
        recorder.finish(
            lambda memory: Verdict(state, message or ""),
            traceback_text,
            exit_code=code,
            duration_seconds=boot_seconds() - self._began,
        )
        _open.discard(self)  # only now: if Ctrl-C interrupts this, it is ended at exit
        self._print_use(recorder)

    def _leave(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            with suppress(ValueError):  # it may be ended in another thread
                _current.reset(token)

    def _print_use(self, recorder: RunRecorder) -> None:
        """Prints what the run used, once, and not for every rank of many."""
        if self._quiet or recorder.begin.rank or recorder.ended is None:
            return
        if self._last_line is not None:
            line = plain_text(self._last_line(recorder.begin, recorder.ended))
        else:
            line = plain_text(end_text(recorder.begin, recorder.ended, recorder.file.writes))
        with suppress(OSError, ValueError):  # it may be closed
            print(f"andon: {line}", file=sys.stderr, flush=True)

    def __enter__(self) -> "RecordedRun":
        return self.begin()

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        self.end(error)

    async def __aenter__(self) -> "RecordedRun":
        await asyncio.to_thread(self.begin)
        self._token = _current.set(self.id)  # in this task: the thread had a context of its own
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, at: object) -> None:
        self._leave()  # in this task too
        await asyncio.to_thread(self.end, error)


def event_line(name: str, data: Mapping[str, Any]) -> RunEvent:
    """Returns the line of an event that happens now."""
    return RunEvent(time.time(), plain_text(name, NAME), plain_table(data))


def logged_lines(step: Any, values: Mapping[str, Any]) -> list[RunLogged | RunEvent]:
    """Returns the line of values that are logged now, and one of those that are no numbers."""
    numbers, others = plain_numbers(values)
    at, place = time.time(), plain_numbers({"step": step})[0].get("step")
    known = {**numbers, **dict.fromkeys(others, math.nan)}
    lines: list[RunLogged | RunEvent] = [RunLogged(at, known, place)] if known else []
    return [*lines, RunEvent(at, NOT_FINITE, {**others, "step": place})] if others else lines


def run(
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Collection[str] = (),
    devices: Collection[int | str] | None = None,
    telemetry_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> RecordedRun:
    """Record part of a program: `with andon.run("train", params={"lr": 1e-4}) as run:`.

    The devices that this process can see are sampled, or those of `devices` (indices or UUIDs).
    `run.event`, `run.log` and `run.item` add what only the program knows. Inside `andon run`, or
    another run, it is a part of that one. Its end says where the record is, unless `quiet`.
    """
    return RecordedRun(name, params, tags, devices, telemetry_dir, quiet=quiet)


_starting = threading.Lock()


def log(step: float | None = None, /, **values: Any) -> None:
    """Record values of the run that this code is in: `andon.log(step=10, loss=0.3)`. Outside of any
    run, the first call begins one, which lasts until the program ends. As `log` of a run, which
    also says what `per_second` does."""
    _current_recording().log(step, **values)


def _current_recording() -> RecordedRun:
    """Returns the run of this thread or task, else the one that this process began last."""
    with _starting:
        begun = {one.id: one for one in _open}
        found = begun.get(_current.get()) or begun.get(_nesting.latest)
        if found is None:
            found = RecordedRun()
            found.start()
            _whole_program.append(found)
        return found


_whole_program: list[RecordedRun] = []
"""Runs that `log` began: nobody else keeps them until the program ends."""


def chosen_devices(snapshot: Snapshot, wanted: Collection[int | str] | None) -> list[str]:
    """Returns the uuids of the named devices, else of the visible ones. Where there is none at
    all, a program goes on without readings: only a wrong name is an error."""
    present = [status.device for status in snapshot.devices]
    if wanted is None:
        return [status.device.uuid for status in snapshot.devices if status.visible]
    unknown = [one for one in wanted if not any(one in (d.uuid, d.index) for d in present)]
    if unknown and present:
        raise Invalid(f"there is no device {unknown[0]!r}", hint="andon status lists them")
    return [device.uuid for device in present if device.uuid in wanted or device.index in wanted]


def _candidates(
    snapshot: Snapshot, chosen: Collection[str], settings: Settings
) -> tuple[RunCandidate, ...]:
    """Returns the run's devices and those that it could have named, as they are now."""
    weights = settings.score_memory_weight, settings.score_utilization_weight
    seen = [s for s in snapshot.devices if s.visible or s.device.uuid in chosen]
    return run_candidates(seen, *weights)


def why_no_device(snapshot: Snapshot) -> str:
    if snapshot.devices:
        return "no device is visible to this process"
    faults = [fault.reason for fault in snapshot.faults]
    return faults[0] if faults else "there is no device on this node"


def _program() -> str:
    """Returns the name of this program, without its folder."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return "python" if not name or name.startswith("-") else name  # -c, or - from a pipe


_open: "weakref.WeakSet[RecordedRun]" = weakref.WeakSet()


def _at_exit() -> None:
    """Ends the runs that the program left open, with the error that ends it if there is one."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for one in list(_open):
        with suppress(Exception):
            one.end(error)


def _in_child() -> None:
    """Drops the runs in a forked child: its records are part of the parent's."""
    global _nesting
    _open.clear()
    _whole_program.clear()
    _nesting = _Nesting()


atexit.register(_at_exit)
library.after_fork(_in_child)
