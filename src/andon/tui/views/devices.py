"""The devices table of top: the rows of `andon watch`, with availability and a trend."""

from andon.cli.show.cells import availability
from andon.cli.show.columns import device_columns, device_row
from andon.cli.show.entries import NamedDevice, is_masked
from andon.cli.show.render import no_device, paragraph, state_message
from andon.cli.show.table import TableColumn, draw
from andon.cli.show.text import MEDIUM, WIDE, Text, styled
from andon.model.verdict import VerdictKind
from andon.tui.graphs import graph, values_across
from andon.tui.page import Frame, Hit, Page, scrolled, selected
from andon.tui.state import Focus, TopView

TREND = 8


def device_table(page: Page, frame: Frame, room: int) -> None:
    """Draws a heading and as many devices as fit, around the cursor."""
    entries, snapshot = frame.scene.entries, frame.scene.snapshot
    if snapshot is None or not entries:
        _without_devices(page, frame, room)
        return
    cursor = _cursor(frame)
    first = scrolled(len(entries), room - 1, cursor)
    shown = entries[first : first + room - 1]
    columns = device_columns(shown, frame.width, is_masked(snapshot))
    _add_trend(columns, frame)
    _add_availability(columns, frame)
    rows = [device_row(entry, state_message(entry.status, snapshot.at)) for entry in shown]
    heading, *lines = draw(columns, rows, frame.width, fills=True)
    page.add(_with_count(heading, first, len(shown), len(entries), frame.width))
    focused = frame.state.view is TopView.DEVICES and frame.state.focus is Focus.DEVICES
    for place, (entry, line) in enumerate(zip(shown, lines, strict=True), first):
        text = _under_cursor(line, frame.width) if place == cursor and focused else line
        page.add(text, Hit("device", entry.status.device.uuid))


def _under_cursor(line: Text, width: int) -> Text:
    """Returns the highlighted line; the lamp keeps its colour."""
    lamp = Text(line.spans[:1])
    return lamp + selected(Text(line.spans[1:]), width - lamp.width)


def _cursor(frame: Frame) -> int:
    uuids = [entry.status.device.uuid for entry in frame.scene.entries]
    return uuids.index(frame.state.device) if frame.state.device in uuids else 0


def _without_devices(page: Page, frame: Frame, room: int) -> None:
    if frame.scene.snapshot is None:
        page.add(styled("waiting for the first reading; keys work already", "dim"))
    else:
        page.add_all(paragraph(no_device(frame.scene.snapshot), frame.width, indent=0)[:room])


def _with_count(heading: Text, first: int, shown: int, count: int, width: int) -> Text:
    """Adds which devices are shown, unless all of them fit."""
    if shown == count:
        return heading
    range_text = styled(f" {first + 1}–{first + shown} of {count}", "bold")
    return heading.fit(width - range_text.width).pad(width - range_text.width) + range_text


def _add_trend(columns: list[TableColumn[NamedDevice]], frame: Frame) -> None:
    place = next(i for i, c in enumerate(columns) if c.title.strip() == "UTIL") + 1
    width = TREND if frame.width < 160 else 2 * TREND
    if frame.width < MEDIUM:
        return

    def trend(entry: NamedDevice, more: int = 0) -> Text:
        count = values_across(width + more, frame.ascii_only)
        uuid = entry.status.device.uuid
        values = frame.histories.values(
            uuid, "utilization_percent", frame.scene.at, frame.state.span_seconds, count
        )
        rows = graph(values, width + more, 1, 100.0, frame.ascii_only)
        return styled(rows[0], "green")

    columns.insert(place, TableColumn("TREND", trend, rank=7, floor=width, gap=1, grown=trend))


def _add_availability(columns: list[TableColumn[NamedDevice]], frame: Frame) -> None:
    verdicts = frame.scene.verdicts
    if not verdicts:
        return
    who = columns.pop()

    def status(entry: NamedDevice) -> Text:
        found = verdicts.get(entry.status.device.uuid)
        users = {process.user for process in entry.status.processes}
        if found is not None and found.kind is VerdictKind.HELD and found.by in users:
            return styled("held")  # its last column says by whom
        return availability(found)

    def narrow(entry: NamedDevice) -> Text:
        """Returns one narrow cell with who uses the device, or that no one does."""
        found = verdicts.get(entry.status.device.uuid)
        return (
            status(entry) if found is not None and not entry.status.processes else who.cell(entry)
        )

    if frame.width >= MEDIUM:
        least = 8 if frame.width < WIDE else 14
        columns += [TableColumn("STATUS", status, rank=6, elastic=least), who]
    else:
        columns.append(TableColumn("WHO", narrow, rank=6, elastic=who.elastic))
