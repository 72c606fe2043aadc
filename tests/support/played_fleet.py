"""A fleet whose nodes report everything: devices, processes, leases, jobs, alerts, runs and a day
of history. What each has follows from its number; its digest is made as a node makes it."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from andon.fleet.rules.digest import digest_of, encoded
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.history.rules.codec import SeriesRow, pack_rows
from andon.history.rules.tiers import WINDOW_MS, StoredBlock, Tier, window
from andon.model.alert import Alert, Level, Phase, Silence
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.job.facts import JobState, JobView
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.lease import LeaseKind, LeaseState, Share
from andon.model.lease_list import CordonRow, LeaseList, LeaseRow, WaitingRow
from andon.model.run.record import RunDevice, RunKind, RunRow, RunState
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.model.wire import bare_snapshot
from andon.ports import NodePasts, NodeStore
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind
from andon.units import GIB
from andon.version import __version__
from tests.support.snapshots import AT, HOST, busy, h200, work

EVERY_SECONDS = 3.0
GPUS = 8
MODELS = ("NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB")
SIZES = (141, 80, 40)
USERS = ("alice", "bob", "carol", "dora", "erik")
FREE = (0, 2, 0, 1, 0, 4, 0, 0, 8, 0, 0, 3)
LOST, HOT, SILENT, DRAINED = 3, 7, 10, 4
IDLE = (2, 6)
EVERY = 50
"""Of so many nodes one is broken, one hot, one silent and one drained; all of the first twelve."""


class PlayedNode:
    """One node at one moment."""

    def __init__(self, number: int, now: float, name: str = "") -> None:
        self.number, self.now = number, now
        self.name = name or f"n{number:02}"
        kind = number % EVERY
        self.lost, self.hot = kind == LOST, kind == HOT
        self.silent, self.drained = kind == SILENT, kind == DRAINED
        self.free = FREE[number % len(FREE)]
        self.users = tuple(USERS[(number + one) % len(USERS)] for one in range(1 + number % 3))
        self.load = 0 if self.free == GPUS else 20 + (37 * number + 61) % 80

    def user(self, place: int) -> str:
        return self.users[place % len(self.users)]

    def held(self) -> list[int]:
        return list(range(GPUS - self.free))

    @property
    def devices(self) -> tuple[DeviceStatus, ...]:
        return tuple(self._device(place) for place in range(GPUS))

    def _device(self, place: int) -> DeviceStatus:
        model = self.number // 2 % len(MODELS)
        size = SIZES[model]
        idle = self.number % 12 in IDLE and place < 2
        if place in self.held():
            load = 0 if idle else min(99, self.load + 3 * place)
            process = self._process(place, size)
            found = busy(place, load, 0.6 * size, *(() if idle else (process,)))
        else:
            found = h200(place, 0.5)
        assert found.sample is not None
        hot = replace(
            found.sample,
            at=self.now,
            temperature_celsius=91 if self.hot and place == 2 else 61,
            memory_free_bytes=size * GIB - (found.sample.memory_used_bytes or 0),
        )
        uuid = f"GPU-{self.number:08x}-{place:04x}-4000-8000-000000000000"
        device = replace(found.device, uuid=uuid, name=MODELS[model], memory_total_bytes=size * GIB)
        return replace(found, device=device, sample=hot, since=self.now - 9000)

    def _process(self, place: int, size: int) -> Process:
        made = work(1000 + place, self.user(place), "python", 0.58 * size)
        started = self.now - 600.0 * (1 + self.number % 60)
        return replace(
            made, started=started, command=f"python train_{self.number}.py --rank {place}"
        )

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(self.name, self.now, host=HOST, devices=self.devices)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        found = list[Alert]()
        for there, rule, place, level, said in (
            (self.lost, "lost", 5, Level.CRITICAL, "fell off the bus"),
            (self.hot, "thermal", 2, Level.WARNING, "is too hot (91 °C, slows down at 89 °C)"),
            (self.number % 12 in IDLE, "idle_lease", 0, Level.INFO, "is held but idle"),
        ):
            if there:
                uuid, since = self.devices[place].device.uuid, self.now - 1500
                found.append(
                    Alert(
                        f"{rule}@{uuid}#{int(AT)}",
                        rule,
                        uuid,
                        level,
                        Phase.FIRING,
                        since,
                        device=place,
                        where=f"GPU {place}",
                        fired=since,
                        message=f"GPU {place} {said}",
                        severity=80 if level is Level.CRITICAL else 50,
                        silenced_until=self.now + 5400
                        if self.hot and self.number > EVERY
                        else None,
                    )
                )
        return tuple(found)

    @property
    def ended(self) -> Alert:
        """Yesterday it was too hot for an hour."""
        uuid, since = self.devices[1].device.uuid, self.now - 80_000 - 60 * self.number
        return Alert(
            f"thermal@{uuid}#{int(since)}", "thermal", uuid, Level.WARNING, Phase.RESOLVED, since,
            device=1, where="GPU 1", fired=since, resolved=since + 3600,
            message="GPU 1 was too hot (90 °C, slows down at 89 °C)",
        )  # fmt: skip

    @property
    def silences(self) -> tuple[Silence, ...]:
        if not (self.hot and self.number > EVERY):
            return ()
        return (
            Silence(
                "s1",
                self.now + 5400,
                "thermal",
                self.devices[2].device.uuid,
                "carol",
                "a fan is on its way",
            ),
        )

    @property
    def leases(self) -> LeaseList:
        rows = list[LeaseRow]()
        for place, user in enumerate(self.users):
            mine = [one for one in self.held() if one % len(self.users) == place]
            if mine:
                shares = tuple(Share(self.devices[one].device.uuid, one) for one in mine)
                load = 0 if self.number % 12 in IDLE and place < 2 else self.load
                rows.append(
                    LeaseRow(
                        f"l{self.number}{place}",
                        user,
                        None,
                        1000 + place,
                        LeaseState.HELD,
                        LeaseKind.COMMAND,
                        shares,
                        self.now - 9000,
                        None,
                        f"python train_{self.number}.py",
                        False,
                        50 * GIB,
                        None,
                        load,
                        None,
                        900 + place,
                        False,
                        None,
                    )
                )
        verdicts = tuple(
            DeviceVerdict(
                one.device.uuid, one.device.index, str(one.device.index), self._verdict(place)
            )
            for place, one in enumerate(self.devices)
        )
        waiting = (WaitingRow(1, self.user(1), 2, 60 * GIB, self.now - 700, 0),)
        cordon = CordonRow(verdicts[7].uuid, 7, self.now - 90_000, "root", "a new fan on Monday")
        return LeaseList(
            self.now, tuple(rows), waiting if self.free == 0 else (),
            (cordon,) if self.drained else (), devices=verdicts,
        )  # fmt: skip

    def _verdict(self, place: int) -> VerdictKind:
        if self.lost and place == 5:
            return VerdictKind.WITHHELD
        return VerdictKind.HELD if place in self.held() else VerdictKind.FREE

    @property
    def jobs(self) -> tuple[JobView, ...]:
        found = [self._job(7, JobState.RUNNING, self.user(0), started=self.now - 4000)]
        if self.free == 0:
            queued = self._job(8, JobState.WAITING, self.user(1))
            found.append(replace(queued, reason="2 GPUs requested, none is free", position=1))
        return tuple(found) if self.held() else ()

    def _job(
        self, number: int, state: JobState, user: str, started: float | None = None
    ) -> JobView:
        runs = state is JobState.RUNNING
        name = f"{'train' if runs else 'eval'}-{self.number}"
        made = JobView(
            number, str(number), name, state, f"python {name}.py", "/", user, self.now - 5000, "2"
        )
        return replace(made, devices=("0", "1") if runs else (), started=started)

    def beat(self, session: str, sequence: int) -> Heartbeat:
        snapshot, leases = self.snapshot, self.leases
        firing = {"critical": int(self.lost), "warning": int(self.hot)}
        lamps = [
            DeviceLamp(
                one.device.uuid,
                place,
                Lamp.RED if self.lost else Lamp.AMBER,
                "fell off the bus" if self.lost else "too hot (91 °C, slows down at 89 °C)",
                severity=80,
            )
            for place, one in enumerate(snapshot.devices)
            if (self.lost and place == 5) or (self.hot and place == 2)
        ]
        jobs = {f"l{self.number}0": self.jobs[0]} if self.jobs else {}
        digest = digest_of(
            snapshot,
            leases,
            lamps,
            {k: v for k, v in firing.items() if v},
            jobs,
            f"m{self.number}",
            __version__,
        )
        parts = {
            "snapshot": bare_snapshot(snapshot),
            "leases": leases,
            "alerts": list(self.alerts),
            "silences": list(self.silences),
            "jobs": list(self.jobs),
        }
        at = self.now - 240 if self.silent else self.now
        return Heartbeat(self.name, session, sequence, at, at, encoded(digest), deflated(parts))

    @property
    def run(self) -> RunRow:
        began = self.now - 40_000
        devices = tuple(
            RunDevice(self.devices[one].device.uuid, one, str(one), MODELS[0]) for one in (0, 1)
        )
        return RunRow(
            f"run{self.number:05}",
            f"train-{self.number}",
            RunKind.COMMAND,
            RunState.SUCCEEDED,
            self.name,
            began,
            "",
            self.user(0),
            began + 7200,
            7200.0,
            f"python train_{self.number}.py",
            devices,
            mean_utilization_percent=float(self.load),
        )

    def blocks(self) -> list[StoredBlock]:
        """A day of minutes: busy at night, a gap of two hours at noon."""
        found, end = list[StoredBlock](), window(Tier.MINUTE, int(self.now * 1000))
        for number in range(13):
            base = end - number * WINDOW_MS[Tier.MINUTE]
            if number == 6:
                continue
            hour = base // 3_600_000 % 24
            mean = int(min(100, max(0, self.load * (1.2 if hour < 8 else 0.6) + 4 * (number % 3))))
            for place in range(2):
                rows = [SeriesRow(60_000 * one, 30, mean, mean, 30 * mean) for one in range(120)]
                uuid = self.devices[place].device.uuid
                found.append((uuid, "utilization_percent", Tier.MINUTE, base, pack_rows(rows)))
        return found


@contextmanager
def playing(url: str, count: int, past: int = 0) -> Iterator[None]:
    """So many nodes report to the hubs of this database; `past` of them have a day behind them."""
    place = parse_store_url(url)
    store, pasts = PostgresKind.open_nodes(place), PostgresKind.open_pasts(place)
    recorded(pasts, range(past))
    pasts.close()
    with again_and_again(lambda number: reported(store, count, number)):
        yield
    store.close()


@contextmanager
def again_and_again(report: Callable[[int], object]) -> Iterator[None]:
    """Calls it with 1, and then every few seconds: a node that does not report is silent soon."""
    ended = threading.Event()
    report(1)

    def go_on() -> None:
        for number in itertools.count(2):
            if ended.wait(EVERY_SECONDS):
                return
            report(number)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def reported(store: NodeStore, count: int, number: int) -> None:
    """Every node reports once; silent ones only the first time."""
    now = time.time()
    nodes = [PlayedNode(one, now) for one in range(count)]
    if number == 1:
        for one in nodes:
            store.put(FleetNode(one.name, one.name, now, drained=one.drained))
    store.take([one.beat("s", number) for one in nodes if number == 1 or not one.silent])


def recorded(pasts: NodePasts, numbers: Sequence[int]) -> None:
    """Stores the last day, a run and an alert of these nodes."""
    for number in numbers:
        node = PlayedNode(number, time.time())
        pasts.history(node.name).load([one.device for one in node.devices[:2]], node.blocks())
        pasts.runs(node.name).put([node.run])
        pasts.alerts(node.name).save({}, [node.ended], ())
