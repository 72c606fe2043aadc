"""`andon why --job 12`: why a job waits, who holds what it needs, and who is ahead of it."""

import time
from collections.abc import Iterator, Sequence

from andon.cli.commands.jobs.desks import desk_of_machine, desks_of
from andon.cli.show.text import Text, styled
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import AndonError
from andon.jobs.desk import JobDesk, desk_with
from andon.jobs.queue_desk import QueueDesk
from andon.leases.book.lease_book import Book
from andon.leases.refusal import clock
from andon.leases.rules.queue import in_order
from andon.leases.rules.rows import waiting_rows
from andon.model.job.desk import JobReason
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import WaitingRow
from andon.model.shapes import to_json
from andon.units import and_more, counted

MOST_AHEAD = 5
SCHEMA = "andon.why_job/1"


def why_job(choices: Choices, word: str, as_json: bool) -> int:
    """Prints why a job waits, according to its desk, and the jobs and users ahead of it on this
    machine."""
    desk, terminal = desk_with(desk_of_machine(choices), word), Terminal.of(choices)
    if isinstance(desk, QueueDesk):
        queue = desk.fresh()
        (view,) = queue.views([desk.facts(word).spec.number])
        ahead, others = _ahead(queue.views(), view), _others(view)
        value = {
            "schema": SCHEMA,
            "job": to_json(view),
            "ahead": [one.label for one in ahead],
            "in_line": [to_json(one) for one in others],
        }
        lines = _lines(view, ahead, others)
    else:
        view = _one_of(choices, desk, word)
        reasons = desk.reasons(view.label)
        value = {"schema": SCHEMA, "job": to_json(view), "reasons": to_json(reasons)}
        if view.engine is None:  # of a server
            lines = _lines(view, _ahead(desk.listing().views, view), ())
        else:
            lines = list(_cluster_lines(view, reasons))
    if as_json:
        terminal.show_json(value)
        return 0
    terminal.print(*lines)
    return 0


def _one_of(choices: Choices, desk: JobDesk, word: str) -> JobView:
    found, errors = desk.find([word])
    for error in errors:
        raise error
    view = next((one for one in found if not one.state.is_settled), found[0])
    if len(found) > 1:
        notice(f"{word} is an array; this is {view.label}", choices)
    return view


def is_cluster_job(choices: Choices, word: str) -> bool:
    """Whether a word names a job of a cluster: lab:4711."""
    desks = desks_of(choices)
    return desks.of(word) is not desks.queue


def _cluster_lines(view: JobView, reasons: Sequence[JobReason]) -> Iterator[Text]:
    yield styled(f"job {view.label} {view.name}: {view.state.text}", "bold")
    if view.where:
        yield styled(f"  {'on' if view.started else 'in'} {view.where}")
    for reason in reasons:
        yield styled(f"  {reason.text}")
        if reason.advice:
            yield styled(f"    {reason.advice}", "dim")


def _lines(view: JobView, ahead: list[JobView], others: tuple[WaitingRow, ...]) -> list[Text]:
    place = "" if view.position is None else f", no. {view.position} of your jobs"
    mark = "SIMULATED " if view.simulated else ""
    lines = [styled(f"{mark}job {view.label} {view.name}: {view.state.text}{place}", "bold")]
    why = view.reason or view.error
    if why:
        lines.append(styled(f"  {why}"))
    lines += [styled(f"  {detail}", "dim") for detail in view.waiting_details]
    if view.devices and view.state is JobState.RUNNING:
        lines.append(styled(f"  on GPU {', '.join(view.devices)}, lease {view.lease}"))
    if view.expected_start is not None:
        count = view.expected_from
        source = f", from {counted(count, 'run')}" if count else ""
        when = clock(view.expected_start, view.submitted_at)
        lines.append(styled(f"  expected start: about {when}{source}"))
    if ahead:
        named = ", ".join(f"{one.label} {one.name}" for one in ahead[:MOST_AHEAD])
        more = and_more(len(ahead) - MOST_AHEAD)
        lines.append(styled(f"  your jobs ahead: {named}{more}"))
    for row in others[:MOST_AHEAD]:
        jobs = f", {counted(row.jobs_behind, 'more job')} behind it" if row.jobs_behind else ""
        used = "" if row.gpu_hours is None else f", {row.gpu_hours:g} recent GPU hours"
        many = "s" * (row.gpus != 1)
        lines.append(
            styled(f"  queue {row.position}: {row.user}, {row.gpus} GPU{many}{jobs}{used}")
        )
    return lines


def _ahead(views: Sequence[JobView], view: JobView) -> list[JobView]:
    """Returns this user's jobs that wait ahead of it."""
    if view.position is None:
        return []
    waiting = [one for one in views if one.position is not None and one.user == view.user]
    before = [one for one in waiting if (one.position or 0) < view.position]
    return sorted(before, key=lambda one: one.position or 0)


def _others(view: JobView) -> tuple[WaitingRow, ...]:
    """Everyone in the queue now, this user's jobs included; empty if it cannot be read."""
    if view.state is not JobState.WAITING:
        return ()
    try:
        book = Book(make=False)
        usage = book.usage()
        line = in_order(book.waiting(), time.time(), usage)
    except (AndonError, OSError):
        return ()
    return waiting_rows([one for one in line if one.simulated == view.simulated], usage)
