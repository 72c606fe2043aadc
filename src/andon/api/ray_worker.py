"""What the calls in one Ray worker share: the GPUs that Ray gave it, and one lease on them."""

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from andon.api import watch as library
from andon.api.lease import own_work, seen_with
from andon.api.run import RecordedRun, event_line, parent_run
from andon.app.leases import open_availability
from andon.app.runs import recording
from andon.errors import AndonError, Conflict
from andon.host.machine_id import boot_id, node_name
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.placement import Placement
from andon.leases.rules.eligibility import given_devices, no_gpu
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.model.device import Device, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import LeaseKind
from andon.model.naming import titles
from andon.model.run.record import RunKind
from andon.runs.header import new_run
from andon.runs.record import RunRecorder
from andon.runs.rules.ranks import RUN_VARIABLE
from andon.units import human_bytes

log = logging.getLogger("andon")

FRESH_SECONDS: Final = 1.0
"""A reading of this age is good enough to say which devices there are."""
QUICK_SECONDS: Final = 0.2
"""A call that ends within this time is recorded without samples."""
NO_GPU: Final = "Ray gave it no GPU"


class DeviceBusy(Conflict):
    """The GPU that Ray gave to a task is used by someone else; `mistakes` has each and whom. With
    `retry_exceptions=[DeviceBusy]` Ray tries elsewhere."""


class RayCall(Struct, frozen=True):
    """What Ray gave to a call."""

    ids: tuple[str, ...]  # of GPUs: numbers or UUIDs
    share: float  # of a GPU: 0.5; at least 1 for whole ones
    job: str


class CallPlace(Struct, frozen=True):
    """The devices of a call, how it got them, why they are not sampled, why it has no lease."""

    placement: Placement
    method: str = "Ray"
    unsampled: str | None = None
    unleased: str | None = None


