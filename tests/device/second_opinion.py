"""Compares andon's values with nvidia-smi's, taken in the same second."""

import time
from collections.abc import Callable

from msgspec import Struct

import andon
from andon.model.device import DeviceStatus, ProcessKind, Snapshot
from tests.device import smi
from tests.device.scenes import Scene

TRIES = 3  # values that change between the two readings are read again
MIB = 1 << 20
Value = float | str | None
Agrees = Callable[[Value, Value], bool]


class Comparison(Struct, frozen=True):
    """One value that both tools report."""

    name: str
    field: str  # nvidia-smi's name
    ours: Callable[[DeviceStatus, Snapshot], Value]
    agrees: Agrees

    def check(self, scene: Scene) -> str:
        """Compare on every board; a disagreement is checked again."""
        for left in reversed(range(TRIES)):
            wrong, seen = self._look()
            if not wrong:
                return seen
            if left:
                time.sleep(1.0)
        raise AssertionError(f"andon / nvidia-smi: {'; '.join(wrong)}")

    def _look(self) -> tuple[list[str], str]:
        snapshot, rows = andon.snapshot(), smi.gpus()
        boards = [status for status in snapshot.devices if status.device.parent is None]
        wrong, seen = [], []
        for status in boards:
            row = rows.get(status.device.uuid)
            assert row is not None, f"nvidia-smi does not know {status.device.uuid}"
            mine, theirs = self.ours(status, snapshot), row[self.field]
            words = f"{_short(mine)} / {theirs}"
            seen.append(words)
            # What nvidia-smi does not report cannot contradict us.
            if theirs is not None and (mine is None or not self.agrees(mine, theirs)):
                wrong.append(words)
        return wrong, ", ".join(seen)


def _sample(name: str, scale: float = 1.0) -> Callable[[DeviceStatus, Snapshot], Value]:
    def read(status: DeviceStatus, _: Snapshot) -> Value:
        value = getattr(status.sample, name, None)
        return None if value is None else float(value) / scale

    return read


def _near(absolute: float, relative: float = 0.0) -> Agrees:
    def agrees(mine: Value, theirs: Value) -> bool:
        difference = abs(float(mine or 0) - float(theirs or 0))
        return difference <= max(absolute, relative * abs(float(theirs or 0)))

    return agrees


def _utilization(mine: Value, theirs: Value) -> bool:
    return _near(20)(mine, theirs) or min(float(mine or 0), float(theirs or 0)) > 90


def _same(mine: Value, theirs: Value) -> bool:
    return mine == theirs


def _same_address(mine: Value, theirs: Value) -> bool:
    """nvidia-smi writes eight digits of domain, and capitals."""
    domain, _, rest = str(theirs).lower().partition(":")
    return mine == f"{int(domain, 16):04x}:{rest}"


def _device(name: str) -> Callable[[DeviceStatus, Snapshot], Value]:
    def read(status: DeviceStatus, _: Snapshot) -> Value:
        value: Value = getattr(status.device, name)
        return value

    return read


COMPARISONS = (
    Comparison("uuid", "uuid", _device("uuid"), _same),
    Comparison("name", "name", _device("name"), _same),
    Comparison("PCI address", "pci.bus_id", _device("pci"), _same_address),
    Comparison("driver version", "driver_version", lambda _, s: s.versions["driver"], _same),
    Comparison("utilisation", "utilization.gpu", _sample("utilization_percent"), _utilization),
    Comparison("memory used", "memory.used", _sample("memory_used_bytes", MIB), _near(64, 0.02)),
    Comparison("temperature", "temperature.gpu", _sample("temperature_celsius"), _near(3)),
    Comparison("power", "power.draw", _sample("power_watts"), _near(30, 0.15)),
    Comparison("power limit", "enforced.power.limit", _sample("power_limit_watts"), _near(1)),
    Comparison("SM clock", "clocks.sm", _sample("sm_clock_mhz"), _near(1, 0.15)),
    Comparison("memory clock", "clocks.mem", _sample("memory_clock_mhz"), _near(1, 0.15)),
)


def the_processes_are_those_of_nvidia_smi(scene: Scene) -> str:
    """The same pids with the same memory; if one started in between, check again."""
    for _ in range(TRIES):
        theirs, mine = smi.compute_processes(), _our_processes(andon.snapshot())
        if mine == theirs:
            return ", ".join(f"{pid}: {size} MiB" for (_, pid), size in mine.items()) or "none"
        time.sleep(1.0)
    raise AssertionError(f"andon {mine}, nvidia-smi {theirs}")


def _our_processes(snapshot: Snapshot) -> dict[tuple[str, int], int | None]:
    return {
        (status.device.uuid, process.pid): None
        if process.memory_bytes is None
        else process.memory_bytes // MIB
        for status in snapshot.devices
        if status.device.parent is None
        for process in status.processes
        if process.kind is ProcessKind.COMPUTE
    }


def _short(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
