"""The whole screen of top for a window of any size, as lines and what a click on each means."""

from andon.cli.show.text import Text, styled
from andon.tui.page import Frame, Page, plain_ascii
from andon.tui.scene import process_entries
from andon.tui.state import TopView
from andon.tui.views.charts import chart_rows
from andon.tui.views.chrome import (
    alerts_line,
    bottom_line,
    header,
    leases_line,
    node_line,
    tabs,
)
from andon.tui.views.devices import device_table
from andon.tui.views.lists import list_view
from andon.tui.views.overlays import column_menu, help_page, over
from andon.tui.views.processes import process_table

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
LEAST_PROCESSES = 5  # rows, with the heading, that graphs do not take away
TALLEST_GRAPH = 10
MORE_GRAPH, STEP = 6, 3  # lines, where all processes are shown and there is room left
NO_DEVICE_LINES = 8  # why there is none, and what to do


def compose(frame: Frame, question: tuple[Text, ...] = ()) -> Page:
    """Returns exactly as many lines as the window has, none wider than it."""
    page = Page(frame.width)
    if frame.width < LEAST_WIDTH or frame.height < LEAST_HEIGHT:
        page.add(styled(f"top needs {LEAST_WIDTH}x{LEAST_HEIGHT}; q quits", "yellow"))
        page.fill(frame.height)
    else:
        _whole(page, frame, question)
    page.lines = [line.fit(frame.width) for line in page.lines]
    if frame.ascii_only:
        page.lines = [plain_ascii(line) for line in page.lines]
    return page


def _whole(page: Page, frame: Frame, question: tuple[Text, ...]) -> None:
    page.add(header(frame))
    tabs(page, frame)
    _body(page, frame)
    page.fill(frame.height - 1)
    bottom_line(page, frame)
    if frame.state.menu is not None or question:
        _overlay(page, frame, question)


def _body(page: Page, frame: Frame) -> None:
    room, view = frame.height - len(page.lines) - 1, frame.state.view
    if view is TopView.DEVICES and not frame.state.help:
        _overview(page, frame, room)
    elif view is TopView.PROCESSES and not frame.state.help:
        process_table(page, frame, process_entries(frame.scene, frame.state.processes), room)
    else:
        _other_view(page, frame, room)


def _other_view(page: Page, frame: Frame, room: int) -> None:
    """Draws a view that is imported when opened: the first picture does not wait for it."""
    from andon.tui.views.details import device_page, process_page

    if frame.state.help:
        help_page(page, frame, room)
    elif frame.state.view is TopView.DEVICE:
        device_page(page, frame, room)
    elif frame.state.view is TopView.PROCESS:
        process_page(page, frame, process_entries(frame.scene, frame.state.processes), room)
    else:
        list_view(page, frame, room)


def _overlay(page: Page, frame: Frame, question: tuple[Text, ...]) -> None:
    if frame.state.menu is not None:
        column_menu(page, frame)
    if question:
        over(page, question)


def _overview(page: Page, frame: Frame, room: int) -> None:
    """Draws devices, graphs of the one under the cursor, the node, processes, alerts and leases."""
    count = len(frame.scene.entries)
    flexible = room - 3  # the node's line, alerts and leases
    most = max(4, flexible - LEAST_PROCESSES if count <= 8 else flexible * 3 // 5)
    table = min(count + 1, most) if count else min(NO_DEVICE_LINES, most)
    device_table(page, frame, table)
    entry = frame.scene.entry(frame.state.device) or next(iter(frame.scene.entries), None)
    spare = flexible - table - LEAST_PROCESSES - 1
    height = min(TALLEST_GRAPH, spare // 2 if spare >= 8 else spare)
    rows = process_entries(frame.scene, frame.state.processes)
    has_graphs = frame.state.graphs and entry is not None and height >= 2
    empty = flexible - table - (height + 1 if has_graphs else 0) - len(rows) - 1
    spaced = empty >= 3 and count > 0  # a line between the parts, where nothing is pushed out
    if has_graphs and entry is not None:
        if spaced:
            page.add(Text())
        chart_rows(page, frame, entry, height + max(0, min(MORE_GRAPH, (empty - 3) // STEP * STEP)))
    if spaced:
        page.add(Text())
    page.add(node_line(frame))
    left = frame.height - 1 - 2 - len(page.lines)
    process_table(page, frame, rows, left)
    page.fill(frame.height - 3)
    page.add(alerts_line(frame))
    page.add(leases_line(frame))
