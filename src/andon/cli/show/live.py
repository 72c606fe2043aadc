"""The picture of `andon watch` on a terminal: as tall as the window, redrawn at every sample."""

from collections import deque
from collections.abc import Sequence

from andon.cli.show.columns import device_columns, device_row
from andon.cli.show.entries import NamedDevice, is_masked, lit_entries
from andon.cli.show.render import fault_lines, flow, header, mean_line, node_row, state_message
from andon.cli.show.table import TableColumn, draw
from andon.cli.show.text import Text, say
from andon.explain.conditions.rulebook import Rulebook
from andon.history.rules.sparkline import sparkline
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp

TREND = 12
QUIT = "q or Ctrl-C ends"


class LiveTable:
    """Keeps each device's last readings for its trend."""

    def __init__(self, color: bool, rulebook: Rulebook | None = None) -> None:
        self._color, self._rulebook = color, rulebook
        self._trends: dict[str, deque[float | None]] = {}

    def frame(
        self, snapshot: Snapshot, width: int, height: int, lit: Sequence[DeviceLamp] | None = None
    ) -> list[str]:
        """Lines for a window of this size, none wider and no more than fit above the cursor."""
        seen = lit_entries(snapshot, self._rulebook, lit)
        for entry in seen:
            self._remember(entry)
        lines = [header(snapshot, width)]
        body, rest = self._body(snapshot, seen, width), self._below(snapshot, seen, width)
        room = max(1, height - 1 - len(lines))
        lines += _fitted(body, max(1, room - len(rest)), len(seen))
        lines = (lines + rest)[: height - 1]
        return [line.fit(width).paint(self._color) for line in lines]

    def _remember(self, entry: NamedDevice) -> None:
        trend = self._trends.setdefault(entry.status.device.uuid, deque(maxlen=TREND))
        sample = entry.status.sample if entry.status.answered else None
        trend.append(sample.utilization_percent if sample else None)

    def _body(self, snapshot: Snapshot, seen: list[NamedDevice], width: int) -> list[Text]:
        if not seen:
            return [say("no GPU can be read", "dim")]
        columns = device_columns(seen, width, is_masked(snapshot))
        place = next(i for i, c in enumerate(columns) if c.title.strip() == "UTIL") + 1
        columns.insert(place, TableColumn("TREND", self._trend, rank=7, floor=TREND))
        rows = [device_row(entry, state_message(entry.status, snapshot.at)) for entry in seen]
        return draw(columns, rows, width)

    def _trend(self, entry: NamedDevice) -> Text:
        values = self._trends.get(entry.status.device.uuid, ())
        return say(sparkline(values), "dim green").pad(TREND, right=True)

    def _below(self, snapshot: Snapshot, seen: list[NamedDevice], width: int) -> list[Text]:
        parts = [*node_row(snapshot, width), *([mean_line(seen)] if seen else []), say(QUIT, "dim")]
        return [*fault_lines(snapshot, width), *flow(parts, width)]


def _fitted(body: list[Text], room: int, devices: int) -> list[Text]:
    """The heading and the devices that fit; how many are left out."""
    if len(body) <= room:
        return body
    kept = max(1, room - 1)
    left = devices - (kept - 1)
    return [*body[:kept], say(f"and {left} more: a taller window shows them", "dim")][:room]
