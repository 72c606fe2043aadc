"""`andon.reserve`: devices for a time to come; `andon.reservations` lists what is reserved."""

import time
from collections.abc import Sequence
from datetime import datetime

from andon.api.lease import availability
from andon.errors import Invalid
from andon.host.clock import offset
from andon.leases.book.lease_book import Book
from andon.leases.listing import coming
from andon.leases.reserving import cancel, change
from andon.leases.reserving import reserve as reserve_at
from andon.leases.rules.requests import Count, Names, RequestOptions, Size
from andon.model.lease import Reservation
from andon.settings.moments import parse_moment
from andon.settings.moments import weekly as weekly_times
from andon.units import seconds_of

Moment = float | str | datetime
"""UTC seconds, a text such as `Fri 18:00` or `2h`, or a time with its zone."""


class Reserved:
    """A reservation of this user; `later` are those of the weeks that follow."""

    def __init__(self, reservation: Reservation, later: Sequence["Reserved"] = ()) -> None:
        self.reservation, self.later = reservation, tuple(later)

    def __repr__(self) -> str:
        return f"<reservation {self.id}: GPU {', '.join(map(str, self.indices))}>"

    @property
    def id(self) -> str:
        return self.reservation.id

    @property
    def indices(self) -> list[int]:
        return [one.index for one in self.reservation.devices]

    def change(
        self,
        start: Moment | None = None,
        seconds: float | str | None = None,
        until: Moment | None = None,
    ) -> None:
        """Move it to another time; what is not given stays as it is."""
        length = None if seconds is None else seconds_of(seconds)
        begins, ends = (None if one is None else _instant(one) for one in (start, until))
        self.reservation = change(Book(make=False), self.id, begins, ends, length)

    def cancel(self) -> None:
        """Give it back."""
        cancel(Book(make=False), self.id)


def reserve(
    gpus: Count = 1,
    memory: Size = None,
    *,
    start: Moment = "now",
    seconds: float | str | None = None,
    until: Moment | None = None,
    weekly: int = 1,
    name: str = "",
    devices: Names = (),
    exclude: Names = (),
    model: Names = (),
    label: Names = (),
    simulated: bool = False,
) -> Reserved:
    """Reserve devices: `andon.reserve(4, start="Fri 18:00", seconds="12h", name="camera-ready")`.

    It needs one of `seconds` and `until`; `weekly=4` is for four weeks, all or none. In its
    time `andon.lease`, `run` and jobs of this user get these devices, and nobody else does. Raises
    Conflict if too few are free of reservations then, Denied beyond root's limits.
    """
    if (seconds is None) == (until is None):
        raise Invalid("a reservation needs one of seconds and until", hint='seconds="12h"')
    options = RequestOptions(
        gpus, memory, devices=devices, exclude=exclude, model=model, label=label
    )
    begins = _instant(start)
    ends = begins + seconds_of(seconds) if seconds is not None else _instant(until or 0.0)
    if not 1 <= weekly <= 53:
        raise Invalid(f"weekly={weekly}: from 1 to 53")
    times = weekly_times(begins, ends, weekly, offset(), seconds is None)
    made = reserve_at(availability(simulated), Book(), options.request(), times, name)
    return Reserved(made[0], [Reserved(one) for one in made[1:]])


def reservations() -> list[Reservation]:
    """Return what is reserved on this machine and not over, by its beginning."""
    return list(coming(Book(make=False).reservations(), time.time()))


def _instant(given: Moment) -> float:
    """Returns UTC seconds; raises Invalid for what names no time to come."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise Invalid(f"{given} has no time zone", hint="datetime.now().astimezone()")
        return given.timestamp()
    if not isinstance(given, str):
        return float(given)
    try:
        return parse_moment(given, time.time(), offset(), future=True, exact=True)
    except ValueError as exc:
        raise Invalid(str(exc)) from exc
