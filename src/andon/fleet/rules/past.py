"""Encodes a part of a node's past: finished blocks of its history, uses, ended alerts, runs."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.history.rules.codec import header_of
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.tiers import WINDOW_MS, Extents, StoredBlock, Tier
from andon.model.alert import Alert
from andon.model.codec import Name, Whole, Wrong, read, to_json
from andon.model.device import Device
from andon.model.run.record import RunRow
from andon.model.wire import Json, TextBounds, dumps, loads

SCHEMA = b"andon.past/1\n"
LENGTH = struct.Struct("<I")
HEADER = TextBounds(1 << 20, 200_000)
AHEAD_SECONDS = 86_400.0
"""What is past may lie in the future only as far as clocks of time zones differ."""
MOST_ROW_BYTES = 30_000
"""Of a run in a list: that of 256 GPUs. A thousand of them are one answer."""
_LEFT_OUT: tuple[Json, ...] = (
    {"params": {}, "last_values": {}, "extremes": {}},
    {"devices": (), "tags": (), "command": None, "message": None, "no_samples_reason": None},
)


class BlockPlace(Struct, frozen=True):
    """Where a block belongs, and how long it is."""

    device: Name
    metric: Name
    tier: Annotated[int, Meta(ge=0, le=int(max(Tier)))]
    since: Whole
    length: Annotated[int, Meta(ge=1, le=1 << 20)]


class PastHeader(Struct, frozen=True):
    """The head of a part: devices, the places of the blocks that follow, uses, alerts and runs."""

    devices: Annotated[tuple[Device, ...], Meta(max_length=4096)] = ()
    blocks: Annotated[tuple[BlockPlace, ...], Meta(max_length=65_536)] = ()
    uses: Annotated[tuple[UsageInterval, ...], Meta(max_length=65_536)] = ()
    alerts: Annotated[tuple[Alert, ...], Meta(max_length=4096)] = ()
    runs: Annotated[tuple[RunRow, ...], Meta(max_length=4096)] = ()


class PastPart(Struct, frozen=True):
    """A part of a node's past, parsed and ready to be stored."""

    devices: Sequence[Device] = ()
    blocks: Sequence[StoredBlock] = ()
    uses: Sequence[UsageInterval] = ()
    alerts: Sequence[Alert] = ()
    runs: Sequence[RunRow] = ()

    def __bool__(self) -> bool:
        return bool(self.blocks or self.uses or self.alerts or self.runs)


def packed_past(part: PastPart) -> bytes:
    header = {
        "devices": to_json(part.devices),
        "blocks": [
            {"device": d, "metric": m, "tier": int(t), "since": s, "length": len(body)}
            for d, m, t, s, body in part.blocks
        ],
        "uses": to_json(part.uses),
        "alerts": to_json(part.alerts),
        "runs": [_known(to_json(one)) for one in part.runs],
    }
    head = dumps(header).encode()
    bodies = b"".join(body for *_, body in part.blocks)
    return SCHEMA + LENGTH.pack(len(head)) + head + bodies


def unpacked_past(body: bytes, now: float) -> PastPart:
    """Parses what a node sent; raises Invalid with what is wrong. Of blocks only the headers are
    checked."""
    place = len(SCHEMA) + LENGTH.size
    if not body.startswith(SCHEMA) or len(body) < place:
        raise Invalid("not a part of a node's past", hint="upgrade the older of the two")
    (length,) = LENGTH.unpack_from(body, len(SCHEMA))
    try:
        header = read(PastHeader, loads(body[place : place + length], HEADER))
    except Wrong as wrong:
        raise Invalid(f"not a valid part of a node's past: {wrong}") from wrong
    place += length
    starts = list(accumulate((one.length for one in header.blocks), initial=place))
    if starts[-1] != len(body):
        raise Invalid("the blocks have other lengths than they should")
    latest = now + AHEAD_SECONDS
    blocks = list[StoredBlock]()
    for one, begin in zip(header.blocks, starts, strict=False):
        tier = Tier(one.tier)
        if one.since % WINDOW_MS[tier] or one.since > latest * 1000:
            raise Invalid(f"a block begins at {one.since}, which no window does")
        content = body[begin : begin + one.length]
        header_of(content)
        blocks.append((one.device, one.metric, tier, one.since, content))
    uses = [one for one in header.uses if max(one.first, one.last) <= latest]
    alerts = [one for one in header.alerts if max(one.since, one.resolved or 0.0) <= latest]
    runs = [one for one in header.runs if max(one.began, one.ended or 0.0) <= latest]
    return PastPart(header.devices, blocks, uses, alerts, runs)


def _known(value: Json) -> Json:
    return {name: one for name, one in value.items() if one is not None}


def runs_since(rows: Iterable[RunRow], since: float) -> list[RunRow]:
    """Returns the runs that were in progress at this time or began later."""
    return [row for row in rows if row.ended is None or row.ended >= since]


def of_hub(row: RunRow, node: str) -> RunRow:
    """Returns a run as a hub stores it: with the reporting node's name, and without the path of its
    record, which is another machine's. If it is too large, fields are replaced by a note."""
    row = replace(row, node=node, path="")
    for fields in _LEFT_OUT:
        if len(dumps(to_json(row)).encode("utf-8", "replace")) > MOST_ROW_BYTES:
            row = replace(row, note=f"too large for a hub: andon runs show {row.id}", **fields)
    return row


def due_windows(
    extents: Extents, unpacked: Sequence[int], sent: Mapping[Tier, int], most: int, now_ms: int
) -> list[tuple[Tier, int]]:
    """Returns windows of finished blocks that were not sent yet, oldest first and the finest tier
    last: coarse ones are few, and cover more time. Windows dated in the future by a wrong clock are
    left out."""
    found = list[tuple[Tier, int]]()
    waiting = min(unpacked, default=None)
    for tier in sorted(extents, reverse=True):
        begin = max(extents[tier].since_ms, sent.get(tier, 0))
        begin -= begin % WINDOW_MS[tier]
        end = min(extents[tier].until_ms, now_ms + WINDOW_MS[tier])
        if tier is Tier.RAW and waiting is not None:
            end = min(end, waiting)
        while begin + WINDOW_MS[tier] <= end and len(found) < most:
            found.append((tier, begin))
            begin += WINDOW_MS[tier]
    return found
