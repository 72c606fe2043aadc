"""The demo: a simulated lab with eight GPUs and five people; what ran in the last day, runs now and
will run.

Everything follows from a seed and the time at which the demo was opened (`origin`). At that time
each GPU shows something else: a job on two GPUs, one that is too hot, a server, an idle holder, one
that is free, one that is lost and one out of service. Before and after it, works are drawn.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.behaviour import NOT_SIMULATED, Specimen, Stint, draw
from andon.drivers.sim.rules.workloads import Workload
from andon.model.device import HOST_VALUES, Disk, Host
from andon.units import GIB

HOUR_SECONDS = 3600.0
PAST_HOURS, FUTURE_HOURS = 26.0, 48.0
HOT, SERVING, IDLE_HOLDER, FREE, LOST, CORDONED = 2, 3, 4, 5, 6, 7
LOST_SECONDS = 1500.0  # before the demo was opened
SLOTS = ((0, 1), (HOT,), (SERVING,), (IDLE_HOLDER,), (FREE,), (LOST,), (CORDONED,))
"""GPUs that are used together."""
SOON_HOURS = 0.001  # a drawn work finds its GPUs free: it starts within seconds
ME = "erik"  # whoever opened the demo
METER_JOULES = 4e9


class DemoOutcome(StrEnum):
    """How a work ends."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"


class DemoWork(Struct, frozen=True):
    """One person's job on GPUs of the demo; times are UTC seconds."""

    user: str
    name: str
    command: str
    workload: Workload
    gpus: tuple[int, ...]
    submitted: float
    began: float
    ended: float
    outcome: DemoOutcome = DemoOutcome.SUCCEEDED
    is_job: bool = True  # else a lease: until when it is held is when it ends
    group: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    array: str | None = None  # the works with this name are one array
    why: str = ""  # why it waits
    begins_later: bool = False  # at a time that was named
    number: int = 0


# The works to draw from: user, name, arguments, workload, group, and the names of its parameters.
_SWEEP = ("lr-sweep", {"lr": (1e-4, 3e-4, 1e-3, 3e-3), "batch": (32, 64, 128)})
_DISTILL = ("distill", {"alpha": (0.3, 0.5, 0.7), "layers": (6, 12), "seed": (1, 2, 3)})
_DRAWN: tuple[tuple[str, str, str, Workload, tuple[str, Mapping[str, Any]] | None], ...] = (
    ("bob", "finetune.py", "--model qwen3-8b", Workload.TRAINING, _SWEEP),
    ("carol", "distill.py", "--teacher llama-3-70b", Workload.TRAINING, _DISTILL),
    ("alice", "pretrain.py", "--config llama-1b.yaml", Workload.POWER_CAPPED, None),
    ("dora", "caption.py", "--videos clips", Workload.LEAKING, None),
    ("erik", "evaluate.py", "--suite mmlu,gsm8k", Workload.INFERENCE, None),
    ("bob", "finetune.py", "--model qwen3-8b", Workload.TRAINING, _SWEEP),
    ("carol", "distill.py", "--teacher llama-3-70b", Workload.TRAINING, _DISTILL),
    ("erik", "embed.py", "--corpus wiki", Workload.INFERENCE, None),
)


class Demo:
    """The works of the demo, and what each of its GPUs does at any time."""

    def __init__(self, seed: int, origin: float, devices: Sequence[Specimen]) -> None:
        self.origin, self.devices = origin, tuple(devices)
        made = [work for place, slot in enumerate(SLOTS) for work in _filled(seed, place, slot)]
        moved = [_moved(work, origin) for work in (*made, *_WAITING)]
        moved.sort(key=lambda work: (work.submitted, work.gpus))
        self.works = tuple(replace(work, number=n) for n, work in enumerate(moved, 1))
        self._stints = [_stints(one, self.works, origin) for one in self.devices]
        self._begins = [[s.stint.since for s in row if s.stint] for row in self._stints]

    def device(self, index: int, at: float) -> Specimen:
        """Returns a GPU with what runs on it then."""
        place = bisect_right(self._begins[index], at) - 1
        return self._stints[index][max(0, place)]

    def is_lost(self, index: int, at: float) -> bool:
        return index == LOST and at >= self.lost_at

    @property
    def lost_at(self) -> float:
        return self.origin - LOST_SECONDS

    def running(self, at: float) -> Iterator[DemoWork]:
        return (work for work in self.works if work.began <= at < work.ended)

    def host(self, at: float) -> Host:
        """Returns the values of the demo's machine: it has more to do the more works run."""
        works = len(list(self.running(at)))
        cpu = round(4.0 + 8.0 * works + 5.0 * draw(int(at)), 1)
        return Host(
            cpu_percent=cpu, memory_used_bytes=(48 + 31 * works) * GIB,
            memory_total_bytes=1008 * GIB, load_1m=round(1.92 * cpu, 2),
            disk=(Disk("/", 611 * GIB, 1760 * GIB),),
            missing=dict.fromkeys(HOST_VALUES[4:], NOT_SIMULATED),
        )  # fmt: skip

    def pid(self, work: DemoWork) -> int:
        """Returns the pid of a work's process on its first GPU."""
        return behaviour.FIRST_PID + 100 * work.number + work.gpus[0]


