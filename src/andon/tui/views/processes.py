"""The processes table of top: the cells of `andon ps` in columns that keep their widths.

A row that shows the same as a second ago is the same object: what is not drawn again costs nothing.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from andon.cli.show import cells
from andon.cli.show.process_table import places
from andon.cli.show.text import Text, display_width, join, known, percent, styled
from andon.model.device import Process, ProcessKind
from andon.model.programs import program_of, short_command
from andon.tui.page import Frame, Hit, Page, scrolled, selected
from andon.tui.scene import ProcessEntry, place_of, starts_descending
from andon.tui.state import Focus, TopView
from andon.tui.views.chrome import filter_text
from andon.units import human_bytes

NO_PROCESS = "no process is using a GPU"
GAP = 2
LEAST_COMMAND = 20
WIDEST_USER, WIDEST_PLACE = 16, 24


class RowValues(NamedTuple):
    """The values that a row shows: equal values make the same line."""

    label: str
    process: Process | None
    memory_bytes: int | None
    cpu_percent: float | None
    host_bytes: int | None
    age: str
    depth: int
    is_use: bool


class Column(NamedTuple):
    """A column of the table; the lower its rank, the longer it stays as room shrinks."""

    name: str
    title: str
    width: int
    rank: int
    right: bool
    cell: Callable[[RowValues], Text]


COLUMNS = {
    "device": "GPU", "user": "USER", "pid": "PID", "kind": "TYPE", "memory": "GPU MEM",
    "gpu": "UTIL", "cpu": "CPU", "host": "HOST MEM", "time": "TIME", "place": "CONTAINER/JOB",
    "lease": "LEASE", "command": "COMMAND",
}  # fmt: skip
"""Every column by its name."""
COLUMN_NAMES = tuple(name for name in COLUMNS if name != "command")
"""Those that can be hidden."""
SORTED = frozenset(("device", "user", "pid", "memory", "gpu", "cpu", "host", "time", "command"))


def process_table(
    page: Page, frame: Frame, rows: Sequence[ProcessEntry], room: int, hidden: Sequence[str] = ()
) -> None:
    """Draws a heading and as many processes as fit, around the cursor."""
    if room < 1:
        return
    cursor = place_of(rows, frame.state.process)
    first = scrolled(len(rows), room - 1, cursor or 0)
    shown = rows[first : first + room - 1]
    columns = _columns(rows, frame, frozenset(hidden))
    _heading(page, frame, columns, len(rows))
    if not rows:
        page.add(styled(f"  {_no_process(frame)}", "dim"))
        return
    focused = frame.state.view is not TopView.DEVICES or frame.state.focus is Focus.PROCESSES
    for place, row in enumerate(shown, first):
        text = _line(columns, _drawn(row, frame), frame.width)
        if place == cursor and focused:
            text = selected(text, frame.width)
        elif _is_followed(frame, row):
            text = text.restyled("bold yellow")
        page.add(text, Hit("process", row.key))


def _drawn(row: ProcessEntry, frame: Frame) -> RowValues:
    process, use = row.process, row.use
    host = None if process is None else frame.scene.hosts.get(process.pid)
    return RowValues(
        row.label,
        process,
        None if use is None else use.memory_bytes,
        None if host is None or host.cpu_percent is None else float(round(host.cpu_percent)),
        None if host is None else host.memory_bytes,
        "" if use is None else age(use.elapsed_seconds),
        row.depth,
        use is not None,
    )


def age(seconds: float | None) -> str:
    """Returns `40s`, `12m`, `3h14m`, `2d04h`, which seldom change from second to second."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole - whole % 10}s" if whole >= 10 else "<10s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def _is_followed(frame: Frame, row: ProcessEntry) -> bool:
    followed, key = frame.state.follow, row.key
    return followed is not None and key is not None and key[:2] == followed[:2]


def _no_process(frame: Frame) -> str:
    text = filter_text(frame)
    return f"no process matches: {text} (Esc shows all)" if text else NO_PROCESS


def _heading(page: Page, frame: Frame, columns: tuple[Column, ...], count: int) -> None:
    choice = frame.state.processes
    text, start = "", 0
    for number, column in enumerate(columns):
        start += GAP if number else 0
        mark = ""
        if column.name == choice.sort:
            down = starts_descending(column.name) is not choice.reverse
            mark = "▾" if down else "▴"
        title = column.title + mark
        title = title.rjust(column.width) if column.right else title.ljust(column.width)
        if column.name in SORTED:
            page.mark(start, start + column.width, Hit("action", f"sort:{column.name}"))
        text = text.ljust(start) + title  # a mark may take one of the gap behind it
        start += column.width
    notes = [f"{count} process{'es' * (count != 1)}"]
    notes += [filter_text(frame)] if filter_text(frame) else []
    notes += ["tree"] if choice.tree else []
    note = " " + ", ".join(notes)
    width = frame.width
    room = width - display_width(note)
    if room > width // 2:
        titles = text.rstrip()[:room].ljust(room)
        page.add(styled(titles, "dim") + styled(note, "bold"))
    else:
        page.add(styled(text.rstrip()[:width], "dim"))


