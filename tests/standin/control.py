"""Configures the stand-in's node, breaks it, and reads its call counts, all while in use."""

import itertools
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from . import layout
from .faults import Fault
from .node import (
    DEFAULT_VERSIONS,
    Counters,
    StandInDevice,
    boxed_device,
    default_device,
    device_lines,
    node_lines,
)

_U64 = struct.Struct("=Q")
_EVENTS_KEPT = 64
XID, DOUBLE_BIT = 0x8, 0x2  # NVML's numbers for the kinds of event


class StandIn:
    """Controls one folder; every process with STANDIN_FOLDER set to it follows.

    Devices are numbered by their place in the description, even when others are removed.
    """

    def __init__(self, folder: Path, *, per_second: bool = True) -> None:
        """Take over `folder`, with one idle device, no faults and zero counts.

        Without `per_second` only totals are counted: a process that uses the library then maps
        4 KiB less for each function it calls on each device.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._nodes: tuple[StandInDevice, ...] = ()
        self._versions: tuple[str, str, int] = DEFAULT_VERSIONS
        self._faults: tuple[Fault, ...] = ()
        self._counters: dict[str, Counters] = {}
        self._events: list[str] = []
        self._event_numbers = itertools.count(1)
        self._epoch = 0
        with (folder / "calls").open("a+b") as file:
            os.ftruncate(file.fileno(), layout.SIZE)
            self._map = mmap.mmap(file.fileno(), layout.SIZE)
        # A file of another build of the library has other functions at these offsets.
        self.reset_calls()
        self._put(layout.TOTALS_ONLY_AT, int(not per_second))
        self.write(self.devices(1))

    def environment(self, library: Path | None = None) -> dict[str, str]:
        """This process's environment plus the stand-in: `library` is the result of build()."""
        changes = {"STANDIN_FOLDER": str(self.folder)}
        if library is not None:
            changes["LD_LIBRARY_PATH"] = str(library)
        return {**os.environ, **changes}

    # ---- The node ----

    @staticmethod
    def devices(count: int, **overrides: Any) -> tuple[StandInDevice, ...]:
        """`count` idle H200s, with these fields changed in each."""
        return tuple(replace(default_device(index), **overrides) for index in range(count))

    @staticmethod
    def box(nvswitch: bool = False, **overrides: Any) -> tuple[StandInDevice, ...]:
        """Eight H200s on two PCIe switches with NVLink: see `boxed_device`."""
        return tuple(replace(boxed_device(index, nvswitch), **overrides) for index in range(8))

    @property
    def node(self) -> tuple[StandInDevice, ...]:
        """The devices as last written."""
        return self._nodes

    def write(
        self,
        devices: Sequence[StandInDevice],
        *,
        driver_version: str = DEFAULT_VERSIONS[0],
        nvml_version: str = DEFAULT_VERSIONS[1],
        cuda_version: int = DEFAULT_VERSIONS[2],
    ) -> None:
        """Replace the description of the whole node."""
        if [device.bus for device in devices] != sorted(device.bus for device in devices):
            raise ValueError("NVML enumerates in PCI order: give the devices in that order")
        now = time.monotonic_ns()
        before = {device.uuid: device for device in self._nodes}
        self._counters = {
            device.uuid: self._counters[device.uuid].at(now, before[device.uuid])
            if device.uuid in before
            else Counters(now)
            for device in devices
        }
        self._nodes = tuple(devices)
        self._versions = (driver_version, nvml_version, cuda_version)
        self._publish()

    def change(self, device: int, **changes: Any) -> None:
        """Change some fields of one device."""
        nodes = list(self._nodes)
        nodes[device] = replace(nodes[device], **changes)
        self.write(
            nodes,
            driver_version=self._versions[0],
            nvml_version=self._versions[1],
            cuda_version=self._versions[2],
        )

    # ---- Faults ----

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The enabled faults."""
        return self._faults

    def set_faults(self, *faults: Fault) -> None:
        """Enable only these faults; without arguments, disable all."""
        for fault in faults:
            if fault.action == "crash_once" and fault not in self._faults:
                self._map[layout.FIRED_AT + int(fault.value) % layout.FIRED] = 0
        self._faults = faults
        self._publish()

    @contextmanager
    def broken(self, *faults: Fault) -> Iterator[None]:
        """Also enable these faults, for the length of a `with` block."""
        before = self._faults
        self.set_faults(*before, *faults)
        try:
            yield
        finally:
            self.set_faults(*before)

    def uninitialise(self) -> None:
        """Make every process call nvmlInit again, as after the driver was reloaded."""
        self._epoch += 1
        self._publish()

    def xid(self, device: int, code: int) -> None:
        """Raise an Xid event, for waiting processes."""
        self._raise(device, XID, code)

    def ecc(self, device: int) -> None:
        """Raise the event of an uncorrectable memory error."""
        self._raise(device, DOUBLE_BIT, 0)

    def _raise(self, device: int, kind: int, data: int) -> None:
        self._events.append(f"event {next(self._event_numbers)} {device} {kind} {data}")
        del self._events[:-_EVENTS_KEPT]
        self._publish()

    # ---- Call counts ----

    def calls(self, device: int | None = None) -> dict[str, int]:
        """How often each function was called (on one device), counted at the start of the call.

        The flags of nvmlInitWithFlags have keys of their own: "nvmlInitWithFlags:2".
        """
        counts = self._totals(layout.TOTAL_AT, device)
        if device is None:
            for flags in range(layout.FLAGS):
                if number := self._get(layout.FLAGS_AT + flags * 8):
                    counts[f"nvmlInitWithFlags:{flags}"] = number
        return counts

    def faulted(self, device: int | None = None) -> dict[str, int]:
        """How many of these calls had a fault; a call that hangs is counted first."""
        return self._totals(layout.FAULTED_AT, device)

    def calls_per_second(self, function: str, device: int | None = None) -> dict[int, int]:
        """The calls of `function` (on one device) in each wall-clock second of the last 512."""
        number = self._names().get(function)
        if number is None:
            return {}
        oldest = int(time.time()) - layout.RING
        counts: dict[int, int] = {}
        for column in range(layout.COLUMNS) if device is None else (device,):
            if self._get(layout.TOTAL_AT + number * layout.ROW + column * 8) == 0:
                continue
            at = self._ring(number, column)
            for (cell,) in _U64.iter_unpack(self._map[at : at + layout.RING * 8]):
                second, calls = cell >> 32, cell & 0xFFFFFFFF
                if second > oldest:
                    counts[second] = counts.get(second, 0) + calls
        return dict(sorted(counts.items()))

    def reset_calls(self) -> None:
        """Reset the counts. A call made at the same moment may be missed."""
        for number in self._names().values():
            for column in range(layout.COLUMNS):
                place = number * layout.ROW + column * 8
                if self._get(layout.TOTAL_AT + place):
                    at = self._ring(number, column)
                    self._map[at : at + layout.RING * 8] = bytes(layout.RING * 8)
                    self._put(layout.TOTAL_AT + place, 0)
                    self._put(layout.FAULTED_AT + place, 0)
        self._map[layout.FLAGS_AT : layout.NAMES_AT] = bytes(layout.NAMES_AT - layout.FLAGS_AT)

    # ---- The two files ----

    def _publish(self) -> None:
        lines = list(node_lines(*self._versions))
        lines.append(f"epoch {self._epoch}")
        for fault in self._faults:
            lines += fault.lines()
        lines += self._events
        for device in self._nodes:
            lines += device_lines(device, self._counters[device.uuid])
        scratch = self.folder / f"control.{os.getpid()}"
        scratch.write_text("".join(f"{line}\n" for line in lines))
        scratch.replace(self.folder / "control")
        self._put(layout.GENERATION_AT, self._get(layout.GENERATION_AT) + 1)
        (self.folder / "bell").write_bytes(b"")  # closing it wakes processes that wait for an event

    def _get(self, at: int) -> int:
        return int(_U64.unpack_from(self._map, at)[0])

    def _put(self, at: int, number: int) -> None:
        _U64.pack_into(self._map, at, number)

    @staticmethod
    def _ring(number: int, column: int) -> int:
        return layout.SECONDS_AT + (number * layout.COLUMNS + column) * layout.RING * 8

    def _names(self) -> Mapping[str, int]:
        """The functions the library has: it writes their names when it first maps the file."""
        names: dict[str, int] = {}
        for number in range(layout.FUNCTIONS):
            at = layout.NAMES_AT + number * layout.NAME
            if name := self._map[at : at + layout.NAME].split(b"\0", 1)[0].decode():
                names[name] = number
        return names

    def _totals(self, table: int, device: int | None) -> dict[str, int]:
        counts: dict[str, int] = {}
        for name, number in self._names().items():
            row = struct.unpack_from(f"={layout.COLUMNS}Q", self._map, table + number * layout.ROW)
            if total := sum(row) if device is None else row[device]:
                counts[name] = total
        return counts
