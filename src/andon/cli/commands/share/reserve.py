"""`andon reserve` and `andon reservations`: GPUs for a time to come."""

import time
from typing import Any

import click

from andon.cli.device_request import for_option, request_from, request_options
from andon.cli.moments import coming_moment
from andon.cli.options import chosen, shared
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, styled
from andon.cli.sources import availability_of, notice_given_back, sampling_ahead
from andon.cli.terminal import Terminal
from andon.errors import Invalid
from andon.leases.book.lease_book import Book
from andon.leases.refusal import clock
from andon.leases.reserving import cancel, change, late_leases, reserve
from andon.leases.rules.reservations import is_over
from andon.model.codec import to_json
from andon.model.lease import Reservation
from andon.model.naming import range_of
from andon.units import human_seconds

SCHEMA = "andon.reservations/1"
_FROM = click.option(
    "--from", "begins", type=coming_moment, metavar="TIME", help="Start: 2h, 18:00, 'Fri 18:00'."
)
_UNTIL = click.option("--until", "ends", type=coming_moment, metavar="TIME", help="End.")


@click.group("reserve", invoke_without_command=True)
@request_options
@_FROM
@for_option("How long: 12h.")
@_UNTIL
@click.option("--name", default="", metavar="TEXT", help="What for, shown to everyone.")
@shared
def reserve_(
    begins: float | None,
    length: float | None,
    ends: float | None,
    name: str,
    **options: Any,
) -> int | None:
    """Reserve GPUs for a time to come: andon reserve --gpus 4 --from 'Fri 18:00' --for 12h

    Every andon command honours it: others get a lease on these GPUs only if it ends before, and in
    your time andon run and andon lease take them for you. A lease that others already hold is not
    ended. What nobody has used half an hour after its start is given back.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return None
    choices = chosen()
    starts, stops = _times(begins, length, ends)
    request = request_from(options)
    with sampling_ahead(choices) as sampler:
        availability, book = availability_of(choices, sampler), Book()
        made = reserve(availability, book, request, starts, stops, name)
    late = late_leases(book, made)
    Terminal.of(choices).print(styled(f"reserved {_line(made)}"), *map(styled, late))
    return 0


@reserve_.command("change")
@click.argument("reservation", metavar="ID")
@_FROM
@for_option("How long: 12h.")
@_UNTIL
@shared
def change_(
    reservation: str, begins: float | None, length: float | None, ends: float | None
) -> int:
    """Move a reservation of yours: andon reserve change r7 --from 20:00"""
    if length is not None and ends is not None:
        raise Invalid("--for and --until cannot be combined")
    if begins is None and length is None and ends is None:
        raise Invalid("nothing is changed", hint="--from, --for or --until")
    made = change(Book(make=False), reservation, begins, ends, length)
    Terminal.of(chosen()).print(styled(f"changed {_line(made)}"))
    return 0


@reserve_.command("cancel")
@click.argument("reservations", metavar="ID...", nargs=-1, required=True)
@shared
def cancel_(reservations: tuple[str, ...]) -> int:
    """Give a reservation back; root and the owner of the lease book may cancel anyone's."""
    book = Book(make=False)
    for name in reservations:
        Terminal.of(chosen()).print(styled(f"cancelled {_line(cancel(book, name))}"))
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help=f"Print {SCHEMA}: UTC.")
@shared
def reservations(as_json: bool) -> int:
    """List what is reserved on this machine: by whom, which GPUs, from when to when."""
    terminal, at = Terminal.of(chosen()), time.time()
    notice_given_back(chosen())
    found = [one for one in Book(make=False).reservations() if not is_over(one, at)]
    found.sort(key=lambda one: (one.begins, one.id))
    if as_json:
        terminal.show_json({"schema": SCHEMA, "at": at, "reservations": to_json(found)})
        return 0
    if not found:
        terminal.print(styled("nothing is reserved; andon reserve --from 18:00 --for 2h", "dim"))
        return 0
    terminal.print(*draw(_columns(at), [TableRow(one) for one in found], terminal.width))
    return 0


def _times(begins: float | None, length: float | None, ends: float | None) -> tuple[float, float]:
    if (length is None) == (ends is None):
        raise Invalid("a reservation needs one of --for and --until", hint="--for 12h")
    starts = time.time() if begins is None else begins
    return starts, ends if length is None else starts + length  # type: ignore[return-value]


def _line(one: Reservation) -> str:
    """Returns `r7: GPU 4–7, Fri 20 Nov 18:00 to Sat 21 Nov 06:00 (camera-ready)`."""
    name = f" ({one.name})" if one.name else ""
    return f"{one.id}: GPU {_gpus(one)}, {_span(one, time.time())}{name}"


def _span(one: Reservation, at: float) -> str:
    return f"{clock(one.begins, at)} to {clock(one.ends, at)}"


def _gpus(one: Reservation) -> str:
    return range_of([str(device.index) for device in one.devices])


def _columns(at: float) -> tuple[TableColumn[Reservation], ...]:
    return (
        TableColumn("ID", lambda one: styled(one.id, "bold"), lead=True),
        TableColumn("WHO", lambda one: styled(one.user), elastic=6),
        TableColumn("GPUS", lambda one: styled(_gpus(one))),
        TableColumn("FROM", lambda one: styled(clock(one.begins, at))),
        TableColumn("TO", lambda one: styled(clock(one.ends, at))),
        TableColumn("STATE", lambda one: _state(one, at)),
        TableColumn("FOR", lambda one: styled(one.name, "dim"), elastic=8),
    )


def _state(one: Reservation, at: float) -> Text:
    if one.begins > at:
        return styled(f"in {human_seconds(one.begins - at)}")
    if one.blocked:
        return styled("waits for an older lease", "yellow")
    return styled("in use" if one.used else "now, not used yet", "bold")
