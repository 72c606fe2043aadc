"""Maintenance of the SQLite file: packing, rolling up, deleting, freeing pages."""

import sqlite3
from collections.abc import Sequence

from andon.core.history.codec import (
    SeriesRow,
    grouped,
    header_of,
    pack_points,
    pack_rows,
    unpack,
    unpack_points,
)
from andon.core.history.tiers import STEP_MS, WINDOW_MS, Maintenance, Tier, rolled, window
from andon.errors import Invalid
from andon.stores.sqlite_head import columns_in
from andon.stores.statements import statements

SQL = statements("sqlite")
RAW_WINDOW_MS = WINDOW_MS[Tier.RAW]
MOST_PACKED = 6  # windows per call, so that no one waits long for the lock
MOST_ROLLED = 1
MOST_PAGES = 2000

Made = list[tuple[int, bytes]]


def rows_of(tier: Tier, base: int, body: bytes, begin: int, step: float) -> list[SeriesRow]:
    """The rows of a block; only its header where all of it falls into one bucket."""
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


def pack(connection: sqlite3.Connection, begin: int) -> Maintenance:
    """Turn one window's ticks into blocks; late ticks join the existing block."""
    span = (begin, begin + RAW_WINDOW_MS)
    columns = columns_in(connection.execute(SQL["heads"], span), begin)
    for series, (times, values) in columns.items():
        body = _with_earlier(connection, series, begin, times, values)
        connection.execute(SQL["put_block"], (series, Tier.RAW, begin, body))
    ticks = connection.execute(SQL["clear_head"], span).rowcount
    widen(connection, Tier.RAW, begin)
    return Maintenance(packed_ticks=ticks, packed_blocks=len(columns))


def _with_earlier(
    connection: sqlite3.Connection,
    series: int,
    begin: int,
    times: Sequence[int],
    values: Sequence[int],
) -> bytes:
    earlier = connection.execute(SQL["blocks"], (series, Tier.RAW, begin, begin + 1)).fetchone()
    if earlier is None:
        return pack_points(times, values)
    try:
        points = dict(zip(*unpack_points(earlier[1]), strict=True))
    except Invalid:
        points = {}
    points |= dict(zip(times, values, strict=True))
    ordered = sorted(points)
    return pack_points(ordered, [points[at] for at in ordered])


def rolled_blocks(connection: sqlite3.Connection, tier: Tier, begin: int) -> tuple[Made, int]:
    """The blocks of a coarser window, and how many of the finer ones could not be read."""
    made: Made = []
    damaged = 0
    for _, _, series in connection.execute(SQL["list_series"]).fetchall():
        rows: list[SeriesRow] = []
        span = (series, tier - 1, begin, begin + WINDOW_MS[tier])
        for base, body in connection.execute(SQL["blocks"], span):
            try:
                rows += _rolled(tier, body, base - begin)
            except Invalid:
                damaged += 1
        if rows:
            made.append((series, pack_rows(rows)))
    return made, damaged


def _rolled(tier: Tier, body: bytes, offset: int) -> list[SeriesRow]:
    """A finer block's rows, `offset` after the start of the coarser window."""
    if tier is Tier.MINUTE:
        step = STEP_MS[tier]
        rows = grouped(*unpack_points(body), 0, step)
        return [row._replace(at_ms=row.at_ms // step * step + offset) for row in rows]
    return [row._replace(at_ms=row.at_ms + offset) for row in rolled(unpack(body), tier)]


def keep(
    connection: sqlite3.Connection, tier: Tier, begin: int, made: Made, damaged: int
) -> Maintenance:
    """Write a rolled-up window; if it is empty, skip to the next that is not."""
    rows = [(series, tier, begin, body) for series, body in made]
    connection.executemany(SQL["put_block"], rows)
    widen(connection, tier, begin)
    if rows:
        return Maintenance(rolled_blocks=len(rows), damaged_blocks=damaged)
    after = begin + WINDOW_MS[tier]
    (found,) = connection.execute(SQL["next_block"], (tier - 1, after)).fetchone()
    if found is not None and window(tier, found) > after:
        span = {"tier": int(tier), "since": begin, "until": window(tier, found)}
        connection.execute(SQL["put_extent"], span)
    return Maintenance(empty_windows=1, damaged_blocks=damaged)


def widen(connection: sqlite3.Connection, tier: Tier, begin: int) -> None:
    """Extend a tier's extent by this window."""
    span = {"tier": int(tier), "since": begin, "until": begin + WINDOW_MS[tier]}
    connection.execute(SQL["put_extent"], span)


def delete(connection: sqlite3.Connection, tier: Tier, before: int) -> Maintenance:
    """Delete what is older than its tier's retention."""
    count = 0
    for _, _, series in connection.execute(SQL["list_series"]).fetchall():
        count += connection.execute(SQL["drop_blocks"], (series, tier, before)).rowcount
    connection.execute(SQL["shorten_extent"], {"tier": int(tier), "since": before})
    return Maintenance(deleted_blocks=count)


def forget(connection: sqlite3.Connection, before: float) -> Maintenance:
    """Delete usage intervals older than the coarsest tier."""
    return Maintenance(deleted_uses=connection.execute(SQL["drop_usage"], (before,)).rowcount)


def used_bytes(connection: sqlite3.Connection) -> int:
    """The size in use, without free pages."""
    return (_pragma(connection, "page_count") - _free(connection)) * _pragma(
        connection, "page_size"
    )


def vacuum(connection: sqlite3.Connection) -> int:
    """Return some free pages to the file system; a few stay for the next blocks."""
    free = _free(connection)
    if free < MOST_PAGES:
        return 0
    connection.execute(f"PRAGMA incremental_vacuum({MOST_PAGES})").fetchall()
    return (free - _free(connection)) * _pragma(connection, "page_size")


def _free(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "freelist_count")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    found: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found