def _work(
    user: str, name: str, more: str, workload: Workload, gpus: Sequence[int], submitted: float,
    began: float, ended: float, **rest: Any,
) -> DemoWork:  # fmt: skip
    """Returns a work; its times are given in hours since the demo was opened."""
    launcher = f"torchrun --nproc-per-node {len(gpus)}" if len(gpus) > 1 else "python"
    command = f"{launcher} {name} {more}" if name.endswith(".py") else f"{name} {more}"
    times = (submitted, began, ended)
    return DemoWork(user, name, command, workload, tuple(gpus), *times, **rest)


_NOW = {
    (0, 1): _work("alice", "pretrain.py", "--config llama-1b.yaml --resume last",
                  Workload.POWER_CAPPED, (0, 1), -3.5, -3.2, 1.1, group="llama-1b",
                  params={"lr": 6e-4, "tokens": "20B"}),
    (HOT,): _work("bob", "finetune.py", "--model qwen3-8b --epochs 40", Workload.OVERHEATING,
                  (HOT,), -1.45, -1.4, 2.2, group="lr-sweep", params={"lr": 2e-4, "batch": 256}),
    (SERVING,): _work("carol", "vllm serve", "qwen3-32b --port 8000", Workload.INFERENCE,
                      (SERVING,), -6.1, -6.0, 5.0, is_job=False),
    (IDLE_HOLDER,): _work("dora", "ipykernel", "-f kernel-7f3a.json", Workload.HELD,
                          (IDLE_HOLDER,), -2.7, -2.7, 8.0, is_job=False),
}  # fmt: skip
_QUIET = {(FREE,): (-0.35, 0.4), (LOST,): (-0.4, 1000.0), (CORDONED,): (-2.0, 1000.0)}
"""From when until when nothing runs, in hours."""
_ARRAY = tuple(
    _work("carol", "shard.py", f"--shard {n}", Workload.TRAINING, (FREE,), -2.3, begin, end,
          array="shard.py", outcome=outcome)
    for n, (begin, end, outcome) in enumerate((
        (-2.2, -1.75, DemoOutcome.SUCCEEDED), (-1.73, -1.3, DemoOutcome.SUCCEEDED),
        (-1.28, -1.1, DemoOutcome.OUT_OF_MEMORY), (-1.08, -0.36, DemoOutcome.SUCCEEDED),
    ))
)  # fmt: skip
_HEATWAVE = _work("bob", "finetune.py", "--model qwen3-8b --epochs 12", Workload.OVERHEATING,
                  (HOT,), -8.2, -8.0, -7.5, group="lr-sweep",
                  params={"lr": 1e-4, "batch": 256})  # fmt: skip
_WAITING = (
    _work("erik", "evaluate.py", "--suite longbench --tensor-parallel 4", Workload.INFERENCE,
          (0, 1, HOT, SERVING), -1.2, 5.1, 6.4,
          why="4 GPUs requested, 1 available; GPU 0, 1 (alice), 2 (bob) and 3 (carol) are in use"),
    _work("bob", "finetune.py", "--model qwen3-32b --memory 120GiB", Workload.TRAINING, (0,),
          -0.6, 1.15, 3.4, group="lr-sweep", params={"lr": 3e-4, "batch": 16},
          why="1 GPU with 120 GiB requested, 0 available; GPU 0 is expected to be free first"),
    _work("alice", "evaluate.py", "--checkpoint llama-1b/last", Workload.INFERENCE, (1,),
          -3.4, 1.2, 1.6, why="waits for the end of pretrain.py"),
    _work("dora", "backup.py", "--embeddings", Workload.INFERENCE, (FREE,), -4.0, 7.0, 7.5,
          begins_later=True),
)  # fmt: skip