def current_call() -> RayCall | None:
    """Returns what Ray gave to the call that this is; None outside of its workers, where Ray is
    already imported."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return None
    given = context.get_assigned_resources()
    named = (given[name] for name in given if name == "GPU" or name.startswith("GPU_group_"))
    return RayCall(tuple(map(str, ray.get_gpu_ids())), next(named, 1.0), context.get_job_id())


class LateSampling:
    """Samples the runs that have lasted for a moment. One thread for all of them, which ends when
    no call has come for a while: a thread for each would take longer than many calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = dict[RunRecorder, float]()
        self._thread: threading.Thread | None = None

    def add(self, recorder: RunRecorder) -> None:
        with self._lock:
            self._due[recorder] = time.monotonic() + QUICK_SECONDS
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="andon ray", daemon=True)
                self._thread.start()

    def drop(self, recorder: RunRecorder) -> None:
        """Drops a run that ends, unless it is sampled already."""
        with self._lock:
            self._due.pop(recorder, None)

    def _loop(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(QUICK_SECONDS / 2)
            now = time.monotonic()
            with self._lock:
                last = now if self._due else last
                for recorder in [one for one, due in self._due.items() if due <= now]:
                    del self._due[recorder]
                    recorder.follow()
                if now - last > library.LINGER_SECONDS:
                    self._thread = None
                    return


class RayWorker:
    """The lease of this worker: taken by the first call that is in it, released by the last."""

    def __init__(self) -> None:
        self.actor: str | None = None  # the run of the actor that this worker is
        self.sampled = LateSampling()
        self._lock = threading.Lock()
        self._place: CallPlace | None = None
        self._calls = 0
        self._seen: Snapshot | None = None
        self._seen_at = 0.0
        self._masked: Snapshot | None = None
        self._book: Book | None = None
        self._logged = set[str]()
        settings = library.shared().settings
        self._availability = open_availability(settings, self._sample, simulated=True)

    def enter(self, call: RayCall, name: str, refuse_busy: bool) -> CallPlace:
        """Returns the devices of a call, with a lease on them where that is possible; raises
        DeviceBusy if they are used and the call refuses that."""
        with self._lock:
            if self._place is None:
                self._place = self._taken(call, name, refuse_busy)
                self._tell(name, self._place.unleased)
            self._calls += 1
            return self._place

    def leave(self) -> None:
        with self._lock:
            self._calls -= 1
            if not self._calls and self._place is not None:
                self._place.placement.release()
                self._place = None

    def _tell(self, name: str, why: str | None) -> None:
        """Says once why calls have no lease: a worker may run thousands."""
        if why is not None and why not in self._logged:
            self._logged.add(why)
            log.warning("%s runs without a lease: %s", name, why)

    def _sample(self) -> Snapshot:
        """Returns the devices as they were a moment ago, with this call's mask."""
        if self._seen is None or time.monotonic() - self._seen_at > FRESH_SECONDS:
            self._seen, self._seen_at = library.shared().once(with_host=False), time.monotonic()
            self._masked = None
        if self._masked is None:
            self._masked = seen_with(self._seen, os.environ)
        return self._masked

    def _taken(self, call: RayCall, name: str, refuse_busy: bool) -> CallPlace:
        if not call.ids:
            nothing = Snapshot(node=node_name(), at=time.time(), boot=boot_id())
            return CallPlace(Placement(environment={}, snapshot=nothing), "Ray", NO_GPU)
        self._masked = None  # its mask is another than that of the last call
        if refuse_busy:
            self._seen = None
        snapshot = self._sample()
        given = _given(snapshot, call.ids)
        place = Placement(given, {}, snapshot)
        if not given:
            why = "none of its devices is visible" if snapshot.devices else None
            return CallPlace(place, unsampled=why or no_gpu(snapshot.faults).reason)
        if len(given) > len(call.ids):
            why = f"{len(given)} GPUs are visible, {len(call.ids)} of them are its own: which is "
            return CallPlace(Placement((), {}, snapshot), unsampled=f"{why}not known")
        if around := os.environ.get(LEASE_VARIABLE):
            return CallPlace(place, f"Ray, in lease {around}")
        return self._leased(call, name, refuse_busy, place)

    def _leased(self, call: RayCall, name: str, refuse_busy: bool, place: Placement) -> CallPlace:
        count, method, size = len(place.devices), "Ray", None
        if call.share < 1:
            total = place.devices[0].memory_total_bytes
            if total is None:
                return CallPlace(place, unleased="how much memory its GPU has is not known")
            size = int(call.share * total)
            method = f"Ray: {call.share:g} of a GPU, a shared lease of {human_bytes(size)}"
        request = DeviceRequest(
            count, count, size, size is not None, devices=tuple(place.uuids), balanced=False,
            even_if_used=not refuse_busy,
        )  # fmt: skip
        terms = LeaseTerms(LeaseKind.LIBRARY, f"ray task {name}", work=own_work())
        seen = replace(self._availability, mine=_colleagues() if refuse_busy else frozenset())
        try:
            self._book = self._book or Book()
            return CallPlace(Granter(self._book, seen).grant(request, terms, 0.0), method)
        except Conflict as error:
            assert place.snapshot is not None
            names = titles(place.snapshot.devices)
            mine = tuple(f"{names[uuid]}: " for uuid in place.uuids)
            barred = tuple(line for line in error.mistakes if line.startswith(mine))
            reason = "; ".join(barred) or error.reason
            if refuse_busy:
                hint = "@ray.remote(retry_exceptions=[DeviceBusy]) tries elsewhere"
                raise DeviceBusy(reason, hint, barred) from error
            return CallPlace(place, unleased=reason)
        except (AndonError, OSError) as error:
            self._book = None
            return CallPlace(place, unleased=str(error))


class CallRun(RecordedRun):
    """The run of one call, a part of the driver's. The lines of a short one are only its beginning
    and its end."""

    def __init__(self, name: str, call: RayCall, place: CallPlace, driver: str | None) -> None:
        super().__init__(name, {"ray_job": call.job}, quiet=True)
        self._place, self._driver = place, driver

    def _first_snapshot(self) -> Snapshot:
        assert self._place.placement.snapshot is not None
        return self._place.placement.snapshot

    def _open(self, snapshot: Snapshot) -> RunRecorder:
        place, shared = self._place.placement, library.shared()
        begin = new_run(
            RunKind.CODE, self._name, snapshot, place.uuids,
            {**os.environ, RUN_VARIABLE: parent_run(self._driver)},
            command=f"ray task {self._name}", params=self._params, lease=place.lease_id,
            allocation_method=self._place.method,
        )  # fmt: skip
        found = recording(shared.settings, shared, log.warning, direct=True)
        recorder = found.open(begin, None, self._place.unsampled, follows=False)
        this_worker().sampled.add(recorder)
        if self._place.unleased is not None:
            recorder.write(event_line("no_lease", {"reason": self._place.unleased}))
        return recorder

    def end(self, error: BaseException | None = None) -> None:
        if self.recorder is not None:
            this_worker().sampled.drop(self.recorder)
        super().end(error)


def _given(snapshot: Snapshot, ids: Sequence[str]) -> tuple[Device, ...]:
    """Returns the devices that the mask leaves, which Ray sets; where it was told not to, those
    that it names."""
    seen = given_devices(snapshot)
    return tuple(one for one in seen if one.uuid in ids) if len(seen) > len(ids) else seen


def _colleagues() -> frozenset[int]:
    """Returns the workers of this Ray node: what they do on a GPU is Ray's own business, and one
    whose task has ended may still be on it."""
    above, found = os.getppid(), {os.getpid()}
    with suppress(OSError, ValueError):
        text = Path(f"/proc/{above}/task/{above}/children").read_text()
        found |= {int(word) for word in text.split()}
    return frozenset(found)


_worker: RayWorker | None = None


def this_worker() -> RayWorker:
    global _worker
    if _worker is None:
        _worker = RayWorker()
    return _worker


def _in_child() -> None:
    global _worker
    _worker = None


library.after_fork(_in_child)
