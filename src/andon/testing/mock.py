"""A mock backend whose devices report what a test sets."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from msgspec import Struct, field

from andon.api.compat.metrics import GpuMetrics
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.model.device import (
    SAMPLE_VALUES,
    Card,
    Device,
    DeviceStatus,
    Fault,
    Process,
    ProcessKind,
    Reading,
    Sample,
    Snapshot,
    State,
)

UNSET = "not set by the test"


class _MockDevice(Struct):
    """What the test has set for one device."""

    index: int
    name: str
    parent: str | None = None
    memory_total_bytes: int | None = None
    values: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    loss: Gone | None = None


class MockGpuBackend:
    """Usable wherever a backend is. Each `with_…` after `with_device` sets that device.

    A value that was not set is unknown, with a reason, as it is for a real device.
    """

    def __init__(self, vendor: str = "mock") -> None:
        self.name = vendor
        self._devices: list[_MockDevice] = []
        self._fault: AndonError | None = None

    # Setting up.

    def with_device(self, index: int, name: str, parent: int | None = None) -> Self:
        """Add a device; `parent` is the index of the board it is an instance of."""
        if any(mock.index == index for mock in self._devices):
            raise Invalid(f"device {index} already exists")
        board = None if parent is None else self._uuid(parent)
        self._devices.append(_MockDevice(index, name, board))
        return self

    def with_temperature(self, celsius: int) -> Self:
        return self.with_values(temperature_celsius=celsius)

    def with_utilization(self, percent: int) -> Self:
        return self.with_values(utilization_percent=percent)

    def with_memory(self, used_bytes: int, total_bytes: int) -> Self:
        self._last.memory_total_bytes = total_bytes
        return self.with_values(
            memory_used_bytes=used_bytes,
            memory_free_bytes=total_bytes - used_bytes,
            memory_reserved_bytes=0,
        )

    def with_power(self, watts: float, limit_watts: float | None = None) -> Self:
        return self.with_values(power_watts=watts, power_limit_watts=limit_watts)

    def with_process(
        self,
        pid: int,
        memory_bytes: int | None = None,
        name: str | None = None,
        user: str | None = None,
        command: str | None = None,
        started: float | None = None,
        kind: ProcessKind = ProcessKind.COMPUTE,
        utilization_percent: int | None = None,
    ) -> Self:
        self._last.processes += (
            Process(
                pid=pid,
                kind=kind,
                started=started,
                name=name,
                user=user,
                command=command,
                memory_bytes=memory_bytes,
                utilization_percent=utilization_percent,
            ),
        )
        return self

    def with_values(self, **values: Any) -> Self:
        """Set any values of a sample, by name."""
        unknown = sorted(values.keys() - set(SAMPLE_VALUES))
        if unknown:
            raise Invalid(f"a sample has no {', '.join(unknown)}")
        self._last.values.update(values)
        return self

    def without(self, reading: str, reason: str) -> Self:
        """Make a reading of the device (or its `processes`) unknown, with a reason."""
        if reading == "processes":
            self._last.processes = ()
        else:
            self.with_values(**{reading: None})
        self._last.reasons[reading] = reason
        return self

    def lost(self, reason: str = "the device has fallen off the bus", hint: str = "") -> Self:
        """The device is lost; reading it raises `Gone`."""
        self._last.loss = Gone(reason, hint)
        return self

    def with_fault(self, reason: str = "the driver cannot be reached", hint: str = "") -> Self:
        """The vendor as a whole cannot be read; every call raises `Unavailable`."""
        self._fault = Unavailable(reason, hint)
        return self

    # The backend's methods.

    def glance(self) -> Sequence[Card]:
        return [
            Card(self._uuid(mock.index), mock.index, name=mock.name)
            for mock in self._devices
            if mock.parent is None
        ]

    def open(self) -> Sequence[Card]:
        self._refuse(self._fault)
        return self.glance()

    def describe(self, card: Card) -> Sequence[Device]:
        return [self._device(mock) for mock in self._on(card)]

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        return [self._reading(mock, at) for mock in self._on(card)]

    def versions(self) -> Mapping[str, str]:
        return {self.name: "mock"}

    def close(self) -> None:
        """Does nothing."""

    # A whole node.

    def snapshot(self, at: float = 0.0, node: str = "mock") -> Snapshot:
        """The snapshot that a sampler would build from these devices."""
        fault = self._fault
        return Snapshot(
            node=node,
            at=at,
            simulated=self.name == "sim",
            versions=self.versions(),
            devices=() if fault else tuple(self._status(mock, at) for mock in self._devices),
            faults=(Fault(self.name, fault.reason, fault.hint),) if fault else (),
        )

    def collect_metrics(self) -> list[GpuMetrics]:
        return [GpuMetrics.from_status(status) for status in self.snapshot().devices]

    @property
    def _last(self) -> _MockDevice:
        if not self._devices:
            raise Invalid("there is no device yet", hint="call with_device(0, name) first")
        return self._devices[-1]

    def _uuid(self, index: int) -> str:
        return f"{self.name.upper()}-{index}"

    def _refuse(self, error: AndonError | None) -> None:
        if error is not None:
            raise type(error)(error.reason, error.hint)

    def _on(self, card: Card) -> list[_MockDevice]:
        self._refuse(self._fault)
        board = [mock for mock in self._devices if self._uuid(mock.index) == card.key]
        if not board:
            raise Gone(f"there is no device {card.key}")
        self._refuse(board[0].loss)
        return board + [mock for mock in self._devices if mock.parent == card.key]

    def _device(self, mock: _MockDevice) -> Device:
        return Device(
            uuid=self._uuid(mock.index),
            index=mock.index,
            vendor=self.name,
            name=mock.name,
            parent=mock.parent,
            memory_total_bytes=mock.memory_total_bytes,
        )

    def _reading(self, mock: _MockDevice, at: float) -> Reading:
        if mock.loss is not None:  # an instance of a board that still answers
            reason, hint = mock.loss.reason, mock.loss.hint or None
            return Reading(self._uuid(mock.index), state=State.LOST, reason=reason, hint=hint)
        sample = Sample(at=at, **mock.values)
        unknown = [name for name in SAMPLE_VALUES if getattr(sample, name) is None]
        hidden = [name for name in mock.reasons if name == "processes"]
        return Reading(
            uuid=self._uuid(mock.index),
            sample=sample,
            missing={name: mock.reasons.get(name, UNSET) for name in unknown + hidden},
            processes=mock.processes,
        )

    def _status(self, mock: _MockDevice, at: float) -> DeviceStatus:
        reading = self._reading(mock, at)
        return DeviceStatus(
            self._device(mock),
            reading.state,
            since=at,
            reason=reading.reason,
            hint=reading.hint,
            sample=reading.sample,
            missing=reading.missing,
            processes=reading.processes,
        )
