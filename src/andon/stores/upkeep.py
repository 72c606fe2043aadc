"""Maintenance of a database's tables: packing, rolling up, deleting."""

from andon.history.rules.blocks import packed, rolled_up
from andon.history.rules.tiers import (
    WINDOW_MS,
    DueRoll,
    Maintenance,
    Tier,
    rolled_until,
)
from andon.stores.head import columns_in
from andon.stores.session import TableSession

RAW_WINDOW_MS = WINDOW_MS[Tier.RAW]

Made = list[tuple[int, bytes]]


def pack(session: TableSession, begin: int) -> Maintenance:
    """Turns one window's ticks into blocks; late ticks join the existing block."""
    span = (session.node, begin, begin + RAW_WINDOW_MS)
    ticks = session.run("heads", span).fetchall()
    columns = columns_in(ticks, begin)
    earlier = dict(session.run("window_blocks", (session.node, Tier.RAW, begin)).fetchall())
    made = [(series, packed(*points, earlier.get(series))) for series, points in columns.items()]
    session.many("put_block", [(series, int(Tier.RAW), begin, body) for series, body in made])
    session.put("clear_head", span)
    widen(session, Tier.RAW, begin, begin + RAW_WINDOW_MS)
    return Maintenance(packed_ticks=len(ticks), packed_blocks=len(columns))


def rolled_blocks(session: TableSession, tier: Tier, begin: int) -> tuple[Made, int]:
    """Returns the blocks of a coarser window, and how many finer ones could not be read."""
    made: Made = []
    damaged = 0
    earlier = dict(session.run("window_blocks", (session.node, tier, begin)).fetchall())
    for _, _, series in session.run("list_series", (session.node,)).fetchall():
        finer = session.run("blocks", (series, tier - 1, begin, begin + WINDOW_MS[tier]))
        body, lost = rolled_up(tier, begin, finer, earlier.get(series))
        damaged += lost
        if body is not None:
            made.append((series, body))
    return made, damaged


def keep(session: TableSession, due: DueRoll, made: Made, damaged: int) -> Maintenance:
    """Writes a rolled-up window."""
    tier, begin = due.tier, due.begin
    rows = [(series, int(tier), begin, body) for series, body in made]
    session.many("put_block", rows)
    found = None
    if not rows:
        parameters = {"node": session.node, "tier": tier - 1, "after": begin + WINDOW_MS[tier]}
        found = session.run("next_block", parameters).fetchone()[0]
    widen(session, tier, begin, rolled_until(due, found))
    return Maintenance(rolled_blocks=len(rows), empty_windows=int(not rows), damaged_blocks=damaged)


def widen(session: TableSession, tier: Tier, since: int, until: int) -> None:
    """Extends a tier's extent by this span."""
    span = {"node": session.node, "tier": int(tier), "since": since, "until": until}
    session.put("put_extent", span)


def shorten(session: TableSession, tier: Tier, now: int) -> Maintenance:
    """Ends a tier's extent at its last window that is over; removes it if there is none."""
    length = WINDOW_MS[tier]
    parameters = {"node": session.node, "tier": int(tier), "last": now - length, "length": length}
    session.put("end_extent", parameters)
    session.put("drop_extent", {"node": session.node, "tier": int(tier)})
    return Maintenance(shortened_tiers=1)


def delete(session: TableSession, tier: Tier, before: int) -> Maintenance:
    """Deletes what is older than its tier's retention."""
    count = session.run("drop_blocks", (session.node, tier, before)).rowcount
    held = {"node": session.node, "tier": int(tier), "since": before}
    session.put("shorten_extent", held)
    return Maintenance(deleted_blocks=count)


def forget(session: TableSession, before: float) -> Maintenance:
    """Deletes usage intervals older than the coarsest tier."""
    return Maintenance(deleted_uses=session.run("drop_usage", (session.node, before)).rowcount)
