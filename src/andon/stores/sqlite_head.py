"""How one device's tick looks in its row: series numbers, then as many values."""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

_COUNT = struct.Struct("<H")
_VALUE = struct.Struct("<q")


class Layout(NamedTuple):
    """The series of a device's tick, as the bytes with which its rows begin."""

    device: int
    prefix: bytes
    values: struct.Struct

    @classmethod
    def of(cls, device: int, series: Sequence[int]) -> Self:
        count = len(series)
        prefix = _COUNT.pack(count) + struct.pack(f"<{count}I", *series)
        return cls(device, prefix, struct.Struct(f"<{count}q"))


def pack_body(layout: Layout, values: Sequence[int]) -> bytes:
    return layout.prefix + layout.values.pack(*values)


def prefix_of(body: bytes) -> bytes:
    return body[: _COUNT.size + 4 * _COUNT.unpack_from(body)[0]]


def series_in(prefix: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f"<{_COUNT.unpack_from(prefix)[0]}I", prefix, _COUNT.size)


def values_in(found: Iterable[tuple[int, bytes]], series: int) -> tuple[list[int], list[int]]:
    """Times and values of one series in the rows of its device."""
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


def columns_in(
    found: Iterable[tuple[int, int, bytes]], begin: int
) -> dict[int, tuple[Sequence[int], Sequence[int]]]:
    """Times since `begin` and values of each series in the rows of all devices."""
    groups: dict[tuple[int, bytes], tuple[list[int], list[bytes]]] = {}
    latest: dict[int, tuple[bytes, list[int], list[bytes]]] = {}
    for at, device, body in found:
        prefix, times, bodies = latest.get(device, (b"", [], []))
        if not prefix or not body.startswith(prefix):
            prefix = prefix_of(body)
            times, bodies = groups.setdefault((device, prefix), ([], []))
            latest[device] = prefix, times, bodies
        times.append(at - begin)
        bodies.append(body[len(prefix) :])
    columns: dict[int, tuple[Sequence[int], Sequence[int]]] = {}
    for (_, prefix), (times, bodies) in groups.items():
        listed = series_in(prefix)
        every = struct.unpack(f"<{len(listed) * len(times)}q", b"".join(bodies))
        for place, series in enumerate(listed):
            values, earlier = every[place :: len(listed)], columns.get(series)
            columns[series] = _sorted(earlier, times, values) if earlier else (times, values)
    return columns


def _sorted(
    earlier: tuple[Sequence[int], Sequence[int]], times: Sequence[int], values: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """A device that gives now more, now fewer readings has rows of several forms."""
    points = dict(zip(*earlier, strict=True)) | dict(zip(times, values, strict=True))
    ordered = sorted(points)
    return ordered, [points[at] for at in ordered]
