"""The processes table of top: the same cells as `andon ps`, with columns that do not jump."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from andon.cli.show import cells
from andon.cli.show.process_rows import ProcessRow
from andon.cli.show.process_table import elapsed, places, size
from andon.cli.show.table import (
    TableColumn,
    TableRow,
    choose,
    drawn_once,
    heading,
    line,
    sizes_of,
)
from andon.cli.show.text import Text, join, say
from andon.model.device import ProcessKind
from andon.model.programs import program_of, short_command
from andon.tui.page import Frame, Hit, Page, scrolled, selected
from andon.tui.scene import ProcessEntry, place_of, starts_descending
from andon.tui.state import Focus, View
from andon.tui.views.chrome import filter_words

NO_PROCESS = "no process is using a GPU"
COLUMNS = {
    "device": "GPU", "user": "USER", "pid": "PID", "kind": "TYPE", "memory": "GPU MEM",
    "gpu": "UTIL", "cpu": "CPU", "host": "HOST MEM", "time": "TIME", "place": "CONTAINER/JOB",
    "lease": "LEASE", "command": "COMMAND",
}  # fmt: skip
"""Every column by its name; `command` cannot be hidden."""
SORTED = frozenset(("device", "user", "pid", "memory", "gpu", "cpu", "host", "time", "command"))


def process_table(
    page: Page, frame: Frame, rows: Sequence[ProcessEntry], room: int, hidden: Sequence[str] = ()
) -> None:
    """A heading and as many processes as fit, around the cursor."""
    if room < 1:
        return
    cursor = place_of(rows, frame.state.process)
    first = scrolled(len(rows), room - 1, cursor or 0)
    shown = rows[first : first + room - 1]
    columns = drawn_once(_columns(shown, frame, hidden))
    lines = [TableRow(row, style=None if row.use else "dim") for row in shown]
    chosen = choose(columns, lines, frame.width)
    sizes = sizes_of(chosen, lines, frame.width)
    _heading(page, frame, chosen, sizes, len(rows))
    if not rows:
        page.add(say(f"  {_no_process(frame)}", "dim"))
        return
    focused = frame.state.view is not View.DEVICES or frame.state.focus is Focus.PROCESSES
    for place, row in enumerate(lines, first):
        text = line(chosen, sizes, row, frame.width)
        if place == cursor and focused:
            text = selected(text, frame.width)
        elif _is_followed(frame, row.value):
            text = text.restyled("bold yellow")
        page.add(text, Hit("process", row.value.key))


def _is_followed(frame: Frame, row: ProcessEntry) -> bool:
    followed, key = frame.state.follow, row.key
    return followed is not None and key is not None and key[:2] == followed[:2]


def _no_process(frame: Frame) -> str:
    words = filter_words(frame)
    return f"no process matches: {words} (Esc shows all)" if words else NO_PROCESS


def _heading(
    page: Page,
    frame: Frame,
    columns: Sequence[TableColumn[ProcessEntry]],
    sizes: Sequence[int],
    count: int,
) -> None:
    text = heading(columns, sizes, frame.width)
    start = 0
    names = {title: name for name, title in COLUMNS.items()}
    for number, (column, wide) in enumerate(zip(columns, sizes, strict=True)):
        start += column.gap if number else 0
        name = names.get(column.title.rstrip("▾▴"), "")
        if name in SORTED:
            page.mark(start, start + wide, Hit("action", f"sort:{name}"))
        start += wide
    words = [f"{count} process{'es' * (count != 1)}"]
    if narrowed := filter_words(frame):
        words.append(narrowed)
    if frame.state.processes.tree:
        words.append("tree")
    note = say(" " + ", ".join(words), "bold")
    if note.width < frame.width // 2:
        text = text.fit(frame.width - note.width).pad(frame.width - note.width) + note
    page.add(text)


def _columns(
    rows: Sequence[ProcessEntry], frame: Frame, hidden: Sequence[str]
) -> list[TableColumn[ProcessEntry]]:
    full = frame.width >= 100
    found: dict[str, TableColumn[ProcessEntry]] = {
        "device": TableColumn("GPU", lambda r: say(r.label, "bold"), rank=0, floor=3),
        "user": TableColumn("USER", lambda r: _word(r, "user"), rank=1, elastic=8, floor=8),
        "pid": TableColumn("PID", lambda r: _word(r, "pid"), rank=2, right=True, floor=7),
        "kind": TableColumn("TYPE", _kind, rank=11),
        "memory": TableColumn(
            "GPU MEM", _of_use(lambda u: size(u.memory_bytes)), rank=3, right=True, floor=8
        ),
        "gpu": TableColumn("UTIL", _of_use(_busy), rank=5, right=True, floor=5),
        "cpu": TableColumn(
            "CPU", lambda r: cells.percent(_host(frame, r)[0]), rank=7, right=True, floor=6
        ),
        "host": TableColumn(
            "HOST MEM", lambda r: size(_host(frame, r)[1]), rank=10, right=True, floor=8
        ),
        "time": TableColumn(
            "TIME", _of_use(lambda u: elapsed(u.elapsed_seconds)), rank=8, right=True, floor=8
        ),
        "place": TableColumn("CONTAINER/JOB", _within, rank=6, elastic=14),
        "lease": TableColumn("LEASE", lambda r: _word(r, "lease", blank=True), rank=9, elastic=8),
        "command": TableColumn("COMMAND", lambda r: _command(r, full), rank=4, elastic=20),
    }
    processes = [row.process for row in rows if row.process]
    if not any(map(places, processes)):
        del found["place"]
    if not any(process.lease for process in processes):
        del found["lease"]
    return [
        _sorted(column, name, frame)
        for name, column in found.items()
        if name not in frame.state.processes.hidden and name not in hidden
    ]


def _sorted(
    column: TableColumn[ProcessEntry], name: str, frame: Frame
) -> TableColumn[ProcessEntry]:
    """The column that the rows are sorted by has a mark."""
    choice = frame.state.processes
    if name != choice.sort:
        return column
    down = starts_descending(name) is not choice.reverse
    return replace(column, title=column.title + ("▾" if down else "▴"))


def _of_use(cell: Callable[[ProcessRow], Text]) -> Callable[[ProcessEntry], Text]:
    """An ancestor that uses no device has empty device columns."""
    return lambda row: cell(row.use) if row.use else Text()


def _host(frame: Frame, row: ProcessEntry) -> tuple[float | None, int | None]:
    found = None if row.process is None else frame.scene.hosts.get(row.process.pid)
    return (None, None) if found is None else (found.cpu_percent, found.memory_bytes)


def _word(row: ProcessEntry, name: str, blank: bool = False) -> Text:
    value = getattr(row.process, name, None)
    if value is None:
        return Text() if blank or row.process is None else cells.unknown()
    return say(str(value))


def _kind(row: ProcessEntry) -> Text:
    """C or G, as in nvidia-smi."""
    if row.process is None or row.use is None:
        return Text()
    return say("G" if row.process.kind is ProcessKind.GRAPHICS else "C", "dim")


def _busy(use: ProcessRow) -> Text:
    share = use.process.utilization_percent if use.process else None
    return cells.percent(share, cells.load_style(share))


def _within(row: ProcessEntry) -> Text:
    return join([say(place) for place in places(row.process)] if row.process else [], ", ")


def _command(row: ProcessEntry, full: bool) -> Text:
    """What people call the program, in bold, then the rest of its command line."""
    process = row.process
    if process is None:
        return say("unaccounted memory", "yellow")
    program = program_of(process.command, process.name)
    if program is None:
        text = say("not visible here", "dim")
    else:
        rest = short_command(process.command) or "" if full else ""
        begins = rest.startswith(program)
        more = rest[len(program) :] if begins else f" {rest}" if rest else ""
        text = say(program, "bold") + say(more, "dim")
    return say("  " * (row.depth - 1) + "└ ", "dim") + text if row.depth else text
