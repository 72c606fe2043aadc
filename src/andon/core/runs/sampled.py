"""A sample line as a snapshot of the run's devices, so that one tally counts both."""

from collections.abc import Mapping
from typing import Any

from andon.model.device import Device, DeviceStatus, Host, Sample, Snapshot, State
from andon.model.run import SAMPLED, RunBegin, RunDevice, RunSample

_NUMBERS = frozenset(SAMPLED) - {"throttle"}
_SAMPLED_FIELDS = _NUMBERS & frozenset(Sample.__dataclass_fields__)


def snapshot_of(line: RunSample, begin: RunBegin) -> Snapshot:
    """Readings that are not numbers are left out: a record is foreign input."""
    return Snapshot(
        node=begin.node,
        at=line.at,
        simulated=begin.simulated,
        boot=begin.boot,
        host=Host(cpu_percent=line.cpu_percent),
        devices=tuple(
            _status(device, line.devices[device.uuid], line.at)
            for device in begin.devices
            if device.uuid in line.devices
        ),
    )


def _status(device: RunDevice, readings: Mapping[str, Any], at: float) -> DeviceStatus:
    state = _state(readings.get("state"))
    return DeviceStatus(
        device=Device(
            uuid=device.uuid,
            index=device.index,
            vendor="",
            name=device.name,
            memory_total_bytes=device.memory_total_bytes,
        ),
        state=state,
        since=at,
        sample=_sample(readings, at) if state is State.OK else None,
        label=device.label,
    )


def _state(word: object) -> State:
    """A word of a newer andon is not an answer."""
    try:
        return State(str(word))
    except ValueError:
        return State.STALE


def _sample(readings: Mapping[str, Any], at: float) -> Sample:
    numbers: dict[str, Any] = {n: v for n in _SAMPLED_FIELDS if _is_number(v := readings.get(n))}
    reasons = readings.get("throttle")
    throttle = tuple(map(str, reasons)) if isinstance(reasons, list) else None
    return Sample(at=at, throttle=throttle, **numbers)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
