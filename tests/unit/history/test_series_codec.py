"""Blocks of history: small, without loss, and never mistaken for something else."""

import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.scenarios import plan
from andon.errors import Invalid
from andon.history.rules.codec import (
    VALUE_LIMIT,
    SeriesRow,
    header_of,
    merged,
    pack_points,
    pack_rows,
    point,
    shifted,
    unpack,
    unpack_points,
)
from andon.history.rules.series import NodeReadings, tick_of
from andon.model.device import DeviceStatus, Snapshot, State

VALUES = st.integers(-VALUE_LIMIT + 1, VALUE_LIMIT - 1) | st.integers(-200, 200)
TIMES = st.lists(st.integers(0, 600_000), min_size=1, max_size=80, unique=True).map(sorted)


@st.composite
def series(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    times = draw(TIMES)
    return times, draw(st.lists(VALUES, min_size=len(times), max_size=len(times)))


@st.composite
def row_lists(draw: st.DrawFn) -> list[SeriesRow]:
    out = []
    for at in draw(TIMES):
        values = draw(st.lists(VALUES, min_size=1, max_size=4))
        out.append(merged([point(at, value) for value in values]))
    return out


@given(series())
def test_points_come_back_as_they_were(points: tuple[list[int], list[int]]) -> None:
    block = pack_points(*points)
    assert tuple(map(list, unpack_points(block))) == points
    assert unpack(block) == [point(at, value) for at, value in zip(*points, strict=True)]


@given(series())
def test_the_header_says_what_unpacking_would(points: tuple[list[int], list[int]]) -> None:
    times, values = points
    header = header_of(pack_points(times, values))
    assert (header.first_ms, header.last_ms, header.last) == (times[0], times[-1], values[-1])
    assert header.row == merged([point(at, v) for at, v in zip(times, values, strict=True)])


@given(row_lists())
def test_rows_come_back_as_they_were(rows: list[SeriesRow]) -> None:
    block = pack_rows(rows)
    assert unpack(block) == rows
    assert header_of(block).row == merged(rows)


@given(row_lists(), st.integers(-1000, 1000))
def test_a_shifted_block_is_the_block_of_shifted_values(rows: list[SeriesRow], by: int) -> None:
    moved = [
        SeriesRow(at, n, low + by, high + by, total + n * by) for at, n, low, high, total in rows
    ]
    block = shifted(pack_rows(rows), by)
    assert unpack(block) == moved
    assert header_of(block).row == merged(moved)


@given(series(), st.integers(0), st.integers(1, 255))
def test_one_changed_byte_is_noticed(
    points: tuple[list[int], list[int]], place: int, change: int
) -> None:
    block = bytearray(pack_points(*points))
    block[place % len(block)] ^= change
    with pytest.raises(Invalid):
        unpack(bytes(block))


@given(series(), st.integers(0))
def test_a_cut_block_is_noticed(points: tuple[list[int], list[int]], end: int) -> None:
    block = pack_points(*points)
    with pytest.raises(Invalid):
        unpack(block[: end % len(block)])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_or_invalid(noise: bytes) -> None:
    with pytest.raises(Invalid):
        unpack(noise)


@given(st.binary(max_size=60))
def test_noise_under_a_right_checksum_is_still_only_invalid(noise: bytes) -> None:
    block = zlib.crc32(noise).to_bytes(4, "little") + noise
    with suppress(Invalid):
        unpack(block)
    with suppress(Invalid):
        unpack_points(block)


@given(row_lists(), st.binary(min_size=1, max_size=40), st.integers(0))
def test_a_forged_block_is_still_only_invalid(
    rows: list[SeriesRow], noise: bytes, place: int
) -> None:
    rest = bytearray(pack_rows(rows)[4:])
    begin = place % len(rest)
    rest[begin : begin + len(noise)] = noise
    with suppress(Invalid):
        unpack(zlib.crc32(rest).to_bytes(4, "little") + bytes(rest))


@pytest.mark.parametrize(
    ("times", "values"),
    [([], []), ([2, 1], [0, 0]), ([1, 1], [0, 0]), ([-1], [0]), ([0], [VALUE_LIMIT])],
)
def test_what_cannot_be_kept_is_refused(times: list[int], values: list[int]) -> None:
    with pytest.raises(Invalid):
        pack_points(times, values)


def test_rows_are_not_taken_for_points() -> None:
    with pytest.raises(Invalid):
        unpack_points(pack_rows([point(0, 1)]))


def _simulated(begin: float, count: int) -> dict[tuple[str, str], list[int]]:
    parts = plan(8, "mixed", (), ()).parts
    specimens = [behaviour.make_specimen(i, 1, *part) for i, part in enumerate(parts)]
    found: dict[tuple[str, str], list[int]] = {}
    for step in range(count):
        devices = tuple(
            DeviceStatus(behaviour.describe(s), State.OK, 0.0,
                         sample=behaviour.sample(s, begin + step))
            for s in specimens
        )  # fmt: skip
        for device, metrics, values in tick_of(
            Snapshot("n", begin + step, devices=devices)
        ).readings:
            for metric, value in zip(metrics, values, strict=True):
                found.setdefault((device, metric), []).append(value)
    return found


@pytest.mark.slow
def test_ten_minutes_of_eight_devices_take_less_than_a_byte_and_a_half_a_value() -> None:
    found = _simulated(1_790_000_400.0, 600)
    # A tick is never quite on the second: what a loaded machine's clock adds is drawn, too.
    late = [int(6 * behaviour.draw(9, step) ** 3) for step in range(600)]
    times = [NodeReadings(step + extra / 1000, ()).at_ms for step, extra in enumerate(late)]
    size = sum(len(pack_points(times, values)) for values in found.values())
    assert size / sum(map(len, found.values())) < 1.5
