"""`andon free --at TIME` and `--next`: what is free at a time to come."""

import os
from math import inf

from andon.cli.moments import coming_moment
from andon.cli.show.offer import are_free, offer_to_json, render_offer
from andon.cli.show.text import styled
from andon.cli.sources import node_of
from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid
from andon.leases.book.lease_book import Book
from andon.leases.listing import coming
from andon.leases.refusal import clock
from andon.leases.rules.calendar import next_time, offer_at
from andon.leases.rules.offer import Offer
from andon.leases.rules.reservations import NOBODY
from andon.leases.rules.spans import others_spans
from andon.model.job.device_request import DeviceRequest
from andon.model.naming import range_of
from andon.units import human_seconds

NOT_AVAILABLE = 1


def free_later(
    choices: Choices,
    request: DeviceRequest,
    moment: str | None,
    is_next: bool,
    length: float | None,
    as_json: bool,
) -> int:
    """Prints which devices are free at a time to come, or when the request is next met."""
    if (moment is None) != is_next or (length is not None and not is_next):
        raise Invalid("use one of --at TIME and --next; --for is for --next")
    if length is not None and length <= 0:
        raise Invalid("--for: duration must be greater than 0")
    at = None if moment is None else coming_moment(moment)
    node = node_of(choices)
    found, uid = node.leases.offer(request), os.getuid()
    if choices.url is None:
        reserved = coming(Book(make=False).reservations(), found.at)
    else:
        listed = node.leases.listing()[1]
        reserved = tuple(one for one in listed.reservations if one.uid >= 0)  # not Slurm's
        uid = NOBODY if listed.verdicts_for is None else listed.verdicts_for
    until = inf
    if at is None:
        at, until = next_time(found, others_spans(reserved, uid, found.at), length)
    is_known = at < inf
    then = offer_at(found, reserved, uid, at) if is_known else found
    terminal = Terminal.of(choices)
    if as_json:
        ends = {"until": None if until == inf else until} if is_next else {}
        terminal.show_json({**offer_to_json(then), "now": found.at, **ends})
    elif not is_next:
        later = f" at {clock(then.at, found.at)}"
        terminal.print(*render_offer(then, True, terminal.width, later))
    elif is_known:
        terminal.print(styled(_next_text(then, found.at, until), "bold"))
    else:
        why = f"no time is known at which {found.requested} will be free"
        long = "" if length is None else f" for {human_seconds(length)}"
        terminal.print(styled(f"{why}{long}", "bold"))
        terminal.print(*render_offer(then, True, terminal.width)[1:])
    return 0 if is_known and then.available else NOT_AVAILABLE


def _next_text(then: Offer, now: float, until: float) -> str:
    """Returns `2 GPUs will be free from Sat 21 Nov 06:00 (in 2 d), for 1 d: GPU 4, 5`."""
    waits = then.at - now
    when = "now" if waits <= 0 else f"from {clock(then.at, now)} (in {human_seconds(waits)})"
    lasts = "" if until == inf else f", for {human_seconds(until - then.at)}"
    gpus = range_of([row.verdict.label for row in then.rows if row.chosen])
    return f"{are_free(then, waits > 0)} {when}{lasts}: GPU {gpus}"
