"""The workers of a map: one per place, each until no item is left for it."""

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

from msgspec import Struct

from andon.errors import AndonError
from andon.leases.granter import NoLongerWanted
from andon.leases.placement import Placement
from andon.model.run.record import ItemState
from andon.runs.record import RunRecorder
from andon.work.lease_watch import LeaseWatch
from andon.work.map.calls import CallEnd, Caller
from andon.work.map.places import MapPlace, WorkPlaces
from andon.work.rules.map.plan import MapPlan, MapUnit

TICK_SECONDS = 0.1
CHECK_SECONDS = 1.0
RETRY_SECONDS = 5.0  # after a refusal that may pass

Notify = Callable[[str], None]


class MapListener(Protocol):
    """Receives events, in order for each item; called from several threads at once. Events of other
    machines are reported late: `at` is when they happened."""

    def joined(self, place: MapPlace, at: float | None = None) -> None: ...
    def left(self, place: MapPlace, at: float | None = None) -> None: ...
    def began(self, unit: MapUnit, place: MapPlace, at: float | None = None) -> None: ...
    def ended(
        self,
        unit: MapUnit,
        place: MapPlace,
        end: CallEnd,
        state: ItemState,
        at: float | None = None,
    ) -> None: ...
    def withdrawn(self, unit: MapUnit, place: MapPlace) -> None:
        """Called if the unit did not begin after all."""


class WorkerPool(ABC):
    """Processes the items, on this machine or as jobs of a cluster. After `stop` no further item
    starts; `end` also ends running items. Both take no lock, because signal handlers call them."""

    params: Mapping[str, Any] = {}  # for the record
    unsampled: str | None = None  # why there may be no samples, where it does not take them here
    outlives = False  # its workers go on without us
    plan: MapPlan
    most = 0  # places that there can be at once, where it takes them one by one

    @property
    @abstractmethod
    def workers(self) -> list[str]:
        """The labels of the places that are taken now."""

    @abstractmethod
    def first(self) -> list[Placement]:
        """Returns the devices that the map begins with; raises the error that prevented them."""

    @abstractmethod
    def run(
        self,
        first: Sequence[Placement],
        recorder: RunRecorder,
        listener: MapListener,
        tick: Callable[[], None],
    ) -> None:
        """Works until every item has ended or nothing more can be done; calls `tick` regularly."""

    def stop(self, why: str) -> None:
        self.plan.stop(why)

    @abstractmethod
    def end(self, number: int = signal.SIGKILL) -> None: ...

    def release(self) -> bool:
        """Drops workers whose lease someone released; returns whether there were any."""
        return False


class _Worker(Struct):
    """One worker: where it works, what makes its calls, and whether it must leave."""

    place: Placement
    at: MapPlace
    caller: Caller
    watch: LeaseWatch
    leaving: str | None = None  # why its lease ends before the items do


