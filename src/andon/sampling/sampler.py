"""The sampling loop: polls every vendor's reader, builds snapshots, enforces deadlines."""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.failures.log import FailureLog
from andon.host.files import wait_readable
from andon.model.device import SAMPLER, Device, DeviceStatus, Fault, Host, Snapshot
from andon.model.event import Event
from andon.model.request import Ring, RunAccount
from andon.sampling.bus import Bus, Subscription
from andon.sampling.readers import LONGEST_REASON, REPORT_HINT, Vendor
from andon.sampling.rules.masks import Visibility
from andon.sampling.rules.roster import BackendChoice, numbered, order, stale

if TYPE_CHECKING:
    from andon.events.rules.reports import Reports
    from andon.ports import EventSource, HostSource

FIRST_SAMPLE_SECONDS = 0.1  # CPU use is a difference: two readings closer than this say nothing,
FIRST_SAMPLE_CPU_SECONDS = 0.5  # unless many processors counted fifty ticks of 10 ms together
STARTING_SHARE = 0.25  # of all processors: if starting up took more, others had to wait for it
SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 86_400.0
LONG_WAIT_SECONDS = 2.0
NUDGE_SECONDS = 0.02  # an answer takes a few milliseconds; after this a card may be stuck
LEFTOVER_SECONDS = 0.5
UNWATCHED_HOST_SECONDS = 5.0  # the machine itself, while nobody watches: a fifth of a sample's cost
EARLY_SECONDS = 0.1  # intervals are never exact: what is almost due is due now

Mark = Callable[[tuple[DeviceStatus, ...]], tuple[DeviceStatus, ...]]
"""Adds what other parts know to the devices; called for every sample, so it must not block."""


class Costs(Struct, frozen=True):
    """What sampling has cost so far; the reader's wall time includes the driver's."""

    snapshots: int = 0
    missed: int = 0
    sampler_cpu_seconds: float = 0.0
    sampler_wall_seconds: float = 0.0
    reader_cpu_seconds: float = 0.0
    reader_wall_seconds: float = 0.0
    reader_last_wall_seconds: float = 0.0
    failed: int = 0
    impossible: int = 0
    """Impossible readings that were left out."""


class NodeIdentity(Struct, frozen=True):
    """Name and boot id of this machine."""

    name: str
    boot: str | None


