"""The format of a tick's row: the numbers of its series, then one value for each."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

from andon.model.device import Device
from andon.stores.session import TableSession

_COUNT = struct.Struct("<H")
_SERIES = struct.Struct("<I")
_VALUE = struct.Struct("<q")


class HeadLayout(NamedTuple):
    """The series of a tick, as the bytes that its row starts with."""

    device: int
    """The first of its devices: ticks of other devices may have the same time."""
    prefix: bytes
    values: struct.Struct

    @classmethod
    def of(cls, device: int, series: Sequence[int]) -> Self:
        count = len(series)
        prefix = _COUNT.pack(count) + struct.pack(f"<{count}I", *series)
        return cls(device, prefix, struct.Struct(f"<{count}q"))


def pack_body(layout: HeadLayout, values: Sequence[int]) -> bytes:
    return layout.prefix + layout.values.pack(*values)


def prefix_of(body: bytes) -> bytes:
    return body[: _COUNT.size + 4 * _COUNT.unpack_from(body)[0]]


def series_in(prefix: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f"<{_COUNT.unpack_from(prefix)[0]}I", prefix, _COUNT.size)


def values_in(found: Iterable[tuple[int, bytes]], series: int) -> tuple[list[int], list[int]]:
    """Returns times and values of one series, from rows that may contain it."""
    times: list[int] = []
    values: list[int] = []
    prefix, place = b"", -1
    for at, body in found:
        if not prefix or not body.startswith(prefix):
            prefix = prefix_of(body)
            listed = series_in(prefix)
            place = len(prefix) + 8 * listed.index(series) if series in listed else -1
        if place >= 0:
            times.append(at)
            values.append(_VALUE.unpack_from(body, place)[0])
    return times, values


def series_bytes(series: int) -> bytes:
    """Returns the number of a series as it is written in a row."""
    return _SERIES.pack(series)


def cut_values(found: Iterable[tuple[int, bytes]], series: int) -> tuple[list[int], list[int]]:
    """Works as `values_in`, for rows that the database has cut to one value; falls back to whole
    rows if it cannot tell where the value is."""
    times: list[int] = []
    values: list[int] = []
    for at, body in found:
        if len(body) == _VALUE.size:
            times.append(at)
            values.append(_VALUE.unpack(body)[0])
        else:
            whole = values_in([(at, body)], series)
            times += whole[0]
            values += whole[1]
    return times, values


def columns_in(
    found: Iterable[tuple[int, bytes]], begin: int
) -> dict[int, tuple[Sequence[int], Sequence[int]]]:
    """Times since `begin` and values of each series in rows that are in time order."""
    columns: dict[int, tuple[Sequence[int], Sequence[int]]] = {}
    longer: dict[int, tuple[list[int], list[int]]] = {}
    for prefix, times, bodies in _runs(found, begin):
        listed = series_in(prefix)
        every = struct.unpack(f"<{len(listed) * len(times)}q", b"".join(bodies))
        for place, series in enumerate(listed):
            values = every[place :: len(listed)]
            if series not in columns:
                columns[series] = times, values
                continue
            if series not in longer:
                before = columns[series]
                columns[series] = longer[series] = list(before[0]), list(before[1])
            longer[series][0].extend(times)
            longer[series][1].extend(values)
    for series, points in longer.items():
        columns[series] = _rising(*points)
    return columns


def _runs(
    found: Iterable[tuple[int, bytes]], begin: int
) -> Iterator[tuple[bytes, list[int], list[bytes]]]:
    """Yields groups of consecutive rows of one layout: nearly always one group."""
    prefix, times, bodies = b"", list[int](), list[bytes]()
    for at, body in found:
        if not prefix or not body.startswith(prefix):
            if times:
                yield prefix, times, bodies
            prefix, times, bodies = prefix_of(body), [], []
        times.append(at - begin)
        bodies.append(body[len(prefix) :])
    if times:
        yield prefix, times, bodies


def _rising(times: list[int], values: list[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Returns times and values in order; of two values with the same time, the later one counts."""
    if all(earlier < later for earlier, later in pairwise(times)):
        return times, values
    points = dict(zip(times, values, strict=True))
    ordered = sorted(points)
    return ordered, [points[at] for at in ordered]


# The database's numbers for devices and series; read once, kept in memory.

MOST_LAYOUTS = 256  # varying readings create one for each combination


class Ids(NamedTuple):
    """A device and one series of it."""

    device: int
    series: int


class NameTable:
    """The database's number of each device and series. Only the writing session adds to it."""

    def __init__(self) -> None:
        self.known = False
        self._devices: dict[str, int] = {}
        self._series: dict[tuple[str, str], int] = {}
        self._layouts: dict[tuple[tuple[str, tuple[str, ...]], ...], HeadLayout] = {}
        self._described: dict[str, Device] = {}

    def load(self, session: TableSession) -> None:
        """Reads a node's part of the table from the database and drops other cached entries."""
        self.known = True
        self._layouts.clear()
        self._described.clear()
        self._devices = self._listed(session)
        rows = session.run("list_series", (session.node,))
        self._series = {(uuid, metric): number for uuid, metric, number in rows}

    def forget(self) -> None:
        """Drops the cache after a failed transaction: what it added does not exist."""
        self.known = False

    def describe(self, session: TableSession, devices: Sequence[Device]) -> None:
        """Stores a device's name and index where they are new."""
        for device in devices:
            if self._described.get(device.uuid) != device:
                facts = {
                    "node": session.node,
                    "uuid": device.uuid,
                    "position": device.index,
                    "vendor": device.vendor,
                    "name": device.name,
                }
                session.put("describe_device", facts)
                self._described[device.uuid] = device

    def device(self, session: TableSession, uuid: str) -> int:
        if uuid not in self._devices:
            session.put("add_device", (session.node, uuid))
            self._devices = self._listed(session)
        return self._devices[uuid]

    def series(self, uuid: str, metric: str) -> int:
        """Returns the number of one that was added."""
        return self._series[uuid, metric]

    def add(self, session: TableSession, keys: Iterable[tuple[str, str]]) -> None:
        """Adds all series that are new and their devices, and reads their numbers once."""
        new = [key for key in dict.fromkeys(keys) if key not in self._series]
        strange = {uuid for uuid, _ in new if uuid not in self._devices}
        for uuid in strange:
            session.put("add_device", (session.node, uuid))
        if strange:
            self._devices = self._listed(session)
        for uuid, metric in new:
            session.put("add_series", (self._devices[uuid], metric))
        if new:
            rows = session.run("list_series", (session.node,))
            self._series = {(uuid, metric): number for uuid, metric, number in rows}

    def _listed(self, session: TableSession) -> dict[str, int]:
        found = session.run("list_devices", (session.node,))
        return {uuid: number for number, uuid, *_ in found}

    def layout(
        self, session: TableSession, given: tuple[tuple[str, tuple[str, ...]], ...]
    ) -> HeadLayout:
        """Returns the series of a tick's values, by its devices and their metrics."""
        found = self._layouts.get(given)
        if found is None:
            keys = [(uuid, metric) for uuid, metrics in given for metric in metrics]
            self.add(session, keys)
            series = [self._series[key] for key in keys]
            found = HeadLayout.of(self.device(session, given[0][0]), series)
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[given] = found
        return found


def find(session: TableSession, uuid: str, metric: str) -> Ids | None:
    """Returns the ids for a reading session, which may see what another process added."""
    found = session.run("find_series", (session.node, uuid, metric)).fetchone()
    return Ids(*found) if found else None
