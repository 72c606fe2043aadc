"""Encodes a heartbeat as bytes: a header that a hub reads at once, two deflated parts that are read
only when someone views the node, and notices for people."""

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, convert
from msgspec.structs import replace

from andon.errors import Invalid
from andon.fleet.rules.digest import Digest, decoded
from andon.fleet.rules.nodes import Heartbeat
from andon.history.rules.series import NodeReadings
from andon.model.codec import Id, Signed, Time, Whole, Wrong, prepared, read
from andon.model.wire import NOTE, Json, TextBounds, dumps, loads, struct_text

SCHEMA = b"andon.heartbeat/2\n"
LENGTHS = struct.Struct("<HHIII")  # of header, digest, report, ticks and notices
MOST_BODY_BYTES = 1 << 20
PART = TextBounds(8 << 20, 500_000)
"""Two hundred GPUs have half of it: 4 MB in a report, 320,000 values in a minute of ticks."""
NOTICES = TextBounds(4 << 20, 100_000)
"""Fifty notices have half of it."""
LEVEL = 3
"""Of deflate: half of the time of 6 for a tenth more bytes."""
NEWER = "this hub does not know this form of heartbeat"


class HeartbeatHeader(Struct, frozen=True):
    """Identifies a heartbeat: the agent's start, and its number since then."""

    session: Id
    sequence: Whole
    sent: Time
    """On the node's clock."""


def heartbeat_body(
    header: HeartbeatHeader, digest: bytes, report: bytes, ticks: bytes, notices: bytes = b""
) -> bytes:
    head = dumps(
        {"session": header.session, "sequence": header.sequence, "sent": header.sent}
    ).encode()
    lengths = LENGTHS.pack(len(head), len(digest), len(report), len(ticks), len(notices))
    return b"".join((SCHEMA, lengths, head, digest, report, ticks, notices))


def read_heartbeat(body: bytes, node: str, at: float) -> tuple[Heartbeat, Digest]:
    """Parses a heartbeat that came at this time with this node's token; raises Invalid with what is
    wrong. The deflated parts stay unread."""
    place = len(SCHEMA) + LENGTHS.size
    if not body.startswith(SCHEMA):
        known = body.startswith(SCHEMA.partition(b"/")[0])
        raise Invalid(NEWER if known else "not a heartbeat", hint="upgrade the older of the two")
    if len(body) < place:
        raise Invalid("the heartbeat is cut off")
    lengths = LENGTHS.unpack_from(body, len(SCHEMA))
    if place + sum(lengths) != len(body):
        raise Invalid("the heartbeat is cut off, or has more than it says")
    parts = list[bytes]()
    for length in lengths:
        parts.append(body[place : place + length])
        place += length
    try:
        header = read(HeartbeatHeader, loads(parts[0], NOTE))
    except Wrong as wrong:
        raise Invalid(f"not a valid heartbeat: {wrong}") from wrong
    digest = replace(decoded(parts[1]), node=node)  # its token names it, not its host
    return Heartbeat(node, header.session, header.sequence, at, header.sent, *parts[1:]), digest


def deflated(value: Json) -> bytes:
    """Returns a part: values and objects as deflated JSON."""
    return zlib.compress(struct_text(value).encode("utf-8", "replace"), LEVEL)


def inflated(part: bytes, bounds: TextBounds) -> Json:
    """Returns the document in a part; raises Invalid for nonsense, and for one that would take
    more memory or time than any node's."""
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(part, bounds.length)
    except zlib.error as exc:
        raise Invalid(f"a part of the heartbeat cannot be unpacked: {exc}") from exc
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise Invalid("a part of the heartbeat is too large, or cut off")
    return loads(found, bounds)


class _Tick(Struct, frozen=True):
    at: Time
    values: Annotated[list[list[Signed]], Meta(max_length=4096)]


class _Ticks(Struct, frozen=True):
    devices: Annotated[list[str], Meta(max_length=4096)]
    metrics: Annotated[list[list[str]], Meta(max_length=4096)]
    ticks: Annotated[list[_Tick], Meta(max_length=4096)]


def packed_ticks(ticks: Sequence[NodeReadings]) -> bytes:
    """Returns ticks in a deflated part; those with the same series share their names."""
    groups = list[dict[str, Any]]()
    for tick in ticks:
        names = [device for device, _, _ in tick.readings]
        metrics = [some for _, some, _ in tick.readings]
        if not groups or (groups[-1]["devices"], groups[-1]["metrics"]) != (names, metrics):
            groups.append({"devices": names, "metrics": metrics, "ticks": []})
        values = [some for _, _, some in tick.readings]
        groups[-1]["ticks"].append({"at": tick.at, "values": values})
    return deflated({"groups": groups})


def unpacked_ticks(part: bytes, later_seconds: float = 0.0) -> Iterable[NodeReadings]:
    """Yields the ticks of a part, moved by `later_seconds`; raises Invalid if malformed."""
    if not part:
        return
    groups = inflated(part, PART).get("groups")
    for group in groups if isinstance(groups, list) else ():
        try:
            found = convert(group, prepared(_Ticks))
        except ValueError as exc:
            raise Invalid(f"the ticks of a heartbeat are not valid: {exc}") from exc
        for tick in found.ticks:
            rows = zip(found.devices, found.metrics, tick.values, strict=False)
            if any(len(metrics) != len(values) for _, metrics, values in rows):
                raise Invalid("the ticks of a heartbeat have other lengths than their names")
            rows = zip(found.devices, found.metrics, tick.values, strict=False)
            readings = tuple((one, tuple(metrics), tuple(some)) for one, metrics, some in rows)
            yield NodeReadings(tick.at + later_seconds, readings)
