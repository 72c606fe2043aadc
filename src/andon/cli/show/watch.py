"""The table of `andon watch`, as lines and as a picture on a terminal."""

import re
import time
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from andon.cli.show import cells
from andon.cli.show.columns import device_columns, device_row, label
from andon.cli.show.entries import NamedDevice, is_masked, lit_entries, unreal
from andon.cli.show.render import fault_lines, flow, header, mean_line, node_row, state_message
from andon.cli.show.table import TableColumn, TableRow, choose, draw, heading, line, sizes_of
from andon.cli.show.text import MEDIUM, WIDE, Text, percent, styled
from andon.explain.conditions.rulebook import Rulebook
from andon.history.rules.sparkline import sparkline
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp

TREND = 12
TRY = "try: andon watch --simulate 4"
_NUMBERS = re.compile(r"\d+")
Trends = dict[str, deque[float | None]]


def _remember(trends: Trends, entry: NamedDevice) -> deque[float | None]:
    """Adds a device's utilisation to its trend."""
    trend = trends.setdefault(entry.status.device.uuid, deque(maxlen=TREND))
    sample = entry.status.sample if entry.status.answered else None
    trend.append(sample.utilization_percent if sample else None)
    return trend


class StreamLine(Struct, frozen=True):
    """One device in one line."""

    entry: NamedDevice
    at: float
    trend: str
    masked: bool


class Stream:
    """Remembers what was printed: the columns, and each device's last readings."""

    def __init__(
        self, width: int, height: int, color: bool, rulebook: Rulebook | None = None
    ) -> None:
        self.width, self.height, self.color = width, height, color
        self._rulebook = rulebook
        self._trends: Trends = {}
        self._columns: list[TableColumn[StreamLine]] = []
        self._sizes: list[int] = []
        self._since_heading: int | None = None
        self._printed: object = ()  # the faults that were printed last
        self._was_empty = False

    def resize(self, width: int, height: int) -> None:
        """Sets the size; for another width the next sample chooses the columns again."""
        if width != self.width:
            self._columns, self._sizes, self._since_heading = [], [], None
        self.width, self.height = width, height

    def tick(self, snapshot: Snapshot, lit: Sequence[DeviceLamp] | None = None) -> str:
        """The lines for one snapshot, under a new heading where one is due."""
        seen = lit_entries(snapshot, self._rulebook, lit)
        ticks = [self._seen(entry, snapshot) for entry in seen]
        rows = [TableRow(tick, state_message(tick.entry.status, snapshot.at)) for tick in ticks]
        moved = self._settle(rows)
        lines = [line(self._columns, self._sizes, row, self.width) for row in rows]
        if not rows:
            lines = [styled(f"{_clock(snapshot.at)}  no GPU can be read", "dim").fit(self.width)]
        lines += self._reasons(snapshot, empty=not rows)
        if moved or self._heading_is_due(len(lines)):
            lines = self._headings(snapshot) + lines
            self._since_heading = 0
        self._since_heading = (self._since_heading or 0) + len(lines)
        return "".join(text.paint(self.color) + "\n" for text in lines)

    def _reasons(self, snapshot: Snapshot, empty: bool) -> list[Text]:
        """Why devices are missing: printed at first, and when the reason changes."""
        first, self._was_empty = empty and not self._was_empty, empty
        found = [(f.source, _NUMBERS.sub("", f.reason), f.hint) for f in snapshot.faults]
        changed, self._printed = tuple(found) != self._printed, tuple(found)
        lines = fault_lines(snapshot, self.width) if first or changed else []
        return [*lines, styled(TRY, "dim").fit(self.width)] if first else lines

    def _seen(self, entry: NamedDevice, snapshot: Snapshot) -> StreamLine:
        trend = _remember(self._trends, entry)
        return StreamLine(entry, snapshot.at, sparkline(list(trend)), is_masked(snapshot))

    def _settle(self, rows: list[TableRow[StreamLine]]) -> bool:
        """Chooses the columns; they are chosen once and only grow, so that they are easy to
        follow. Returns whether they changed."""
        if not rows:
            return False
        fresh = not self._columns
        if fresh:
            self._columns = choose(_columns(self.width), rows, self.width)
        sizes = sizes_of(self._columns, rows, self.width)
        grown = [max(pair) for pair in zip(self._sizes or sizes, sizes, strict=True)]
        moved, self._sizes = fresh or grown != self._sizes, grown
        return moved

    def _heading_is_due(self, count: int) -> bool:
        since = self._since_heading
        return since is None or since + count > max(10, self.height - 1)

    def _headings(self, snapshot: Snapshot) -> list[Text]:
        word = unreal(snapshot)
        mark = [styled(f" {word} ", "bold reverse")] if word else []
        if not self._columns:  # no device has been seen at this width
            return mark
        return [*mark, heading(self._columns, self._sizes, self.width)]


