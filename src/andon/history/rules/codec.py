"""Packs the points or rolled-up rows of one series into a few bytes, and back without loss.

A block is its checksum, a header that answers coarse queries, and deflated columns: times as
differences of differences, values as differences. Each column is as wide as its largest number
needs, and stored byte by byte: the high bytes are nearly always zero and deflate to nothing.
"""

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import sub
from typing import NamedTuple

from andon.errors import Invalid

VALUE_LIMIT = 1 << 53  # what a float and a JSON number can represent exactly
MOST_ROWS = 1 << 17
POINTS, ROWS = 1, 2
ZEROS = b"\0"  # a column in which nothing changes

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FRAME = struct.Struct("<IB")
_HEADER_NUMBERS = 10
# Signed bytes to folded ones, and back: the most common column needs no loop.
_FOLDED = bytes((byte << 1 ^ -(byte >> 7)) & 0xFF for byte in range(256))
_UNFOLDED = bytes((byte >> 1 ^ -(byte & 1)) & 0xFF for byte in range(256))
# A block is small: with the default tables, clearing them would take most of the time.
_SQUEEZE = (6, zlib.DEFLATED, -12, 5)


class SeriesRow(NamedTuple):
    """Several points as one; a single point is a row of one. Times are whole milliseconds."""

    at_ms: int
    number: int
    low: int
    high: int
    total: int


class Header(NamedTuple):
    """What a block holds, without unpacking it; times count from the start of its window."""

    first_ms: int
    last_ms: int
    number: int
    low: int
    high: int
    total: int
    last: int
    step_ms: int

    @property
    def row(self) -> SeriesRow:
        return SeriesRow(self.first_ms, self.number, self.low, self.high, self.total)


def point(at_ms: int, value: int) -> SeriesRow:
    """Returns one reading as a row."""
    return SeriesRow(at_ms, 1, value, value, value)


def merged(rows: Sequence[SeriesRow]) -> SeriesRow:
    """Returns several rows as one that starts with the first."""
    return SeriesRow(
        rows[0].at_ms,
        sum(row.number for row in rows),
        min(row.low for row in rows),
        max(row.high for row in rows),
        sum(row.total for row in rows),
    )


def pack_points(times_ms: Sequence[int], values: Sequence[int]) -> bytes:
    """Packs increasing times and their values."""
    times = _time_column(tuple(times_ms))
    low, high = min(values), max(values)
    _check_values(low, high)
    header = (
        len(values), times_ms[0], times_ms[-1], len(values), low, high - low,
        sum(values) - len(values) * low, values[-1] - low, values[0], _first_step(times_ms),
    )  # fmt: skip
    changes = _column(_differences(values)) if low < high else ZEROS
    return _framed(POINTS, header, times + changes)


def pack_rows(rows: Sequence[SeriesRow]) -> bytes:
    """Packs rows with increasing times."""
    times = _time_column(tuple(row.at_ms for row in rows))
    whole = merged(rows)
    _check_values(whole.low, whole.high)
    header = (
        len(rows), whole.at_ms, rows[-1].at_ms, whole.number, whole.low, whole.high - whole.low,
        whole.total - whole.number * whole.low, rows[-1].high - whole.low, rows[0].low,
        rows[1].at_ms - whole.at_ms if len(rows) > 1 else 0,
    )  # fmt: skip
    above = [divmod(row.total - row.number * row.low, row.number) for row in rows]
    columns = (
        [rows[0].number, *_differences([row.number for row in rows])],
        _differences([row.low for row in rows]),
        [row.high - row.low for row in rows],
        [whole for whole, _ in above],
        [rest for _, rest in above],
    )
    return _framed(ROWS, header, times + b"".join(map(_column, columns)))


