"""The recorder: what is seen gets written, and nobody waits for it."""

import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from andon.errors import Unavailable
from andon.failures.rules.backoff import BackOff
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings
from andon.history.writer import Recorder
from andon.model.device import Device, Process
from andon.ports import Store
from andon.sampling.bus import Bus
from andon.stores.memory import MemoryStore
from tests.support.history_parts import AT, GPU, snapshot
from tests.support.waiting import wait_for


class Moody(MemoryStore):
    """A store that can be told to fail, or to take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.held = threading.Event()
        self.held.set()
        self.entered = threading.Event()

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        self.entered.set()
        self.held.wait()
        if self.broken:
            raise Unavailable("the disk is full", hint="free some space")
        super().write(ticks, uses, devices)


class Playing:
    """A recorder on a bus that the test plays itself."""

    def __init__(self, open_store: Callable[[], Store], flush_seconds: float = 0.01) -> None:
        self.bus = Bus()
        self._now = 0.0
        subscription = self.bus.subscribe(1.0, watching=False, size=64)
        self.recorder = Recorder(
            open_store, subscription, flush_seconds, back_off=BackOff(0.02, 0.1)
        )

    def tick(self, percent: int) -> None:
        self.bus.publish(snapshot(AT + self._now, utilization_percent=percent), self._now)
        self._now += 1.0


def count(store: Store) -> int:
    return store.history(GPU, "utilization_percent", AT, AT + 100, 1)[0].count


def test_every_snapshot_is_written() -> None:
    store = Moody()
    playing = Playing(lambda: store)
    for number in range(5):
        playing.tick(number)
    wait_for(lambda: count(store) == 5)
    wait_for(lambda: playing.recorder.health().written_snapshots == 5)
    health = playing.recorder.health()
    assert (health.ok, health.buffered_snapshots, health.dropped_snapshots) == (True, 0, 0)
    playing.recorder.close()


def test_closing_writes_what_is_left() -> None:
    store = Moody()
    playing = Playing(lambda: store, flush_seconds=1000.0)
    playing.tick(1)
    playing.recorder.close()
    assert count(store) == 1


def test_who_was_there_is_written_up_to_the_last_tick() -> None:
    store, bus = Moody(), Bus()
    recorder = Recorder(lambda: store, bus.subscribe(1.0, watching=False, size=64), 1000.0)
    work = Process(7, started=1.0, user="ada", name="python", command="python -u finetune.py -e 3")
    seen = snapshot(AT, work)
    for second in range(5):
        bus.publish(replace(seen, at=AT + second), float(second))
    recorder.close()
    (use,) = store.usage(GPU, AT, AT + 100)
    assert (use.pid, use.first, use.last) == (7, AT, AT + 4)
    assert use.name == "finetune.py", "what people call it"


def test_its_health_has_the_size_of_the_store() -> None:
    store = Moody()
    playing = Playing(lambda: store)
    assert playing.recorder.health().size_bytes is None
    playing.tick(1)
    wait_for(lambda: (playing.recorder.health().size_bytes or 0) > 0)
    playing.recorder.close()


def test_a_store_whose_size_is_not_known_is_recorded_to() -> None:
    class Unmeasured(Moody):
        def size_bytes(self) -> int:
            raise Unavailable("no")

    playing = Playing(Unmeasured)
    playing.tick(1)
    wait_for(lambda: playing.recorder.health().written_snapshots == 1)
    assert playing.recorder.health().ok
    assert playing.recorder.health().size_bytes is None
    playing.recorder.close()


def test_while_the_store_fails_the_ticks_wait_and_health_says_so() -> None:
    store = Moody()
    store.broken = True
    playing = Playing(lambda: store)
    playing.tick(1)
    wait_for(lambda: not playing.recorder.health().ok)
    health = playing.recorder.health()
    assert (health.reason, health.hint) == ("the disk is full", "free some space")
    assert health.since is not None
    assert health.buffered_snapshots == 1
    store.broken = False
    playing.tick(2)
    wait_for(lambda: playing.recorder.health().ok)
    assert count(store) == 2
    playing.recorder.close()


def test_a_store_that_takes_for_ever_does_not_hold_up_the_bus() -> None:
    store = Moody()
    store.held.clear()
    playing = Playing(lambda: store)
    playing.tick(0)
    assert store.entered.wait(60)
    for number in range(200):
        playing.tick(number)
    assert playing.recorder.health().dropped_snapshots > 0
    store.held.set()
    playing.recorder.close()


def test_a_store_that_cannot_be_opened_is_tried_again() -> None:
    store, tries = Moody(), []

    def open_store() -> Store:
        tries.append(1)
        if len(tries) < 3:
            raise Unavailable("no such folder")
        return store

    playing = Playing(open_store)
    playing.tick(1)
    wait_for(lambda: playing.recorder.health().reason == "no such folder")
    wait_for(lambda: playing.recorder.health().ok)
    assert count(store) == 1
    assert playing.recorder.store is store
    playing.recorder.close()