def _columns(
    rows: Sequence[ProcessEntry], frame: Frame, hidden: frozenset[str]
) -> tuple[Column, ...]:
    """Returns the columns that fit; names decide their widths, numbers have room for any value."""
    processes = [row.process for row in rows if row.process is not None]
    user = max((display_width(p.user) for p in processes if p.user), default=0)
    place = max((display_width(_places(p)) for p in processes), default=0)
    return _fitting(
        frame.width,
        max(3, max((len(row.label) for row in rows), default=0)),
        min(WIDEST_USER, max(8, user)),
        min(WIDEST_PLACE, max(13, place)) if place else 0,
        any(p.lease for p in processes),
        hidden | frame.state.processes.hidden,
    )


@lru_cache(maxsize=64)
def _fitting(
    width: int, device: int, user: int, place: int, leased: bool, hidden: frozenset[str]
) -> tuple[Column, ...]:
    full = width >= 100
    found = [
        Column("device", "GPU", device, 0, False, lambda row: styled(row.label, "bold")),
        Column("user", "USER", user, 1, False, lambda row: _word(row, "user")),
        Column("pid", "PID", 7, 2, True, lambda row: _word(row, "pid")),
        Column("kind", "TYPE", 4, 11, False, _kind),
        Column("memory", "GPU MEM", 8, 3, True, _memory),
        Column("gpu", "UTIL", 5, 5, True, _busy),
        Column("cpu", "CPU", 6, 7, True, lambda row: percent(row.cpu_percent)),
        Column("host", "HOST MEM", 9, 10, True, lambda row: known(row.host_bytes, human_bytes)),
        Column("time", "TIME", 6, 8, True, lambda row: styled(row.age)),
        Column("place", "CONTAINER/JOB", place, 6, False, _within),
        Column("lease", "LEASE", 8 if leased else 0, 9, False, lambda row: _word(row, "lease")),
        Column("command", "COMMAND", LEAST_COMMAND, 4, False, lambda row: _command(row, full)),
    ]
    found = [one for one in found if one.width and one.name not in hidden]
    room = width + GAP
    taken: set[str] = set()
    for one in sorted(found, key=lambda column: column.rank):
        if taken and one.width + GAP > room:
            break
        taken.add(one.name)
        room -= one.width + GAP
    shown = [one for one in found if one.name in taken]
    return tuple(
        one._replace(width=one.width + max(0, room)) if one.name == "command" else one
        for one in shown
    )


@lru_cache(maxsize=2048)
def _line(columns: tuple[Column, ...], row: RowValues, width: int) -> Text:
    spans: list[tuple[str, str]] = []
    for number, column in enumerate(columns):
        cell = column.cell(row).fit(column.width)
        left = column.width - cell.width
        gap = GAP if number else 0
        if column.right:
            spans.append((" " * (gap + left), ""))
        elif gap:
            spans.append((" " * gap, ""))
        spans += cell.spans
        if left and not column.right:
            spans.append((" " * left, ""))
    text = Text(tuple(span for span in spans if span[0]))
    return text.fit(width) if row.is_use else text.restyled("dim").fit(width)


def _memory(row: RowValues) -> Text:
    """Returns the memory on the device; nothing for an ancestor that uses none."""
    return known(row.memory_bytes, human_bytes) if row.is_use else Text()


def _word(row: RowValues, name: str) -> Text:
    value = getattr(row.process, name, None)
    if value is None:
        return Text() if name == "lease" or row.process is None else known(None)
    return styled(str(value))


def _kind(row: RowValues) -> Text:
    """Returns C or G, as in nvidia-smi."""
    if row.process is None or not row.is_use:
        return Text()
    return styled("G" if row.process.kind is ProcessKind.GRAPHICS else "C", "dim")


def _busy(row: RowValues) -> Text:
    if row.process is None or not row.is_use:
        return Text()
    share = row.process.utilization_percent
    return percent(share, cells.load_style(share))


def _places(process: Process) -> str:
    return ", ".join(places(process)) if process.container or process.job else ""


def _within(row: RowValues) -> Text:
    return join([styled(place) for place in places(row.process)] if row.process else [], ", ")


def _command(row: RowValues, full: bool) -> Text:
    """Returns the program's usual name in bold, then the rest of its command line."""
    process = row.process
    if process is None:
        return styled("unaccounted memory", "yellow")
    program = program_of(process.command, process.name)
    if program is None:
        text = styled("not visible here", "dim")
    else:
        rest = short_command(process.command) or "" if full else ""
        more = rest[len(program) :] if rest.startswith(program) else f" {rest}" if rest else ""
        text = styled(program, "bold") + styled(more, "dim")
    return styled("  " * (row.depth - 1) + "└ ", "dim") + text if row.depth else text
