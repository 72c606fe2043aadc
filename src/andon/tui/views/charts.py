"""A device's graphs side by side: utilisation, memory, temperature and power."""

from typing import NamedTuple

from andon.cli.show import cells
from andon.cli.show.entries import NamedDevice
from andon.cli.show.text import UNKNOWN, Text, styled
from andon.model.device import Sample
from andon.tui.graphs import line, values_across
from andon.tui.page import Frame, Page
from andon.units import GIB, fixed, human_seconds

GAP = 2
LEAST_WIDTH = 22
LEAST_HALVED = 3


class Chart(NamedTuple):
    """One graph: its title, what is read now, its scale and colour."""

    metric: str
    title: str
    now: str
    top: float
    style: str
    more: str = ""  # where there is room
    unit: float = 1.0  # of its scale

    def scale(self, height: int) -> list[str]:
        """Returns the labels beside the rows: 0, the middle and the end of the scale."""
        marks = {0: self.top, height - 1: 0.0}
        if height >= LEAST_HALVED:
            marks[height // 2 if height % 2 else height // 2 - 1] = self.top / 2
        texts = {row: fixed(value / self.unit) for row, value in marks.items()}
        wide = max(map(len, texts.values()))
        return [f"{texts.get(row, ''):>{wide}} " for row in range(height)]


def charts_of(entry: NamedDevice, frame: Frame) -> list[Chart]:
    status = entry.status
    device, sample = status.device, status.sample if status.answered else None
    reading = sample or Sample(at=0.0)
    total, limit = device.memory_total_bytes, reading.power_limit_watts
    slowdown = device.limits.slowdown_celsius
    return [
        Chart("utilization_percent", "utilisation", _with(reading.utilization_percent, " %"), 100.0,
              "green"),
        Chart("memory_used_bytes", "memory", _memory(reading, total),
              float(total or _peak(frame, device.uuid, "memory_used_bytes")), "cyan",
              unit=float(GIB)),
        Chart("temperature_celsius", "temperature",
              _with(reading.temperature_celsius, " °C"),
              float(slowdown or 100), cells.heat_style(entry) or "yellow",
              f", slows down at {slowdown}" if slowdown else ""),
        Chart("power_watts", "power", _power(reading, limit),
              float(limit or _peak(frame, device.uuid, "power_watts")), ""),
    ]  # fmt: skip


def _with(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{fixed(value)}{unit}"


def _memory(sample: Sample, total: int | None) -> str:
    whole = "" if total is None else f"/{cells.gib(total)}"
    return f"{cells.gib(sample.memory_used_bytes)}{whole} GiB"


def _power(sample: Sample, limit: float | None) -> str:
    whole = "" if limit is None else f"/{fixed(limit)}"
    return UNKNOWN if sample.power_watts is None else f"{fixed(sample.power_watts)}{whole} W"


def _peak(frame: Frame, uuid: str, metric: str) -> float:
    """Returns the scale of a reading without a limit: the highest value shown."""
    span = frame.state.span_seconds
    values = frame.histories.values(uuid, metric, frame.scene.at, span, 60)
    return max((value for value in values if value is not None), default=1.0) or 1.0


def chart_rows(page: Page, frame: Frame, entry: NamedDevice, height: int) -> None:
    """Draws a line of titles and `height` lines of graphs: as many of them as fit side by side."""
    charts = charts_of(entry, frame)
    across = max(1, min(len(charts), (frame.width + GAP) // (LEAST_WIDTH + GAP)))
    across = 2 if across == 3 else across
    whole = frame.width - GAP * (across - 1)
    widths = [whole * (place + 1) // across - whole * place // across for place in range(across)]
    shown = charts[:across]
    page.add(_titles(shown, entry, widths, human_seconds(frame.state.span_seconds)))
    columns = [
        _graph(chart, frame, entry, width, height)
        for chart, width in zip(shown, widths, strict=True)
    ]
    for row in range(height):
        text = Text()
        for number, (chart, lines) in enumerate(zip(shown, columns, strict=True)):
            side, drawn = lines[row]
            text = text + styled(" " * GAP if number else "") + styled(side, "dim")
            text = text + styled(drawn, chart.style)
        page.add(text)


def _titles(shown: list[Chart], entry: NamedDevice, widths: list[int], span: str) -> Text:
    """Returns what each graph shows; at the right end, the time that they cover."""
    text, last = Text(), len(shown) - 1
    for number, (chart, width) in enumerate(zip(shown, widths, strict=True)):
        name = styled(f"{entry.title} ", "bold") if number == 0 else Text()
        title = name + styled(f"{chart.title} ", "dim") + styled(chart.now)
        if title.width + len(chart.more) <= width:
            title = title + styled(chart.more)
        if number == last and title.width + len(span) + 2 <= width:
            title = title.pad(width - len(span)) + styled(span, "dim")
        text = text + styled(" " * GAP if number else "") + title.fit(width).pad(width)
    return text


def _graph(
    chart: Chart, frame: Frame, entry: NamedDevice, width: int, height: int
) -> list[tuple[str, str]]:
    """Returns the scale and the line of each row."""
    scale = chart.scale(height)
    room = width - len(scale[0])
    count = values_across(room, frame.ascii_only)
    values = frame.histories.values(
        entry.status.device.uuid, chart.metric, frame.scene.at, frame.state.span_seconds, count
    )
    drawn = line(values, room, height, chart.top, frame.ascii_only)
    return list(zip(scale, drawn, strict=True))
