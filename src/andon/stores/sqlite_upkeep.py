"""Maintenance of the SQLite file: packing, rolling up, deleting, freeing pages."""

import sqlite3

from andon.history.rules.blocks import packed, rolled_up
from andon.history.rules.tiers import (
    WINDOW_MS,
    DueRoll,
    Maintenance,
    Tier,
    rolled_until,
)
from andon.stores.sqlite_head import columns_in
from andon.stores.statements import statements

SQL = statements("sqlite")
RAW_WINDOW_MS = WINDOW_MS[Tier.RAW]
MOST_PAGES = 2000

Made = list[tuple[int, bytes]]


def pack(connection: sqlite3.Connection, node: int, begin: int) -> Maintenance:
    """Turn one window's ticks into blocks; late ticks join the existing block."""
    span = (node, begin, begin + RAW_WINDOW_MS)
    columns = columns_in(connection.execute(SQL["heads"], span), begin)
    for series, (times, values) in columns.items():
        asked = (series, Tier.RAW, begin, begin + 1)
        earlier = connection.execute(SQL["blocks"], asked).fetchone()
        body = packed(times, values, earlier and earlier[1])
        connection.execute(SQL["put_block"], (series, Tier.RAW, begin, body))
    ticks = connection.execute(SQL["clear_head"], span).rowcount
    widen(connection, node, Tier.RAW, begin, begin + RAW_WINDOW_MS)
    return Maintenance(packed_ticks=ticks, packed_blocks=len(columns))


def rolled_blocks(
    connection: sqlite3.Connection, node: int, tier: Tier, begin: int
) -> tuple[Made, int]:
    """The blocks of a coarser window, and how many of the finer ones could not be read."""
    made: Made = []
    damaged = 0
    for _, _, series in connection.execute(SQL["list_series"], (node,)).fetchall():
        span = (series, tier - 1, begin, begin + WINDOW_MS[tier])
        earlier = connection.execute(SQL["blocks"], (series, tier, begin, begin + 1)).fetchone()
        finer = connection.execute(SQL["blocks"], span)
        body, lost = rolled_up(tier, begin, finer, earlier and earlier[1])
        damaged += lost
        if body is not None:
            made.append((series, body))
    return made, damaged


def keep(
    connection: sqlite3.Connection, node: int, due: DueRoll, made: Made, damaged: int
) -> Maintenance:
    """Write a rolled-up window."""
    tier, begin = due.tier, due.begin
    rows = [(series, tier, begin, body) for series, body in made]
    connection.executemany(SQL["put_block"], rows)
    found = None
    if not rows:
        asked = {"node": node, "tier": tier - 1, "after": begin + WINDOW_MS[tier]}
        found = connection.execute(SQL["next_block"], asked).fetchone()[0]
    widen(connection, node, tier, begin, rolled_until(due, found))
    return Maintenance(rolled_blocks=len(rows), empty_windows=int(not rows), damaged_blocks=damaged)


def widen(connection: sqlite3.Connection, node: int, tier: Tier, since: int, until: int) -> None:
    """Extend a tier's extent by this span."""
    span = {"node": node, "tier": int(tier), "since": since, "until": until}
    connection.execute(SQL["put_extent"], span)


def shorten(connection: sqlite3.Connection, node: int, tier: Tier, now: int) -> Maintenance:
    """Let a tier's extent end with its last window that is over; without one, remove it."""
    length = WINDOW_MS[tier]
    asked = {"node": node, "tier": int(tier), "last": now - length, "length": length}
    connection.execute(SQL["end_extent"], asked)
    connection.execute(SQL["drop_extent"], asked)
    return Maintenance(shortened_tiers=1)


def delete(connection: sqlite3.Connection, node: int, tier: Tier, before: int) -> Maintenance:
    """Delete what is older than its tier's retention."""
    count = 0
    for _, _, series in connection.execute(SQL["list_series"], (node,)).fetchall():
        count += connection.execute(SQL["drop_blocks"], (series, tier, before)).rowcount
    held = {"node": node, "tier": int(tier), "since": before}
    connection.execute(SQL["shorten_extent"], held)
    return Maintenance(deleted_blocks=count)


def forget(connection: sqlite3.Connection, node: int, before: float) -> Maintenance:
    """Delete usage intervals older than the coarsest tier."""
    return Maintenance(deleted_uses=connection.execute(SQL["drop_usage"], (node, before)).rowcount)


def vacuum(connection: sqlite3.Connection, least_pages: int = MOST_PAGES) -> int:
    """Returns some free pages to the file system, if there are so many; returns the bytes."""
    free = _free(connection)
    if free < least_pages:
        return 0
    connection.execute(f"PRAGMA incremental_vacuum({MOST_PAGES})").fetchall()
    return (free - _free(connection)) * _pragma(connection, "page_size")


def empty_journal(connection: sqlite3.Connection) -> None:
    """Moves the write-ahead log into the database, unless another process reads it now."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _free(connection: sqlite3.Connection) -> int:
    return _pragma(connection, "freelist_count")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    found: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found
