"""Loads with a known energy, and a server that reads them at an interval and records them."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from andon.history.rules.intervals import OpenIntervals
from andon.history.rules.ledger import UseLedger
from andon.history.rules.series import NodeReadings, tick_of
from andon.history.rules.usage import UsePeriod, UserUsage, by_day, summed
from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot, State
from andon.ports import Store
from andon.stores.memory import MemoryStore

IDLE_WATTS, HELD_WATTS, BUSY_WATTS = 75.0, 115.0, 700.0
COUNTER_SECONDS = 60.0
STARTING_SECONDS = 3.0  # of a program before it uses the device


class Load(Struct, frozen=True):
    """A process that computes and rests in turn; rests of zero seconds are none."""

    first: float
    last: float
    user: str = "ada"
    pid: int = 7
    computes: float = 6.0
    rests: float = 0.0
    device: int = 0

    def is_on(self, at: float) -> bool:
        return self.first <= at < self.last

    def computing(self, at: float) -> bool:
        return self.is_on(at) and (at - self.first) % (self.computes + self.rests) < self.computes


class Meter:
    """A device whose power is known at every instant, to a tenth of a second."""

    def __init__(
        self, loads: Iterable[Load], since: float, until: float, step: float = 0.1
    ) -> None:
        self.loads, self.since, self.step = list(loads), since, step
        self.sums = [1000.0]
        for number in range(round((until - since) / step)):
            self.sums.append(self.sums[-1] + self.watts(since + (number + 0.5) * step) * step)

    def watts(self, at: float) -> float:
        if any(load.computing(at) for load in self.loads):
            return BUSY_WATTS
        return HELD_WATTS if any(load.is_on(at) for load in self.loads) else IDLE_WATTS

    def joules(self, at: float) -> float:
        return self.sums[min(len(self.sums) - 1, round((at - self.since) / self.step))]


class Recording:
    """What a server reads and writes of such devices."""

    def __init__(
        self,
        loads: Sequence[Load],
        span: tuple[float, float],
        counter: bool = True,
        resets: Callable[[float], float] = lambda at: 0.0,
    ) -> None:
        self.span, self.counter, self.resets = span, counter, resets
        self.ahead = 0.0  # of the wall clock, which someone sets
        self.meters = [
            Meter([one for one in loads if one.device == index], *span)
            for index in range(max(one.device for one in loads) + 1)
        ]
        self.store: Store = MemoryStore()
        self.ledger, self.uses = UseLedger(), OpenIntervals()
        self._read: dict[int, tuple[float, float, float, frozenset[int]]] = {}

    def play(self, interval: float, phase: float = 0.0, away: tuple[float, float] = (0, 0)) -> None:
        """Reads every so many seconds, but not while the server is `away`."""
        at = self.span[0] + phase
        while at < self.span[1]:
            if not away[0] <= at < away[1]:
                self.take(at)
            at = round(at + interval, 3)
        self.store.write(self.ledger.close())

    def take(self, at: float) -> list[NodeReadings]:
        """Reads and records them; returns the points of what was used."""
        statuses = [self._status(index, meter, at) for index, meter in enumerate(self.meters)]
        snapshot = Snapshot("n", at + self.ahead, devices=tuple(statuses))
        used, changes = self.ledger.take(snapshot)
        self.uses, changed = self.uses.follow(snapshot, changes)
        self.uses, settled = self.uses.settle()
        devices = [status.device for status in statuses]
        self.store.write([tick_of(snapshot), *used], [*changed, *settled], devices)
        return used

    def _status(self, index: int, meter: Meter, at: float) -> DeviceStatus:
        on = [load for load in meter.loads if load.is_on(at)]
        pids = frozenset(load.pid for load in on)
        wall, nobody = at + self.ahead, frozenset[int]()
        read, read_at, joules, before = self._read.get(index, (-1e9, 0.0, 0.0, nobody))
        if at - read >= COUNTER_SECONDS or pids != before:
            read, read_at, joules = at, wall, meter.joules(at) - self.resets(at)
        self._read[index] = read, read_at, joules, pids
        sample = Sample(
            wall,
            utilization_percent=100 if any(load.computing(at) for load in on) else 0,
            power_watts=meter.watts(at),
            energy_joules=joules if self.counter else None,
            read_at={} if read_at == wall else {"energy_joules": read_at},
        )
        processes = tuple(
            Process(load.pid, started=load.first - STARTING_SECONDS, user=load.user) for load in on
        )
        device = Device(f"GPU-{index}", index, "nvidia", "H200")
        return DeviceStatus(device, State.OK, wall, sample=sample, processes=processes)

    def users(self, since: float, until: float) -> dict[str, UserUsage]:
        period = UsePeriod.of(since, until)
        uses = self.store.usage(None, period.since, until)
        read = {uuid: period.read(self.store, uuid) for uuid in {use.device for use in uses}}
        return {one.user: one for one in summed(by_day(uses, read, lambda at: "").items())}
