"""Navigation in top: the view, the row under the cursor, and the way back."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from andon.alerts.rules import listing
from andon.tui.page import Frame
from andon.tui.scene import ProcessEntry, place_of, process_entries
from andon.tui.state import Focus, Outcome, ProcessChoice, TopState, TopView
from andon.tui.users import user_lines
from andon.tui.views.lists import list_length

R = TypeVar("R")


def opened(state: TopState, view: TopView) -> TopState:
    return replace(state, view=view, back=(), prompt=None, menu=None, help=False)


def open_chosen(frame: Frame) -> Outcome:
    state = frame.state
    if state.view is TopView.DEVICES and state.focus is Focus.DEVICES:
        wanted = TopView.DEVICE if state.device is not None else None
    elif state.view in (TopView.DEVICES, TopView.PROCESSES, TopView.DEVICE):
        wanted = TopView.PROCESS if state.process is not None else None
    else:
        return _open_row(frame)
    if wanted is None:
        return state, ()
    after = replace(state, view=wanted, back=(*state.back, state.view), environment=False)
    return after, ()


def _open_row(frame: Frame) -> Outcome:
    """Opens the row under the cursor: an alert's device, a lease's device, a user's processes."""
    state, scene = frame.state, frame.scene
    uuid: str | None = None
    if state.view is TopView.ALERTS:
        alerts = [entry.alert for entry in listing.entries(scene.alerts)]
        uuid = nth([alert.subject for alert in alerts], state.row())
    elif state.view is TopView.LEASES and scene.leases is not None:
        row = nth(scene.leases.leases, state.row())
        uuid = row.devices[0].uuid if row is not None and row.devices else None
    elif state.view is TopView.USERS:
        line = nth(user_lines(scene), state.row())
        if line is not None:
            back = (*state.back, state.view)
            return choose(replace(state, view=TopView.PROCESSES, back=back), user=line.user), ()
    if scene.entry(uuid) is None:
        return state, ()
    return replace(state, view=TopView.DEVICE, device=uuid, back=(*state.back, state.view)), ()


def nth(rows: Sequence[R], place: int) -> R | None:
    return rows[min(place, len(rows) - 1)] if rows else None


def back(frame: Frame) -> Outcome:
    """Returns to the previous view; in the first view it clears a filter."""
    state = frame.state
    if state.back:
        return replace(state, view=state.back[-1], back=state.back[:-1], environment=False), ()
    if state.processes.is_filtered and state.view in (TopView.DEVICES, TopView.PROCESSES):
        return choose(state, text="", user=None, device=None, mine=False, compute_only=False), ()
    return replace(state, view=TopView.DEVICES), ()


def move(frame: Frame, by: int) -> Outcome:
    state = frame.state
    if state.view is TopView.DEVICES and state.focus is Focus.DEVICES:
        return _move_device(frame, by), ()
    if state.view in (TopView.DEVICES, TopView.PROCESSES, TopView.DEVICE):
        rows = shown_processes(frame)
        place = place_of(rows, state.process)
        return _at(state, rows, 0 if place is None else place + by), ()
    count = list_length(frame)
    row = max(0, min(count - 1, min(state.row(), count - 1) + by)) if count else 0
    return replace(state, rows={**state.rows, state.view: row}), ()


def shown_processes(frame: Frame) -> list[ProcessEntry]:
    """Returns the rows that the cursor moves through: on a device's page only its own."""
    rows = process_entries(frame.scene, frame.state.processes)
    if frame.state.view is not TopView.DEVICE:
        return rows
    uuid = frame.state.device
    return [row for row in rows if row.use and row.use.entry.status.device.uuid == uuid]


def _move_device(frame: Frame, by: int) -> TopState:
    state, uuids = frame.state, [entry.status.device.uuid for entry in frame.scene.entries]
    if not uuids:
        return state
    place = uuids.index(state.device) if state.device in uuids else 0
    return replace(state, device=uuids[max(0, min(len(uuids) - 1, place + by))])


def _at(state: TopState, rows: Sequence[ProcessEntry], place: int) -> TopState:
    """Moves the cursor to this row, or to the nearest one that is a process."""
    if not rows:
        return replace(state, process=None, place=0)
    place = max(0, min(len(rows) - 1, place))
    while place > 0 and rows[place].key is None:
        place -= 1
    return replace(state, process=rows[place].key, place=place)


def focus(frame: Frame) -> Outcome:
    other = Focus.PROCESSES if frame.state.focus is Focus.DEVICES else Focus.DEVICES
    state = replace(frame.state, focus=other)
    return with_cursor(state, process_entries(frame.scene, state.processes)), ()


def with_cursor(state: TopState, rows: Sequence[ProcessEntry]) -> TopState:
    place = place_of(rows, state.process)
    if place is None:
        return _at(state, rows, state.place) if rows else replace(state, process=None)
    key = rows[place].key
    same = state.place == place and state.process == key
    return state if same else replace(state, place=place, process=key)


def choose(state: TopState, **changes: object) -> TopState:
    choice: ProcessChoice = replace(state.processes, **changes)
    return replace(state, processes=choice)
