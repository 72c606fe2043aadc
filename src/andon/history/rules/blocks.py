"""What every store does with blocks: pack ticks, roll finer blocks up, and answer queries."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from andon.errors import Invalid
from andon.history.rules.codec import (
    SeriesRow,
    grouped,
    header_of,
    pack_points,
    pack_rows,
    unpack,
    unpack_points,
)
from andon.history.rules.tiers import STEP_MS, WINDOW_MS, Extents, Tier, rolled, segments, window

Block = tuple[int, bytes]
"""The start of its window, and its bytes."""


def packed(times: Sequence[int], values: Sequence[int], earlier: bytes | None) -> bytes:
    """Returns a raw block of times since the window's start; late ticks join an earlier block."""
    if earlier is None:
        return pack_points(times, values)
    try:
        points = dict(zip(*unpack_points(earlier), strict=True))
    except Invalid:
        points = {}
    points |= dict(zip(times, values, strict=True))
    ordered = sorted(points)
    return pack_points(ordered, [points[at] for at in ordered])


def rolled_up(
    tier: Tier, begin: int, finer: Iterable[Block], earlier: bytes | None
) -> tuple[bytes | None, int]:
    """Returns a series' block of a coarser window, and how many finer blocks could not be read.

    Rows of an earlier block remain where the finer ones have been deleted.
    """
    rows: list[SeriesRow] = []
    damaged = 0
    for base, body in finer:
        try:
            rows += _rolled(tier, body, base - begin)
        except Invalid:
            damaged += 1
    if earlier is not None:
        with suppress(Invalid):
            merged = {row.at_ms: row for row in (*unpack(earlier), *rows)}
            rows = [merged[at] for at in sorted(merged)]
    return (pack_rows(rows) if rows else None), damaged


def _rolled(tier: Tier, body: bytes, offset: int) -> list[SeriesRow]:
    """Returns a finer block's rows, `offset` after the start of the coarser window."""
    if tier is Tier.MINUTE:
        step = STEP_MS[tier]
        rows = grouped(*unpack_points(body), 0, step)
        return [row._replace(at_ms=row.at_ms // step * step + offset) for row in rows]
    return [row._replace(at_ms=row.at_ms + offset) for row in rolled(unpack(body), tier)]


def rows_between(
    begin: int,
    end: int,
    step: float,
    extents: Extents,
    blocks: Callable[[Tier, int, int], Iterable[Block]],
) -> Iterator[SeriesRow]:
    """Yields a series' rows from the tiers that suit the step; `blocks` finds a span's blocks."""
    for part in segments(begin, end, step, extents):
        for base, body in blocks(part.tier, window(part.tier, part.since_ms), part.until_ms):
            rows = rows_of(part.tier, base, body, begin, step)
            if base < part.since_ms or base + WINDOW_MS[part.tier] > part.until_ms:
                rows = [row for row in rows if part.since_ms <= row.at_ms < part.until_ms]
            yield from rows


def rows_of(tier: Tier, base: int, body: bytes, begin: int, step: float) -> list[SeriesRow]:
    """Returns the rows of a block; only its header if all of it falls into one bucket."""
    try:
        header = header_of(body)
        first = header.first_ms + base
        if (first - begin) // step == (header.last_ms + base - begin) // step:
            return [header.row._replace(at_ms=first)]
        if tier is Tier.RAW:
            return grouped(*unpack_points(body, base), begin, step)
        return unpack(body, base)
    except Invalid:
        return []  # a damaged block is a gap; maintenance counts it
