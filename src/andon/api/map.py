"""`andon.map`: calls a function for many items, in one process per device."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from andon.api import watch as library
from andon.api.lease import hold, outer_availability
from andon.app.runs import recording
from andon.errors import AndonError, Conflict, Invalid
from andon.leases.placement import Placement
from andon.leases.rules.requests import Names, RequestOptions, Size
from andon.model.run.record import ItemState
from andon.runs.record import RunRecorder
from andon.runs.rules.plain import plain_text
from andon.runs.rules.ranks import run_variables
from andon.units import seconds_of
from andon.work.functions.caller import CallOutcome, FunctionWorker
from andon.work.functions.carrying import carry_function
from andon.work.map.calls import CallEnd, CallOutput
from andon.work.map.places import CpuPlaces, LeasedPlaces, WorkPlaces
from andon.work.map.pool import MapPool
from andon.work.map.session import MapRecord, MapSession
from andon.work.rules.map.items import MapItem
from andon.work.rules.map.plan import MapPlan, MapPolicy, MapUnit

log = logging.getLogger("andon")


def map(  # noqa: A001 - `andon.map`
    function: Callable[[Any], Any],
    items: Iterable[Any],
    *,
    gpus: int | str = "all",
    memory: Size = None,
    devices: Names = (),
    cpu: int | None = None,
    retries: int = 0,
    item_timeout: float | str | None = None,
    wait: float | str = 300.0,
    on_error: Literal["raise", "return"] = "raise",
    name: str | None = None,
    simulated: bool = False,
) -> list[Any]:
    """`function(item)` for every item, one process per GPU; the results in the order of the items.

    Each process is started, never forked, sees one device of a lease of its own, and stays: what
    the function's module loads is loaded once. More begin as devices become free, up to `gpus`.
    `cpu=4` works without devices. If an item fails, no further one begins and its exception is
    raised; with `on_error="return"` the others go on and the exception stands in its place.
    Functions of notebooks and of `__main__` need `pip install 'andon[notebooks]'`.
    """
    carry_function(function)
    if on_error not in ("raise", "return"):
        raise Invalid(f"on_error is {on_error!r}", hint="raise or return")
    values = list(items)
    if not values:
        return []
    limit = None if item_timeout is None else seconds_of(item_timeout)
    work = _FunctionWork(function, values, limit, on_error == "raise")
    policy = MapPolicy(retries, 1 if on_error == "raise" else None)
    places: WorkPlaces = (
        CpuPlaces(cpu)
        if cpu is not None
        else _places(gpus, memory, devices, seconds_of(wait), simulated)
    )
    shared = library.shared()
    record = MapRecord(
        name or str(getattr(function, "__name__", "map")),
        (),
        recording(shared.settings, shared, log.warning),
        {"items": len(values)},
    )
    plan = MapPlan([MapItem(i, plain_text(value)) for i, value in enumerate(values)], policy)
    pool = MapPool(plan, places, work.caller, log.warning)
    try:
        MapSession(plan, pool, record.open, work).run(lambda progress: None)
    except BaseException:
        pool.stop("interrupted")
        pool.end()
        raise
    return work.values(plan)


class _FunctionWork(Struct):
    """Calls the function, and keeps the result of each item."""

    function: Callable[[Any], Any]
    items: Sequence[Any]
    timeout_seconds: float | None
    raises: bool
    _outcomes: dict[int, CallOutcome] = field(default_factory=dict)

    def caller(self, place: Placement, recorder: RunRecorder) -> "_FunctionCaller":
        environment = {**place.environment, **run_variables(recorder.begin.id)}
        grace = library.shared().settings.work_grace_seconds
        return _FunctionCaller(self, FunctionWorker(self.function, environment, grace))

    def ended(self, unit: MapUnit, end: CallEnd, state: ItemState) -> None:
        if state is not ItemState.RETRY:
            self._outcomes[unit.items[0].index] = end.result

    def close(self) -> None:
        pass  # nothing is printed

    def values(self, plan: MapPlan) -> list[Any]:
        """The results; raises the first failure in the order of the items."""
        if self.raises:
            for index in sorted(self._outcomes):
                self._outcomes[index].value()
        if plan.untouched:
            raise Conflict(f"{plan.untouched} items were not begun: {plan.stopped}")
        return [self._value(index) for index in range(len(self.items))]

    def _value(self, index: int) -> Any:
        outcome = self._outcomes[index]
        return outcome.result if outcome.ok else outcome.raised()


class _FunctionCaller(Struct):
    """The calls of one process."""

    work: _FunctionWork
    worker: FunctionWorker
    _end_requested: bool = False

    def call(self, unit: MapUnit) -> CallEnd:
        began = time.monotonic()
        item = unit.items[0]
        output_since = self.worker.mark()
        try:
            outcome = self.worker.call(self.work.items[item.index], self.work.timeout_seconds)
        except (AndonError, ImportError) as exc:
            outcome = CallOutcome(error=f"{type(exc).__name__}: {exc}", seconds=0.0)
        return CallEnd(
            outcome.ok, time.monotonic() - began, outcome.error or "", CallOutput(output_since()),
            result=outcome, interrupted=self._end_requested,
        )  # fmt: skip

    def end(self, number: int) -> None:
        self._end_requested = True
        self.worker.end(number)

    def close(self) -> None:
        self.worker.close()


def _places(
    gpus: int | str, memory: Size, devices: Names, wait_seconds: float, simulated: bool
) -> WorkPlaces:
    """Returns places whose leases have a holder of their own: `andon release` does not end this
    program."""
    limit = library.shared().settings.map_gpus
    workers = limit if str(gpus).strip().lower() == "all" else int(gpus)
    return LeasedPlaces(
        outer_availability(simulated),
        RequestOptions(1, memory, devices=devices).request(),
        lambda *asking: hold(*asking, simulated=simulated).placement,
        max(1, min(limit, workers)),
        wait_seconds=wait_seconds,
    )