class Sampler:
    """Takes snapshots for any number of sessions; runs while there is one, and for `once`."""

    def __init__(
        self,
        vendors: Mapping[str, Sequence[BackendChoice]],
        host: "HostSource",
        node: NodeIdentity,
        visibility: Callable[[Sequence[Device]], Visibility],
        deadline_seconds: float = 1.0,
        constant_faults: Sequence[Fault] = (),
        kernel_log: "EventSource | None" = None,
    ) -> None:
        self._vendors = [
            Vendor(name, choices, deadline_seconds) for name, choices in vendors.items()
        ]
        self._host, self._node, self._visibility = host, node, visibility
        self._constant_faults = tuple(constant_faults)
        self._kernel_log = kernel_log
        self._reports: Reports | None = None
        self._bus = Bus()
        self._ticking = threading.Lock()
        self._woken = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._turn_began: float | None = None
        self._ticks = 0
        self._failures = FailureLog(
            "andon.sampler", "sampling failed; retrying at the next interval", brief=True
        )
        self._latest: tuple[DeviceStatus, ...] = ()
        self._sampler_cpu = self._sampler_wall = 0.0
        self._began: float | None = None
        self._own_start = 0.0
        self._known_host = Host()
        self._host_due = 0.0
        self._marks = list[Mark]()
        self._account = RunAccount.NONE
        self._places = self._requested_early = False
        self.on_long_wait: Callable[[str], None] | None = None
        """Called once with what a first reading waits for, if it takes more than two seconds."""
        self.on_snapshot: Callable[[Snapshot], None] = lambda snapshot: None

    # For callers.

    def begin(self) -> None:
        """Starts the readers without waiting: they may be ready by the first sample."""
        with self._ticking:
            self._begin()
            self._requested_early = not self._places
            for vendor in self._vendors:
                vendor.ask(self._ticks, self._bus.is_watched, time.monotonic(), places=self._places)

    def once(
        self,
        expensive_fields: bool = False,
        with_host: bool = True,
        account: RunAccount = RunAccount.NONE,
    ) -> Snapshot:
        """Returns a new snapshot for one caller: without `expensive_fields`, those that take a
        driver long may be missing; without `with_host`, the values of the machine itself are."""
        with self._ticking:
            self.account(account)
            host = self._new_host if with_host else Host
            return self._safe_tick(expensive_fields or self._bus.is_watched, host)

    def account(self, wanted: RunAccount) -> None:
        """Reads these counters with the next sample, also if that is for another caller."""
        self._account = max(self._account, wanted)

    def ask_places(self) -> None:
        """Reads the devices' places in the machine with the next sample, once."""
        self._places = True

    def rings(self) -> dict[str, Ring]:
        """Returns the drivers' own readings of utilisation by uuid, from the last request for
        them."""
        return {uuid: ring for v in self._vendors for uuid, ring in v.rings.items()}

    def subscribe(
        self, interval_seconds: float, watching: bool = False, size: int = 64, at_once: bool = True
    ) -> Subscription:
        """Opens a session: a snapshot at once unless the caller has just taken one, then one per
        interval."""
        if not SHORTEST_SECONDS <= interval_seconds <= LONGEST_SECONDS:  # also catches NaN
            raise Invalid(
                f"{interval_seconds!r} is not an interval",
                hint=f"use {SHORTEST_SECONDS} to {LONGEST_SECONDS:.0f} seconds",
            )
        with self._woken:
            seen_at = None if at_once else time.monotonic()
            subscription = self._bus.subscribe(interval_seconds, watching, size, seen_at)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._loop, name="sampler", daemon=True)
                self._thread.start()
            self._woken.notify_all()
        return subscription

    def costs(self) -> Costs:
        return Costs(
            snapshots=self._ticks,
            missed=self._bus.missed(),
            failed=self._failures.count,
            impossible=sum(v.roster.impossible for v in self._vendors),
            sampler_cpu_seconds=self._sampler_cpu,
            sampler_wall_seconds=self._sampler_wall,
            reader_cpu_seconds=sum(v.costs.cpu_seconds for v in self._vendors),
            reader_wall_seconds=sum(v.costs.wall_seconds for v in self._vendors),
            reader_last_wall_seconds=sum(v.costs.last_wall_seconds for v in self._vendors),
        )

    @property
    def node(self) -> NodeIdentity:
        """The machine that the devices belong to."""
        return self._node

    def mark_by(self, mark: Mark) -> None:
        """Adds a function that marks every snapshot, after the earlier functions."""
        self._marks.append(mark)

    def turn_seconds(self) -> float:
        """Returns for how long the loop has been working on one sample; 0 while it waits."""
        began = self._turn_began
        return 0.0 if began is None else time.monotonic() - began

    @property
    def runs(self) -> bool:
        """Whether the loop runs; it does while there is a session."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def reader_pids(self) -> list[int]:
        return [v.reader_pid for v in self._vendors if v.reader_pid is not None]

    def close(self) -> None:
        """Ends the readers. One that is stuck in the kernel is left behind."""
        self._closed = True
        self._bus.close()
        with self._woken:
            self._woken.notify_all()
        if self._ticking.acquire(timeout=LEFTOVER_SECONDS):
            try:
                for vendor in self._vendors:
                    vendor.close(LEFTOVER_SECONDS)
                if self._kernel_log is not None:
                    self._kernel_log.close()
            finally:
                self._ticking.release()

    def forget(self) -> None:
        """Drops everything of the parent in a forked child, locks included."""
        for vendor in self._vendors:
            vendor.forget()
        if self._kernel_log is not None:
            self._kernel_log.close()
        self._bus.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The loop.

    def _loop(self) -> None:
        while not self._closed and self._wait_for_due():
            self._turn_began = time.monotonic()
            with self._ticking:
                watched = self._bus.is_watched
                snapshot = self._safe_tick(
                    watched, self._new_host if watched else self._recent_host
                )
            self._bus.publish(snapshot, time.monotonic())
            self._turn_began = None

    def _safe_tick(self, expensive_fields: bool, read_host: Callable[[], Host]) -> Snapshot:
        """Returns a snapshot in any case: a caller must not wait forever."""
        try:
            snapshot = self._tick(expensive_fields, read_host)
            self._latest = snapshot.devices
            self.on_snapshot(snapshot)
        except Exception as exc:  # noqa: BLE001 - logged, reported as a fault, and retried
            self._failures.add(exc)
            snapshot = self._of_a_failure(f"this reading failed: {exc!r}"[:LONGEST_REASON])
        return snapshot

    def _of_a_failure(self, reason: str) -> Snapshot:
        """Returns the last known state, marked as stale."""
        at = time.time()
        self._latest = tuple(stale(status, reason, REPORT_HINT, at) for status in self._latest)
        return Snapshot(
            node=self._node.name,
            at=at,
            simulated=any(status.device.vendor == "sim" for status in self._latest),
            boot=self._node.boot,
            devices=self._latest,
            faults=(Fault(SAMPLER, reason, REPORT_HINT),),
        )

    def _wait_for_due(self) -> bool:
        """Sleeps until a session is due; False when there is none left."""
        with self._woken:
            while not self._closed:
                now = time.monotonic()
                due = self._bus.wake_at(now)
                if due is None:
                    self._thread = None
                    return False
                if due <= now:
                    return True
                self._woken.wait(due - now)
        return False

    def _tick(self, expensive_fields: bool, read_host: Callable[[], Host]) -> Snapshot:
        cpu, wall = time.thread_time(), time.perf_counter()
        self._begin()
        self._ticks += 1
        self._catch_up()
        at = time.time()
        account, self._account = self._account, RunAccount.NONE
        for vendor in self._vendors:
            vendor.ask(self._ticks, expensive_fields, time.monotonic(), account, self._places)
        waited = self._collect()
        if self._places and self._requested_early:
            # What was collected may be the answer to the question before, which was without them.
            self._requested_early = False
            for vendor in self._vendors:
                vendor.ask(self._ticks, expensive_fields, time.monotonic(), places=True)
            waited += self._collect()
        snapshot = self._snapshot(at, read_host, self._new_events())
        self._sampler_cpu += time.thread_time() - cpu
        self._sampler_wall += time.perf_counter() - wall - waited
        return snapshot

    def _begin(self) -> None:
        """Takes the baseline that the first sample is compared with."""
        if self._began is None:
            self._began, self._own_start = time.monotonic(), sum(os.times()[:4])
            self._host.read()

    def _catch_up(self) -> None:
        """Processes what arrived between two samples: a late answer still counts."""
        while ready := self._wait_for_answers(0.0):
            for vendor in ready:
                vendor.receive()

    def _wait_for_answers(self, seconds: float) -> list[Vendor]:
        """Returns the vendors whose readers have sent something; waits so long at most."""
        by_answers = {v.answers: v for v in self._vendors if v.answers is not None}
        return [by_answers[descriptor] for descriptor in wait_readable(by_answers, seconds)]

    def _collect(self) -> float:
        """Takes answers until all have arrived or are overdue; returns the time spent waiting."""
        waited = 0.0
        while True:
            now = time.monotonic()
            late = {v: end for v in self._vendors if (end := v.awaited_until(now)) is not None}
            if waited >= LONG_WAIT_SECONDS and self.on_long_wait is not None:
                self._notify_of_wait(late)
            if not late:
                return waited
            started = time.perf_counter()
            ready = self._wait_for_answers(min(max(late.values()) - now, NUDGE_SECONDS))
            waited += time.perf_counter() - started
            for vendor in ready:
                vendor.receive()
            if not ready:
                for silent in late:
                    silent.nudge()

    def _notify_of_wait(self, late: Iterable[Vendor]) -> None:
        """Reports once what the first reading of a busy machine waits for."""
        notify, self.on_long_wait = self.on_long_wait, None
        texts = [text for vendor in late if (text := vendor.first_answer_text()) is not None]
        if notify is not None and texts:
            notify(texts[0])

    def _new_events(self) -> tuple[Event, ...]:
        """Returns new events and passes them to every session at once: this snapshot may be for
        a single caller."""
        reports = list(self._kernel_log.read()) if self._kernel_log is not None else []
        for vendor in self._vendors:
            if vendor.events:
                reports += vendor.events
                vendor.events = []
        if not reports:
            return ()
        if self._reports is None:
            from andon.events.rules.reports import Reports

            self._reports = Reports()
        events = self._reports.new((self._named(report) for report in reports), time.monotonic())
        self._bus.add_events(events)
        return events

    def _named(self, report: Event) -> Event:
        """Returns the event with its device, and the processes on that."""
        from andon.events.rules.reports import on_device, with_parties

        for vendor in self._vendors:
            named = on_device(report, vendor.roster.devices())
            if named.uuid is not None and named.uuid in vendor.roster.entries:
                return with_parties(named, vendor.roster.ran_on(named.uuid, named.at))
        return report

    def _snapshot(
        self, at: float, read_host: Callable[[], Host], events: tuple[Event, ...]
    ) -> Snapshot:
        now = time.monotonic()
        for vendor in self._vendors:
            vendor.settle(time.time(), now)
        devices = [device for vendor in self._vendors for device in vendor.roster.devices()]
        visible = self._visibility(devices).visible
        statuses = numbered([vendor.roster.statuses(visible) for vendor in self._vendors])
        shown = tuple(sorted(statuses, key=order))
        return Snapshot(
            node=self._node.name,
            at=at,
            simulated=any(device.vendor == "sim" for device in devices),
            boot=self._node.boot,
            versions={n: t for vendor in self._vendors for n, t in vendor.versions.items()},
            host=read_host(),
            devices=reduce(lambda devices, mark: mark(devices), self._marks, shown),
            faults=(
                *self._constant_faults,
                *(v.fault for v in self._vendors if v.fault is not None),
            ),
            events=events,
        )

    def _recent_host(self) -> Host:
        """Returns the host's values, a few seconds old at most: for sessions without a watcher."""
        is_known = self._ticks > 1 and time.monotonic() + EARLY_SECONDS < self._host_due
        return self._known_host if is_known else self._new_host()

    def _new_host(self) -> Host:
        self._known_host = self._read_host()
        self._host_due = time.monotonic() + UNWATCHED_HOST_SECONDS
        return self._known_host

    def _read_host(self) -> Host:
        """Reads the host; CPU use needs two readings some time apart: the first sample waits for
        the second.

        The CPU time of starting up is known and left out. On a small machine it also delayed
        others: then the measured time begins only now.
        """
        if self._ticks > 1:
            return self._host.read()
        cpus = os.cpu_count() or 1
        least = min(FIRST_SAMPLE_SECONDS, FIRST_SAMPLE_CPU_SECONDS / cpus)
        elapsed, own = time.monotonic() - (self._began or 0.0), self._starting_cpu()
        if own > STARTING_SHARE * elapsed * cpus:
            self._host.read()
            elapsed, own = 0.0, 0.0
        if elapsed < least:
            time.sleep(least - elapsed)
            elapsed = least
        host = self._host.read()
        if host.cpu_percent is None:
            return host
        everything = elapsed * cpus
        others = host.cpu_percent * everything / 100.0 - own
        share = 100.0 * others / (everything - own)  # of what starting up left to them
        return replace(host, cpu_percent=min(100.0, max(0.0, round(share, 1))))

    def _starting_cpu(self) -> float:
        """Returns the CPU time of starting up, at most: a reader may have begun before."""
        readers = (v.costs.cpu_seconds - v.costs.earlier_cpu_seconds for v in self._vendors)
        return sum(os.times()[:4]) - self._own_start + sum(readers)
