"""When devices are free: from the ends of leases and from what others have reserved; pure."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec.structs import replace

from andon.leases.rules.eligibility import Obstacle, ObstacleKind
from andon.leases.rules.offer import Offer, OfferRow
from andon.leases.rules.spans import Span, first_gap
from andon.leases.rules.verdict import freed, withheld
from andon.model.lease import Reservation
from andon.model.verdict import VerdictKind

SHORTEST_SECONDS = 60.0
"""A gap that is shorter is of no use."""


def offer_at(found: Offer, reservations: Iterable[Reservation], uid: int, moment: float) -> Offer:
    """Returns what a request would get at a time to come: leases with an end have ended by then,
    and what is reserved for others is theirs. Who uses a device without a lease is not known."""
    known = list(reservations)
    rows = [_row_at(row, known, uid, moment) for row in found.rows]
    free = [place for place, row in enumerate(rows) if row.is_free]
    if len(free) >= found.least:
        for place in free[: found.least]:
            rows[place] = replace(rows[place], chosen=True)
    return replace(found, at=moment, rows=tuple(rows), reason=None)


def next_time(
    found: Offer, spans: Mapping[str, Sequence[Span]], seconds: float | None
) -> tuple[float, float]:
    """Returns the first time at which the request is known to be met for so long (None: at all),
    and until when it then is; infinite where that is not known."""
    length = SHORTEST_SECONDS if seconds is None else seconds
    ready = {row.verdict.uuid: _ready(row, found.at) for row in found.rows}
    moments = set(ready.values()) | {end for uuid in ready for _, end in spans.get(uuid, ())}
    for moment in sorted(one for one in moments if found.at <= one < inf):
        free = [
            next((begins for begins, ends in sorted(spans.get(uuid, ())) if ends > moment), inf)
            for uuid, start in ready.items()
            if start <= moment and first_gap(spans.get(uuid, ()), moment, length) == moment
        ]
        if len(free) >= found.least:
            return moment, sorted(free, reverse=True)[found.least - 1]
    return inf, inf


def _ready(row: OfferRow, at: float) -> float:
    """Returns from when on a device is not in use, as far as its lease says."""
    verdict = row.verdict
    if row.is_free or verdict.code == "reserved":
        return at
    ends = verdict.kind is VerdictKind.HELD and verdict.until is not None
    return max(at, verdict.until or at) if ends else inf


def _row_at(
    row: OfferRow, reservations: Sequence[Reservation], uid: int, moment: float
) -> OfferRow:
    """Returns a device at a time to come, when nothing is known of its load."""
    verdict = row.verdict
    row = replace(row, free_bytes=None, utilization_percent=None, score=None, chosen=False)
    is_ready = _ready(row, 0.0) <= moment
    if not is_ready:
        return row
    for one in reservations:
        if one.begins <= moment < one.ends and verdict.uuid in one.uuids and one.uid != uid:
            why = f"reserved by {one.user} ({one.id})"
            then = Obstacle(ObstacleKind.RESERVED, why, one.ends, one.user)
            return replace(row, verdict=withheld(verdict, then))
    return replace(row, verdict=freed(verdict))