def _filled(seed: int, place: int, slot: tuple[int, ...]) -> Iterator[DemoWork]:
    """Yields the works of a slot: the fixed ones, and drawn ones around them; times in hours."""
    fixed = [work for work in (_NOW.get(slot), *_ARRAY, _HEATWAVE) if work and work.gpus == slot]
    spans = [(work.began, work.ended) for work in (*fixed, *_WAITING) if set(work.gpus) & set(slot)]
    spans = sorted([*spans, *([_QUIET[slot]] if slot in _QUIET else [])])
    yield from fixed
    at, number = -PAST_HOURS, 0
    for begin, end in (*spans, (FUTURE_HOURS, FUTURE_HOURS)):
        while True:
            number += 1
            luck = [draw(seed, place, number, part) for part in range(6)]
            at += 0.05 + 0.6 * luck[0] ** 2
            length = 0.4 + 2.4 * luck[1]
            if at + 0.3 > begin:
                break
            yield _drawn(slot, at, min(at + length, begin - 0.05), luck)
            at = min(at + length, begin - 0.05)
        at = max(at, end)


def _drawn(slot: tuple[int, ...], began: float, ended: float, luck: Sequence[float]) -> DemoWork:
    user, name, more, workload, sweep = _DRAWN[int(luck[2] * len(_DRAWN))]
    outcome = next(
        (known for share, known in ((0.08, DemoOutcome.FAILED), (0.15, DemoOutcome.OUT_OF_MEMORY),
                                    (0.22, DemoOutcome.CANCELLED)) if luck[3] < share),
        DemoOutcome.SUCCEEDED,
    )  # fmt: skip
    if outcome is not DemoOutcome.SUCCEEDED:
        ended = began + (ended - began) * (0.2 + 0.6 * luck[4])
    group, params = (None, {}) if sweep is None else (sweep[0], _chosen(sweep[1], luck[5]))
    more = " ".join((more, *(f"--{key} {value:g}" for key, value in params.items())))
    return _work(
        user, name, more, workload, slot, began - SOON_HOURS * (1 + luck[4]), began, ended,
        outcome=outcome, group=group, params=params,
    )  # fmt: skip


def _chosen(names: Mapping[str, Sequence[Any]], luck: float) -> dict[str, Any]:
    found = {}
    for name, values in names.items():
        luck = luck * 7919.0 % 1.0
        found[name] = values[int(luck * len(values))]
    return found


def _moved(work: DemoWork, origin: float) -> DemoWork:
    times = (work.submitted, work.began, work.ended)
    submitted, began, ended = (round(origin + hours * HOUR_SECONDS) for hours in times)
    return replace(work, submitted=submitted, began=began, ended=ended)


def _stints(device: Specimen, works: Sequence[DemoWork], origin: float) -> list[Specimen]:
    """Returns the device during each of its works, and between them."""
    mine = sorted((w for w in works if device.index in w.gpus), key=lambda work: work.began)
    first = origin - PAST_HOURS * HOUR_SECONDS
    begins: list[tuple[float, DemoWork | None]] = [(first, None)]
    for work in mine:
        begins += [(work.began, work), (work.ended, None)]
    found: list[Specimen] = []
    for since, running in begins:
        celsius, joules = behaviour.IDLE_CELSIUS + 2.0, METER_JOULES
        if found:
            celsius = behaviour.temperature_celsius(found[-1], since)
            joules = behaviour.energy_joules(found[-1], since)
        if running is None:
            idle = Stint(since, celsius, joules)
            found.append(replace(device, workload=Workload.IDLE, stint=idle))
        else:
            stint = Stint(since, celsius, joules, running.user, running.command, running.number)
            seed = device.seed + running.number
            found.append(replace(device, workload=running.workload, seed=seed, stint=stint))
    return found
