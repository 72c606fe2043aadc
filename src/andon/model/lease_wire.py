"""JSON of leases, tickets, cordons and notes about releases: `andon.lease/1` and its like.

Any user of the machine can write these files, so the type and range of every field is checked.
"""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from andon.errors import Invalid
from andon.model.codec import NAME, JsonDocument, Name, Text, Wrong, read, read_document
from andon.model.lease import (
    FURTHEST,
    LONGEST_NAME,
    Cordon,
    Lease,
    ShortName,
    Ticket,
    Work,
)
from andon.model.wire import NOTE, Json, loads

MOST_OF_ONE_USER = 1024  # leases, and tickets; a user's files beyond that are ignored, reported
LONGEST_TEXT = 4096  # a command, a reason
MOST_CONTAINERS = 256  # of one lease; more are not read
LARGEST_COUNT = 2**53
_NAME: Any = ShortName


def lease_from_json(value: Json) -> Lease:
    """Reads a lease; raises Invalid for anything but a complete one: part of a lease must not
    look like none.

    Values that decide nothing are limited instead: `--for` may be any number of hours, and a
    lease with invalid text still holds its devices, and no others.
    """
    found = read_document(Lease, value)
    return replace(
        found,
        until=None if found.until is None else min(max(0.0, found.until), FURTHEST),
        fence=min(max(0, found.fence), LARGEST_COUNT),  # see `next_fence`
        command=_shown(found.command),
        whom=_shown(found.whom)[:LONGEST_NAME],
        containers=found.containers[:MOST_CONTAINERS],
        work=_without_first_group(found.work),
    )


def lease_in_text(text: str) -> Lease:
    """Parses a lease's file: the first line is the lease, later ones are its job and containers.
    Incomplete lines are ignored."""
    first, *more = text.split("\n")
    lease = lease_from_json(loads(first, NOTE, any_text=True))
    for line in more[:-1]:
        with suppress(Invalid):
            lease = with_work(lease, loads(line, NOTE, any_text=True))
    return lease


def ticket_from_json(value: Json) -> Ticket:
    found = read_document(Ticket, value)
    if found.need.least > found.need.most:
        raise Invalid(f"not a valid {found.schema}: need.least is more than need.most")
    return found


def cordon_from_json(value: Json) -> Cordon:
    found = read_document(Cordon, value)
    return replace(found, reason=_shown(found.reason))


def with_work(lease: Lease, value: Json) -> Lease:
    """The lease with its running job, or one more container; an unrelated line changes nothing."""
    try:
        if "container" in value and len(lease.containers) < MOST_CONTAINERS:
            container = read(_NAME, value["container"])
            return replace(lease, containers=(*lease.containers, container))
        if "work" in value:
            return replace(lease, work=_without_first_group(read(Work, value["work"])))
    except Wrong:
        pass
    return lease


def _without_first_group(work: Work | None) -> Work | None:
    """Removes group 1 from the work: to `kill` it means every process."""
    return replace(work, group=None) if work is not None and work.group == 1 else work


def _shown(text: str) -> str:
    """Shortens and cleans text that is only shown."""
    return text[:LONGEST_TEXT].encode(errors="replace").decode()


# Who ended another process's lease, and why: what its holder reads when it is asked to stop.

MOST_NOTE = 200  # characters


class ReleaseNote(JsonDocument, frozen=True):
    """One release; an empty note gives no reason."""

    schema = "andon.release/1"
    by: Name
    note: Text = ""

    def text(self, lease: str) -> str:
        """`root released lease k7qm2: maintenance at noon`."""
        return f"{self.by} released lease {lease}" + (f": {self.note}" if self.note else "")


def release_note(by: str, note: str = "") -> ReleaseNote:
    """Returns a note that is bounded, in one line, and without anything that moves a cursor: it
    is for a terminal."""
    return ReleaseNote(_one_line(by, NAME), _one_line(note, MOST_NOTE))


def release_from_json(value: Json) -> ReleaseNote:
    """Reads a note that another process wrote; raises Invalid for anything else."""
    found = read_document(ReleaseNote, value)
    return release_note(found.by, found.note)


def _one_line(text: str, longest: int) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text[: 4 * longest])
    return " ".join(printable.split())[:longest]