def grouped(
    times_ms: Sequence[int], values: Sequence[int], begin_ms: float, step_ms: float
) -> list[SeriesRow]:
    """Returns points as one row per time step that has any; times must increase."""
    rows, place = [], 0
    while place < len(times_ms):
        first = times_ms[place]
        end_ms = begin_ms + ((first - begin_ms) // step_ms + 1) * step_ms
        end = max(place + 1, bisect_left(times_ms, end_ms, place))
        part = values[place:end]
        rows.append(SeriesRow(first, end - place, min(part), max(part), sum(part)))
        place = end
    return rows


def header_of(block: bytes) -> Header:
    """Returns the header alone; raises Invalid for bytes that were not packed here."""
    return _opened(block)[1]


def unpack(block: bytes, base_ms: int = 0) -> list[SeriesRow]:
    """Unpacks a block, with `base_ms` added; points as rows of one. Raises Invalid otherwise."""
    kind, header, length, first, body = _opened(block)
    if kind == POINTS:
        times, values = _points(header, length, first, body, base_ms)
        return [
            SeriesRow(at, 1, value, value, value) for at, value in zip(times, values, strict=True)
        ]
    lengths = (length - 1, length, length - 1, length, length, length)
    gaps, counts, lows, spans, wholes, rests = _columns(body, lengths)
    times = _risen(header.first_ms + base_ms, header.step_ms, gaps)
    lows = list(accumulate(lows, initial=first))
    counts = list(accumulate(counts[1:], initial=counts[0]))
    new = tuple.__new__  # a third of the time of SeriesRow(...), and a query makes thousands
    return [
        new(SeriesRow, (at, count, low, low + span, (low + whole) * count + rest))
        for at, count, low, span, whole, rest in zip(
            times, counts, lows, spans, wholes, rests, strict=True
        )
    ]


def unpack_points(block: bytes, base_ms: int = 0) -> tuple[Sequence[int], Sequence[int]]:
    """Returns times, with `base_ms` added, and values of a block of points."""
    kind, header, length, first, body = _opened(block)
    if kind != POINTS:
        raise Invalid("this block holds rows, not points")
    return _points(header, length, first, body, base_ms)


def _points(
    header: Header, length: int, first: int, body: bytes, base_ms: int
) -> tuple[Sequence[int], Sequence[int]]:
    data = _inflated(body, 2 * (1 + 8 * (length - 1)))
    width = data[0] if data else -1
    times = _times(header.first_ms + base_ms, header.step_ms, data[: 1 + width * (length - 1)],
                   length)  # fmt: skip
    changes, end = _read_column(data, 1 + width * (length - 1), length - 1)
    if end != len(data):
        raise Invalid("a history block is too long")
    if header.low == header.high:
        return times, (first,) * length
    return times, list(accumulate(changes, initial=first))


@lru_cache(maxsize=16)
def _times(first_ms: int, step_ms: int, column: bytes, length: int) -> Sequence[int]:
    """Decodes times, once: they are the same for all series of a device."""
    gaps, _ = _read_column(column, 0, length - 1)
    return tuple(_risen(first_ms, step_ms, gaps))


@lru_cache(maxsize=32)
def _time_column(times_ms: tuple[int, ...]) -> bytes:
    """Encodes times, once: they are the same for all series of a device."""
    if not 1 <= len(times_ms) <= MOST_ROWS:
        raise Invalid(f"a block holds 1 to {MOST_ROWS} rows, not {len(times_ms)}")
    if any(later <= earlier for earlier, later in pairwise(times_ms)):
        raise Invalid("the times of a block must increase")
    if times_ms[0] < 0 or times_ms[-1] >= VALUE_LIMIT:
        raise Invalid("a time is out of range for a block")
    return _column(_seconds_differences(times_ms))


def _check_values(low: int, high: int) -> None:
    if low <= -VALUE_LIMIT or high >= VALUE_LIMIT:
        raise Invalid("a value is out of range for a block")


def _differences(values: Sequence[int]) -> list[int]:
    return list(map(sub, values[1:], values))


def _seconds_differences(times: Sequence[int]) -> list[int]:
    """Returns differences of differences; the first step itself is in the header."""
    steps = _differences(times)
    return [0, *_differences(steps)] if steps else []


def _first_step(times: Sequence[int]) -> int:
    return times[1] - times[0] if len(times) > 1 else 0


def _risen(first: int, step: int, gaps: Sequence[int]) -> list[int]:
    steps = accumulate(gaps[1:], initial=step) if gaps else ()
    return list(accumulate(steps, initial=first))


def _framed(kind: int, header: Iterable[int], columns: bytes) -> bytes:
    squeeze = zlib.compressobj(*_SQUEEZE)
    body = squeeze.compress(columns) + squeeze.flush()
    rest = bytes((kind,)) + b"".join(map(_varint, header)) + body
    return zlib.crc32(rest).to_bytes(4, "little") + rest


def _column(numbers: Sequence[int]) -> bytes:
    low, high = min(numbers, default=0), max(numbers, default=0)
    if low == high == 0:
        return ZEROS
    if low >= -128 and high <= 127:
        return b"\1" + struct.pack(f"{len(numbers)}b", *numbers).translate(_FOLDED)
    folded = [number << 1 ^ number >> 63 for number in numbers]
    top = max(folded)
    width = next(width for width in _CODES if top < 1 << 8 * width)
    raw = struct.pack(f"<{len(folded)}{_CODES[width]}", *folded)
    return bytes((width,)) + b"".join(raw[place::width] for place in range(width))


def _opened(block: bytes) -> tuple[int, Header, int, int, bytes]:
    """Returns kind, header, number of rows, first value, and the deflated rest."""
    if len(block) < _FRAME.size or zlib.crc32(block[4:]) != _FRAME.unpack_from(block)[0]:
        raise Invalid("a history block is damaged")
    numbers, place = _varints(block, _FRAME.size)
    length, first_ms, last_ms, count, low, span, above, last, first, step = numbers
    if block[4] not in (POINTS, ROWS) or not 1 <= length <= MOST_ROWS:
        raise Invalid("a history block has an unknown format", hint="andon may be too old for it")
    header = Header(
        first_ms, last_ms, count, low, low + span, above + count * low, low + last, step
    )
    return block[4], header, length, first, block[place:]


def _columns(body: bytes, lengths: Sequence[int]) -> list[list[int]]:
    data = _inflated(body, sum(1 + 8 * length for length in lengths))
    place, columns = 0, []
    for length in lengths:
        column, place = _read_column(data, place, length)
        columns.append(column)
    if place != len(data):
        raise Invalid("a history block is too long")
    return columns


def _inflated(body: bytes, most: int) -> bytes:
    inflate = zlib.decompressobj(-15)
    try:
        data = inflate.decompress(body, most + 1)
    except zlib.error as exc:
        raise Invalid("a history block cannot be inflated") from exc
    if not inflate.eof or len(data) > most:
        raise Invalid("a history block has the wrong length")
    return data


def _read_column(data: bytes, place: int, length: int) -> tuple[list[int], int]:
    width = data[place] if place < len(data) else -1
    if width == 0:
        return [0] * length, place + 1
    end = place + 1 + width * length
    if width not in _CODES or end > len(data):
        raise Invalid("a history block is truncated")
    if width == 1:
        return list(struct.unpack(f"{length}b", data[place + 1 : end].translate(_UNFOLDED))), end
    raw = bytearray(width * length)
    for plane in range(width):
        begin = place + 1 + plane * length
        raw[plane::width] = data[begin : begin + length]
    folded = struct.unpack(f"<{length}{_CODES[width]}", raw)
    return [number >> 1 ^ -(number & 1) for number in folded], end


def _varint(number: int) -> bytes:
    folded = number << 1 if number >= 0 else ~(number << 1)
    out = bytearray()
    while folded > 0x7F:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    out.append(folded)
    return bytes(out)


def _varints(data: bytes, place: int) -> tuple[list[int], int]:
    numbers: list[int] = []
    value = shift = 0
    for end, byte in enumerate(data[place : place + _HEADER_NUMBERS * 12], place + 1):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value >> 1 ^ -(value & 1))
            value = shift = 0
            if len(numbers) == _HEADER_NUMBERS:
                return numbers, end
    raise Invalid("a history block has an incomplete header")


def shifted(block: bytes, by: int) -> bytes:
    """Returns the same block with `by` added to every value, without unpacking it."""
    _opened(block)
    numbers, place = _varints(block, _FRAME.size)
    numbers[4] += by
    numbers[8] += by
    rest = block[4:5] + b"".join(map(_varint, numbers)) + block[place:]
    return zlib.crc32(rest).to_bytes(4, "little") + rest
