"""`andon reserve` and `andon reservations`: GPUs for a time to come."""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from andon.cli.device_request import for_option, request_from, request_options
from andon.cli.moments import exact_moment
from andon.cli.options import VARIABLE, at_server, chosen, elsewhere, shared
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, styled
from andon.cli.sources import availability_of, node_of, notify_given_back, sampling_ahead
from andon.cli.terminal import Choices, Terminal
from andon.errors import Conflict, Invalid
from andon.host.clock import offset
from andon.host.machine_id import node_name
from andon.leases.book.lease_book import Book
from andon.leases.listing import coming
from andon.leases.refusal import clock
from andon.leases.reserving import cancel, change, late_leases, reserve
from andon.leases.rules.icalendar import calendar
from andon.model.codec import document
from andon.model.lease import Reservation
from andon.model.lease_list import ReservationList
from andon.model.naming import range_of
from andon.settings.moments import weekly as weeks_of
from andon.units import human_seconds, parse_seconds

_FROM = click.option(
    "--from", "begins", type=exact_moment, metavar="TIME", help="Start: 2h, 18:00, 'Fri 18:00'."
)
_UNTIL = click.option("--until", "ends", metavar="TIME", help="End, the next one after the start.")


@click.group("reserve", invoke_without_command=True)
@request_options
@_FROM
@for_option("How long: 12h.")
@_UNTIL
@click.option("--weekly", default=1, type=click.IntRange(1, 53), metavar="N", help="For N weeks.")
@click.option("--name", default="", metavar="TEXT", help="What for, shown to everyone.")
@at_server
@shared
def reserve_(
    begins: float | None,
    length: float | None,
    ends: str | None,
    weekly: int,
    name: str,
    **options: Any,
) -> int | None:
    """Reserve GPUs for a time to come: andon reserve --gpus 4 --from 'Fri 18:00' --for 12h

    -d 4,5 reserves these; --weekly needs a policy that allows so far ahead for users without root.
    Every andon command honours it: others get a lease on these GPUs only if it ends before, and in
    your time andon run and andon lease take them for you. A lease that others already hold is not
    ended. What nobody has used half an hour after its start is given back.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return None
    choices = chosen()
    _refuse_elsewhere(choices, ())
    starts, stops = _times(begins, length, ends)
    times = weeks_of(starts, stops, weekly, offset(), length is None)
    request = request_from(options)
    if len(request.devices) > 1 and not _is_given("gpus"):
        request = replace(request, least=len(request.devices), most=len(request.devices))
    with sampling_ahead(choices) as sampler:
        availability, book = availability_of(choices, sampler), Book()
        made = reserve(availability, book, request, times, name)
    lines = [styled(f"reserved {_line(one)}") for one in made]
    Terminal.of(choices).print(*lines, *map(styled, late_leases(book, made[0])))
    return 0


@reserve_.command("change")
@click.argument("reservation", metavar="ID")
@_FROM
@for_option("How long: 12h.")
@_UNTIL
@at_server
@shared
def change_(reservation: str, begins: float | None, length: float | None, ends: str | None) -> int:
    """Move a reservation of yours: andon reserve change r7 --from 20:00"""
    _refuse_elsewhere(chosen(), ("change", reservation))
    if length is not None and ends is not None:
        raise Invalid("--for and --until cannot be combined")
    if begins is None and length is None and ends is None:
        raise Invalid("nothing is changed", hint="--from, --for or --until")
    stops = None if ends is None else _end(ends, time.time() if begins is None else begins)
    made = change(Book(make=False), reservation, begins, stops, length)
    Terminal.of(chosen()).print(styled(f"changed {_line(made)}"))
    return 0


@reserve_.command("cancel")
@click.argument("reservations", metavar="ID...", nargs=-1, required=True)
@at_server
@shared
def cancel_(reservations: tuple[str, ...]) -> int:
    """Give a reservation back; root and the owner of the lease book may cancel anyone's."""
    _refuse_elsewhere(chosen(), ("cancel", *reservations))
    book = Book(make=False)
    for name in reservations:
        Terminal.of(chosen()).print(styled(f"cancelled {_line(cancel(book, name))}"))
    return 0


@click.command()
@click.option("--json", "as_json", is_flag=True, help=f"Print {ReservationList.schema}: UTC.")
@click.option("--ics", is_flag=True, help="Print an iCalendar, for a calendar program.")
@elsewhere
@shared
def reservations(as_json: bool, ics: bool) -> int:
    """List what is reserved: by whom, which GPUs, from when to when.

    The board has a link of your own for a calendar program, on the Leases page.
    """
    terminal, at = Terminal.of(chosen()), time.time()
    found = _reserved(chosen(), at)
    if as_json:
        terminal.show_json(document(ReservationList(at, found)))
        return 0
    if ics:
        choices = chosen()
        node = choices.node_name or (choices.url and urlsplit(choices.url).hostname) or node_name()
        sys.stdout.write(calendar(found, node, at))
        return 0
    if not found:
        terminal.print(styled("nothing is reserved; andon reserve --from 18:00 --for 2h", "dim"))
        return 0
    terminal.print(*draw(_columns(at), [TableRow(one) for one in found], terminal.width))
    return 0


def _reserved(choices: Choices, at: float) -> tuple[Reservation, ...]:
    """Returns what is reserved on the node that was named, else on this machine."""
    if choices.url is None and choices.node is None:
        notify_given_back(choices)
        return coming(Book(make=False).reservations(), at)
    return node_of(choices).leases.listing()[1].reservations


def _refuse_elsewhere(choices: Choices, words: Sequence[str]) -> None:
    """Raises Conflict for a machine that was named: reservations are the files of its users."""
    context = click.get_current_context()
    if choices.url is None or context.get_parameter_source("url") is VARIABLE:
        return
    there, given = choices.node_name or choices.url, iter(sys.argv[1:])
    if "reserve" in sys.argv:
        rest = (word for word in given if not _is_place(word, given))
        words = [word for word in rest if word != "reserve"]
    command = shlex.join(["andon", "reserve", *words])
    raise Conflict(f"what {there} has reserved is changed there", hint=f"on {there}: {command}")


def _is_place(word: str, rest: Iterator[str]) -> bool:
    """Whether a word names another machine; its value is left out with it."""
    name, sign, _ = word.partition("=")
    if name not in ("--url", "--node", "--token-file"):
        return False
    if not sign:
        next(rest, None)
    return True


def _times(begins: float | None, length: float | None, ends: str | None) -> tuple[float, float]:
    if (length is None) == (ends is None):
        raise Invalid("a reservation needs one of --for and --until", hint="--for 12h")
    starts = time.time() if begins is None else begins
    return starts, _end(ends or "", starts) if length is None else starts + length


def _end(text: str, starts: float) -> float:
    """Returns the end: `20:00` is the next one after the start, `2h` is that long from now."""
    with suppress(ValueError):
        return time.time() + parse_seconds(text)
    return exact_moment(text, starts)


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is click.core.ParameterSource.COMMANDLINE


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
