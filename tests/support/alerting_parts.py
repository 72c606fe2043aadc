"""A notifier and a store that a test controls, and a watcher whose ticks it plays."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from andon.alerts.rules.outbox import Delivery
from andon.alerts.rules.routes import Route
from andon.alerts.waits import AlertWaits
from andon.alerts.watcher import Watcher
from andon.errors import Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import OwnTrouble
from andon.failures.rules.backoff import BackOff
from andon.leases.rules.occupants import BookView
from andon.model.alert import Alert, Notice, NoticeKind
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.ports import AlertStore, Notifier
from andon.sampling.bus import Bus
from andon.stores.memory import MemoryAlertStore
from tests.support.waiting import wait_for

GPU = Device("GPU-1", 0, "nvidia", "NVIDIA H200")


class Heard:
    """A notifier that remembers, and can be made to fail or to hang."""

    def __init__(self, name: str = "phone") -> None:
        self.name = name
        self.told: list[Notice] = []
        self.batches: list[list[Notice]] = []
        self.broken = False
        self.free = threading.Event()
        self.free.set()
        self.entered = threading.Event()
        self.closed = False

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        self.entered.set()
        self.free.wait()
        if self.broken:
            raise Unavailable("nobody answers", hint="look at the network")
        self.told += notices
        self.batches.append(list(notices))

    def close(self) -> None:
        self.closed = True
        self.free.set()

    def kinds(self, rule: str = "device_lost") -> list[NoticeKind]:
        return [notice.kind for notice in self.told if notice.alert.rule == rule]


class Moody(MemoryAlertStore):
    """A ledger that can be told to fail, or to take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.free = threading.Event()
        self.free.set()
        self.saves = 0

    def save(self, state: Any, changed: Sequence[Alert], deliveries: Sequence[Delivery]) -> None:
        self.free.wait()
        if self.broken:
            raise Unavailable("the disk is full", hint="free some space")
        self.saves += 1
        super().save(state, changed, deliveries)


SOON = AlertWaits(turn=0.05, gather=0.0, back_off=BackOff(0.02, 0.1))
"""What failed is tried again within moments instead of seconds."""


class Playing:
    """A watcher on a bus that the test plays itself; each tick is 20 seconds of its clock."""

    def __init__(
        self,
        *told: Notifier | tuple[Notifier, Route],
        ledger: Callable[[], AlertStore] | None = None,
        self_checks: Callable[[], Sequence[OwnTrouble]] = tuple,
        book: Callable[[], BookView | None] | None = None,
        waits: AlertWaits = SOON,
    ) -> None:
        self.steady, self.now = 1000.0, 0.0
        self.bus, self.waits, self.interval_seconds = Bus(), waits, 1.0
        self.ledger = MemoryAlertStore()
        self._open = ledger or (lambda: self.ledger)
        self._told = [one if isinstance(one, tuple) else (one, Route(one.name)) for one in told]
        self._self_checks, self._book = self_checks, book
        self.start()

    def start(self) -> None:
        session = self.bus.subscribe(self.interval_seconds, watching=False, size=64)
        self.watcher = Watcher(
            session, Rulebook(), self._open, self._told, lambda at: 0.0, "boot",
            self._self_checks, self.waits, self._book, clock=lambda: (time.time(), self.steady),
        )  # fmt: skip

    def again(self, *told: Notifier) -> None:
        """As if andon were started anew."""
        self.watcher.close()
        self._told = [(one, Route(one.name)) for one in told]
        self.start()

    def tick(self, *states: State, ticks: int = 1) -> None:
        """Looks at devices in these states, one by one, each judged before the next."""
        for _ in range(ticks):
            self.steady += 20.0
            self.now += 1.0
            snapshot = look(time.time(), *states)
            self.bus.publish(snapshot, self.now)
            self._judged(snapshot)

    def _judged(self, snapshot: Snapshot) -> None:
        wait_for(lambda: self.watcher.snapshot is snapshot)

    def lose(self, count: int = 1) -> None:
        self.tick(*[State.OK] * count)
        self.tick(*[State.LOST] * count, ticks=3)

    def find_again(self, count: int = 1) -> None:
        self.tick(*[State.OK] * count, ticks=5)


def look(at: float, *states: State) -> Snapshot:
    return Snapshot(
        "node7",
        at,
        boot="boot",
        devices=tuple(
            DeviceStatus(
                replace(GPU, uuid=f"GPU-{n}", index=n), state, at,
                sample=Sample(at, temperature_celsius=40, utilization_percent=0),
            )
            for n, state in enumerate(states)
        ),
    )  # fmt: skip