class MapPool(WorkerPool):
    """One worker for each place, each making one call at a time, in processes of this machine or
    jobs of a cluster."""

    def __init__(
        self,
        plan: MapPlan,
        places: WorkPlaces,
        caller_of: Callable[[Placement, RunRecorder], Caller],
        notify: Notify,
        place_of: Callable[[Placement], MapPlace] = MapPlace.of,
    ) -> None:
        self.plan, self.places, self._caller_of, self._notify = plan, places, caller_of, notify
        self.most, self._place_of = places.most, place_of
        self._changed = threading.Condition()
        self._workers: dict[int, _Worker] = {}
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._number = 0
        self._ending: int | None = None  # the signal that ends all items
        self._error: BaseException | None = None

    @property
    def workers(self) -> list[str]:
        with self._changed:
            return [worker.at.label for worker in self._workers.values()]

    def first(self) -> list[Placement]:
        """Returns the first device, and what else is free now."""
        found = [self.places.first()]
        try:
            while len(found) < self.plan.waiting:
                more = self.places.at_once(found)
                if more is None:
                    break
                found.append(more)
        except BaseException:
            for place in found:
                place.release()
            raise
        return found

    def run(
        self,
        first: Sequence[Placement],
        recorder: RunRecorder,
        listener: MapListener,
        tick: Callable[[], None],
    ) -> None:
        self._recorder, self._listener = recorder, listener
        for place in first:
            self._start(place)
        recruiter = threading.Thread(target=self._recruit, name="andon recruits", daemon=True)
        recruiter.start()
        checked = time.monotonic()
        while True:
            with self._changed:
                if self._is_over(recruiter):
                    break
                self._changed.wait(TICK_SECONDS)
            tick()
            if self._ending is not None:
                self.end(self._ending)  # again and again: a call may have begun meanwhile
            if time.monotonic() - checked >= CHECK_SECONDS:
                checked = time.monotonic()
                self._check_places()
        for thread in self._threads:
            thread.join()
        recruiter.join()
        if self._error is not None:
            raise self._error

    def end(self, number: int = signal.SIGKILL) -> None:
        self._ending = number
        for worker in list(self._workers.values()):
            worker.caller.end(number)

    def release(self) -> bool:
        found = [one for one in list(self._workers.values()) if one.leaving is None]
        found = [one for one in found if one.watch.released() is not None]
        for worker in found:
            worker.leaving = worker.watch.released()
            self._notify(f"{worker.leaving}; its item is left to the others")
            worker.caller.end(signal.SIGTERM)
        return bool(found)

    # Workers.

    def _start(self, place: Placement) -> None:
        caller, watch = self._caller_of(place, self._recorder), LeaseWatch(place.held, self._notify)
        worker = _Worker(place, self._place_of(place), caller, watch)
        with self._changed:
            self._number += 1
            number = self._number
            self._workers[number] = worker
        self._listener.joined(worker.at)
        thread = threading.Thread(
            target=self._work, args=(number, worker), name=f"andon map {place.label}"
        )
        self._threads.append(thread)
        thread.start()

    def _work(self, number: int, worker: _Worker) -> None:
        try:
            with closing(worker.caller):
                while (unit := self._next(worker)) is not None:
                    self._listener.began(unit, worker.at)
                    self._settle(unit, worker, worker.caller.call(unit))
        except BaseException as error:  # noqa: BLE001 - raised again where the map was started
            self._error = self._error or error
            self.plan.stop("a worker failed")
        finally:
            worker.place.release()
            with self._changed:
                del self._workers[number]
                self._changed.notify_all()
            self._listener.left(worker.at)

    def _next(self, worker: _Worker) -> MapUnit | None:
        """Returns the next call for this worker; None if it may leave."""
        with self._changed:
            self._idle += 1
            try:
                while worker.leaving is None:
                    now = time.monotonic()
                    if (unit := self.plan.take(now)) is not None:
                        return unit
                    due = self.plan.due_seconds(now)
                    if due is None or self._idle > self.plan.waiting:
                        return None
                    self._changed.wait(min(due, CHECK_SECONDS))
                return None
            finally:
                self._idle -= 1

    def _settle(self, unit: MapUnit, worker: _Worker, end: CallEnd) -> None:
        leaves = end.interrupted and worker.leaving is not None and self._ending is None
        with self._changed:
            self._changed.notify_all()
            if not end.begun or (leaves and not end.ok):
                self.plan.returned(unit)
            else:
                state = self.plan.ended(unit, end.ok, time.monotonic())
        if not end.begun:
            self._listener.withdrawn(unit, worker.at)
        elif end.ok or not leaves:
            place = MapPlace(end.place) if end.place else worker.at
            self._listener.ended(unit, place, end, state, end.at)

    # Growing.

    def _recruit(self) -> None:
        while not self._is_enough():
            try:
                taken = [worker.place for worker in list(self._workers.values())]
                place = self.places.later(taken, self._is_enough)
            except NoLongerWanted:
                return
            except AndonError as error:
                self._wait_after(error)
                continue
            if place is None:
                if not self._wait_for_change():
                    return
                continue
            if self._is_enough():
                place.release()
                return
            try:
                self._start(place)
            except BaseException as error:  # noqa: BLE001 - raised again where the map was started
                place.release()
                self._error = self._error or error
                self.plan.stop("a worker could not be started")
                return

    def _is_enough(self) -> bool:
        """Whether no further worker would find an item."""
        return self.plan.waiting <= self._idle

    def _wait_after(self, error: AndonError) -> None:
        """Decides what follows a failed request for a device: without any worker it ends the
        map; with some, a later attempt may succeed."""
        with self._changed:
            if not self._workers:
                self._error = self._error or error
                self.plan.stop(error.reason)
                return
            self._changed.wait(RETRY_SECONDS)

    def _wait_for_change(self) -> bool:
        """Waits while all places are taken; one may become free when its lease is released."""
        with self._changed:
            before = len(self._workers)
            while not self._is_enough() and len(self._workers) >= before:
                self._changed.wait(CHECK_SECONDS)
        return not self._is_enough()

    def _is_over(self, recruiter: threading.Thread) -> bool:
        if self._workers:
            return False
        return self.plan.over or not recruiter.is_alive()

    def _check_places(self) -> None:
        for worker in list(self._workers.values()):
            worker.leaving = worker.leaving or worker.watch.check()
            if worker.leaving is not None:
                worker.caller.end(signal.SIGTERM)
