"""The views that are one list each: alerts, leases, jobs, runs and users."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from andon.alerts.rules import listing
from andon.cli.commands.share.leases import lease_columns
from andon.cli.show.alerts import about, lamp, names_of, people
from andon.cli.show.jobs import render_job, render_jobs
from andon.cli.show.render import paragraph
from andon.cli.show.runs.listing import render_runs
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, known, percent, styled
from andon.cli.show.waiting import queue_line
from andon.model.alert import Phase
from andon.tui.page import Frame, Hit, Page, scrolled, selected
from andon.tui.state import TopView
from andon.tui.users import UserLine, user_lines
from andon.units import human_bytes

R = TypeVar("R")
NOT_READ = "not read yet"
NO_JOBS = "no jobs; to queue one: andon submit -- python train.py"


def list_view(page: Page, frame: Frame, room: int) -> None:
    """Draws the list of the current view."""
    _VIEWS[frame.state.view](page, frame, room)


def _alerts(page: Page, frame: Frame, room: int) -> None:
    """Draws a line for each alert; below, what to do about the one under the cursor."""
    entries = listing.entries(frame.scene.alerts)
    if not entries:
        _nothing(page, frame, "alerts", "no active alerts")
        return
    alerts = [entry.alert for entry in entries]
    names, now = names_of(frame.scene.alerts), frame.scene.at
    cursor = min(frame.state.row(), len(alerts) - 1)
    chosen = alerts[cursor]
    details = paragraph(chosen.message, frame.width, "bold", indent=0)
    details += paragraph(" · ".join(about(chosen, now)), frame.width, "dim", indent=0)
    if chosen.affected:
        details += paragraph(f"affected: {people(chosen.affected)}", frame.width, indent=2)
    if chosen.advice:
        details += paragraph(f"what to do: {chosen.advice}", frame.width, indent=2)
    related = [alert.message for alert in entries[cursor].related]
    for message in related[:3]:
        details += paragraph(f"related: {message}", frame.width, "dim", indent=2)
    details = details[: max(0, room // 2)]
    lines = [
        lamp(alert)
        + styled(f" {names[alert.id]}  ", "bold" if alert.state is Phase.FIRING else "dim")
        + styled(alert.message)
        for alert in alerts
    ]
    _rows(page, frame, lines, max(1, room - len(details) - 1), cursor)
    page.add(Text())
    page.add_all(details)


def _leases(page: Page, frame: Frame, room: int) -> None:
    found = frame.scene.leases
    if found is None:
        _nothing(page, frame, "leases", NOT_READ)
        return
    labels = {one.uuid: one.label for one in found.devices}
    waiting = [styled(queue_line(one, found.at)) for one in found.waiting]
    cordons = [
        styled(f"GPU {labels.get(one.uuid, UNKNOWN)} out of service since "
            f"{time.strftime('%H:%M', time.localtime(one.at))}, by {one.by}: {one.reason}",
            "yellow")
        for one in found.cordons
    ]  # fmt: skip
    below = [*waiting, *cordons][: room // 2]
    if found.leases:
        columns = lease_columns(found.at, labels)
        lines = draw(columns, [TableRow(row) for row in found.leases], frame.width)
        page.add(lines[0])
        room_left = max(1, room - 2 - len(below))
        _rows(page, frame, lines[1:], room_left, min(frame.state.row(), len(found.leases) - 1))
    else:
        page.add(styled(found.note or "no leases", "dim"))
    page.add(Text())
    page.add_all(line.fit(frame.width) for line in below)


def _runs(page: Page, frame: Frame, room: int) -> None:
    rows = frame.scene.runs
    if not rows:
        _nothing(page, frame, "runs", NOT_READ if rows is None else "no runs recorded")
        return
    lines = render_runs(rows, frame.now, frame.width)
    page.add(lines[0])
    _rows(page, frame, lines[1:], room - 1, min(frame.state.row(), len(rows) - 1))


def _jobs(page: Page, frame: Frame, room: int) -> None:
    rows = frame.scene.jobs
    if not rows:
        _nothing(page, frame, "jobs", NOT_READ if rows is None else NO_JOBS)
        return
    lines = render_jobs(rows, frame.now, frame.width)
    cursor = min(frame.state.row(), len(rows) - 1)
    details = [line.fit(frame.width) for line in render_job(rows[cursor], frame.now)]
    details = details[: max(0, room // 2)]
    page.add(lines[0])
    _rows(page, frame, lines[1:], max(1, room - 2 - len(details)), cursor)
    page.add(Text())
    page.add_all(details)


def _users(page: Page, frame: Frame, room: int) -> None:
    """Draws what each user has: devices, memory, share of the node, and what is held but idle."""
    rows = user_lines(frame.scene)
    if not rows:
        _nothing(page, frame, "users", "no one uses or holds a GPU")
        return
    columns: tuple[TableColumn[UserLine], ...] = (
        TableColumn("USER", lambda row: styled(row.user, "bold"), lead=True, floor=8),
        TableColumn("GPU", lambda row: styled(row.devices), elastic=8, floor=8),
        TableColumn("PROCESSES", lambda row: styled(str(row.processes)), right=True, rank=3),
        TableColumn("GPU MEM", lambda row: known(row.memory_bytes, human_bytes),
                              right=True, rank=1, floor=8),
        TableColumn("SHARE", lambda row: percent(row.share), right=True, rank=1, floor=5),
        TableColumn("HELD", lambda row: styled(row.held), elastic=6, rank=2),
        TableColumn("HELD BUT IDLE", lambda row: styled(row.idle, "yellow"), elastic=13,
                              rank=2),
    )  # fmt: skip
    lines = draw(columns, [TableRow(row) for row in rows], frame.width)
    page.add(lines[0])
    _rows(page, frame, lines[1:], room - 1, min(frame.state.row(), len(rows) - 1))


def _rows(page: Page, frame: Frame, lines: Sequence[Text], room: int, cursor: int) -> None:
    first = scrolled(len(lines), room, cursor)
    for place, text in enumerate(lines[first : first + room], first):
        shown = selected(text, frame.width) if place == cursor else text.fit(frame.width)
        page.add(shown, Hit("row", place))


def _nothing(page: Page, frame: Frame, name: str, text: str) -> None:
    page.add_all(paragraph(frame.scene.notes.get(name, text), frame.width, "dim", indent=0))


_VIEWS: Mapping[TopView, Callable[[Page, Frame, int], None]] = {
    TopView.ALERTS: _alerts,
    TopView.LEASES: _leases,
    TopView.RUNS: _runs,
    TopView.JOBS: _jobs,
    TopView.USERS: _users,
}


def list_length(frame: Frame) -> int:
    """Returns how many rows the list of this view has."""
    scene = frame.scene
    if frame.state.view is TopView.ALERTS:
        return len(listing.entries(scene.alerts))
    if frame.state.view is TopView.LEASES:
        return 0 if scene.leases is None else len(scene.leases.leases)
    if frame.state.view is TopView.USERS:
        return len(user_lines(scene))
    return len((scene.runs if frame.state.view is TopView.RUNS else scene.jobs) or ())
