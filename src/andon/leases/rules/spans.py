"""Times that are taken, and the gaps between them."""

from collections.abc import Iterable
from math import inf

from andon.model.lease import Reservation

Span = tuple[float, float]
"""When something begins and ends; an end that is not known is infinite."""


def first_gap(taken: Iterable[Span], at: float, seconds: float | None) -> float:
    """Returns the first time from `at` on with so long (None: for ever) outside of these spans."""
    length = inf if seconds is None else seconds
    for begins, ends in sorted(taken):
        if begins >= at + length:
            break
        at = max(at, ends)
    return at


def others_spans(
    reservations: Iterable[Reservation], uid: int, at: float
) -> dict[str, tuple[Span, ...]]:
    """Returns when each device, by uuid, is reserved for other users from now on."""
    out: dict[str, tuple[Span, ...]] = {}
    for one in reservations:
        if one.uid != uid and one.ends > at:
            for uuid in one.uuids:
                out[uuid] = (*out.get(uuid, ()), (one.begins, one.ends))
    return out