def _columns(width: int) -> list[TableColumn[StreamLine]]:
    wide = width >= MEDIUM
    index = " (cuda:{} here)" if wide else " cuda:{}"
    detail = (width >= MEDIUM) + (width >= WIDE)
    return [
        TableColumn("", lambda t: cells.lamp(t.entry), lead=True),
        TableColumn("TIME", lambda t: styled(_clock(t.at), "dim"),
                    lead=True, gap=1, rank=7, floor=8),
        TableColumn("GPU", lambda t: styled(label(t.entry, t.masked, index), "bold"), lead=True),
        TableColumn("UTIL", lambda t: cells.utilization(t.entry, 0), rank=1, right=True, floor=5),
        TableColumn("TREND", lambda t: styled(t.trend, "dim green"),
                    rank=8, right=True, floor=TREND),
        TableColumn("MEMORY GiB", lambda t: cells.memory(t.entry, 0, True, 0), rank=2, right=True,
               floor=13),
        TableColumn("TEMP", lambda t: cells.temperature(t.entry), rank=3, right=True, floor=6),
        TableColumn("POWER", lambda t: cells.power(t.entry), rank=4, right=True, floor=9),
        TableColumn("SM MHz", lambda t: _reading(t, "sm_clock_mhz"), rank=9, right=True),
        TableColumn("MEM MHz", lambda t: _reading(t, "memory_clock_mhz"), rank=12, right=True),
        TableColumn("PCIe", lambda t: cells.link(t.entry), rank=13, right=True, floor=5),
        *(_wide_columns() if width >= WIDE else ()),
        TableColumn(
            "THROTTLE", lambda t: cells.throttle(t.entry, width >= WIDE), rank=11, floor=12
        ),
        TableColumn("WHO", lambda t: cells.who(t.entry, detail), rank=10, elastic=10, floor=10),
    ]  # fmt: skip


def _wide_columns() -> list[TableColumn[StreamLine]]:
    """The columns for values that the first sample lacks: columns are chosen by that sample."""
    return [
        TableColumn("SM ACT", _active, rank=14, right=True, floor=5),
        TableColumn("PCIe B/s", lambda t: cells.traffic(t.entry, "pcie"), rank=15, right=True,
               floor=11),
    ]  # fmt: skip


def _active(tick: StreamLine) -> Text:
    return percent(getattr(tick.entry.status.sample, "sm_active_percent", None))


def _reading(tick: StreamLine, name: str) -> Text:
    return cells.number(getattr(tick.entry.status.sample, name, None))


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


QUIT = "q or Ctrl-C ends"


class LiveTable:
    """Keeps each device's last readings for its trend."""

    def __init__(self, color: bool, rulebook: Rulebook | None = None) -> None:
        self._color, self._rulebook = color, rulebook
        self._trends: Trends = {}

    def frame(
        self, snapshot: Snapshot, width: int, height: int, lit: Sequence[DeviceLamp] | None = None
    ) -> list[str]:
        """Lines for a window of this size, none wider and no more than fit above the cursor."""
        seen = lit_entries(snapshot, self._rulebook, lit)
        for entry in seen:
            _remember(self._trends, entry)
        lines = [header(snapshot, width)]
        body, rest = self._body(snapshot, seen, width), self._below(snapshot, seen, width)
        room = max(1, height - 1 - len(lines))
        lines += _fitted(body, max(1, room - len(rest)), len(seen))
        lines = (lines + rest)[: height - 1]
        return [line.fit(width).paint(self._color) for line in lines]

    def _body(self, snapshot: Snapshot, seen: list[NamedDevice], width: int) -> list[Text]:
        if not seen:
            return [styled("no GPU can be read", "dim")]
        columns = device_columns(seen, width, is_masked(snapshot))
        place = next(i for i, c in enumerate(columns) if c.title.strip() == "UTIL") + 1
        columns.insert(place, TableColumn("TREND", self._trend, rank=7, floor=TREND))
        rows = [device_row(entry, state_message(entry.status, snapshot.at)) for entry in seen]
        return draw(columns, rows, width)

    def _trend(self, entry: NamedDevice) -> Text:
        values = self._trends.get(entry.status.device.uuid, ())
        return styled(sparkline(values), "dim green").pad(TREND, right=True)

    def _below(self, snapshot: Snapshot, seen: list[NamedDevice], width: int) -> list[Text]:
        parts = [
            *node_row(snapshot, width),
            *([mean_line(seen)] if seen else []),
            styled(QUIT, "dim"),
        ]
        return [*fault_lines(snapshot, width), *flow(parts, width)]


def _fitted(body: list[Text], room: int, devices: int) -> list[Text]:
    """Returns the heading and the devices that fit, and a line with how many are left out."""
    if len(body) <= room:
        return body
    most = max(1, room - 1)
    left = devices - (most - 1)
    return [*body[:most], styled(f"and {left} more: a taller window shows them", "dim")][:room]
