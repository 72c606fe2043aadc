"""What `andon jobs --all` adds: the queue of the machine, and for root everyone's jobs."""

from contextlib import closing, nullcontext

from msgspec.structs import asdict

from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, styled
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.errors import AndonError
from andon.leases.rules.queue_reasons import queue_reasons
from andon.model.job.facts import JobView
from andon.model.lease_list import LeaseList, WaitingRow
from andon.node.watched.users import everyones_jobs
from andon.units import counted, human_seconds
from andon.web.users.opening import open_shared_files


class QueueRow(WaitingRow, frozen=True):
    """One place in the queue, and why it waits."""

    reason: str = ""


def machine_queue(choices: Choices) -> tuple[LeaseList, str | None]:
    """Returns the lease book's list, and the reason if it cannot be read."""
    try:
        return node_of(choices).leases.listing()[1], None
    except AndonError as error:
        return LeaseList(0.0), f"the queue of the machine is not known: {error.reason}"


def others_jobs(book: LeaseList) -> tuple[list[JobView], list[str]]:
    """Returns the jobs of everyone who holds or waits for GPUs, each read as that user, and what
    could not be read. Empty unless the caller is root."""
    users = open_shared_files(tuple, lambda: book)  # only a server knows who is signed in
    with nullcontext() if users is None else closing(users):
        return everyones_jobs(users)


def queue_lines(book: LeaseList, width: int) -> list[Text]:
    """The queue as a table; nothing where nobody waits."""
    if not book.waiting:
        return []
    rows = [TableRow(row) for row in queue_rows(book)]
    return [styled("queue of this machine", "bold"), *draw(_columns(book.at), rows, width)]


def queue_rows(book: LeaseList) -> list[QueueRow]:
    pairs = zip(book.waiting, queue_reasons(book), strict=True)
    return [QueueRow(**asdict(row), reason=reason) for row, reason in pairs]


def _columns(at: float) -> tuple[TableColumn[QueueRow], ...]:
    return (
        TableColumn("PLACE", lambda one: styled(str(one.position)), lead=True, right=True),
        TableColumn("USER", lambda one: styled(one.user), elastic=6),
        TableColumn("GPUS", lambda one: styled(str(one.gpus)), right=True),
        TableColumn(
            "WAITING", lambda one: styled(human_seconds(max(0.0, at - one.since))), right=True
        ),
        TableColumn("WHY", lambda one: styled(_why(one)), elastic=12),
    )


def _why(one: QueueRow) -> str:
    behind = f"; {counted(one.jobs_behind, 'more job')} behind it" if one.jobs_behind else ""
    return f"{one.reason}{behind}"
