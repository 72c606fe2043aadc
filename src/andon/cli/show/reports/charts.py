"""Charts as inline SVG: readable without a script, in the colours of the page around them."""

import math
from collections.abc import Sequence
from html import escape

from andon.cli.show.reports.document import BarChart, ChartLine, LineChart
from andon.cli.show.text import harmless

WIDTH, HEIGHT = 560, 210
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 10, 24
BAR, BAR_GAP, BAR_LEFT, BAR_RIGHT = 16, 8, 96, 52
COLOURS = 8
ABOUT_TICKS = 4
LARGE = 1e6  # in digits, it is wider than the room beside a chart
MOST_TIME_TICKS = 6
TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400,
)  # fmt: skip


def text_of(text: str) -> str:
    """Escapes text for HTML and attributes, and removes characters that reorder or hide text."""
    return escape(harmless(text), quote=True)


def line_chart(chart: LineChart) -> str:
    low = min(_known(chart), default=0.0) if chart.low is None else chart.low
    high = _high(chart, low)
    until = max(chart.until, *chart.at, 1e-9) if chart.at else max(chart.until, 1e-9)
    scale = _Scale(until, low, high)
    body = [
        *(_rule(scale, tick) for tick in ticks(low, high)),
        *(_time_tick(scale, at) for at in time_ticks(until)),
        *(_mark(scale, mark.at, mark.label) for mark in chart.marks if 0 <= mark.at <= until),
        *(_path(scale, chart.at, line, n) for n, line in enumerate(chart.lines)),
    ]
    label = text_of(f"{chart.title}, {chart.unit}, over time")
    return (
        f"<figure><figcaption>{text_of(chart.title)} <small>{text_of(chart.unit)}</small>"
        f"</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(body)}</svg>'
        f"{_legend([line.label for line in chart.lines])}</figure>"
    )


def bar_chart(chart: BarChart) -> str:
    most = max((sum(parts) for _, parts in chart.rows), default=0.0) or 1.0
    height = len(chart.rows) * (BAR + BAR_GAP)
    body = "".join(
        _bar(place, label, parts, most) for place, (label, parts) in enumerate(chart.rows)
    )
    label = text_of(f"{chart.title}, {chart.unit}")
    return (
        f"<figure><figcaption>{text_of(chart.title)} <small>{text_of(chart.unit)}</small>"
        f"</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{body}</svg>'
        f"{_legend(chart.parts)}</figure>"
    )


class _Scale:
    """Converts values to positions in a chart."""

    def __init__(self, until: float, low: float, high: float) -> None:
        self._until, self._low, self._span = until, low, (high - low) or 1.0

    def x(self, at: float) -> float:
        share = min(max(at / self._until, 0.0), 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = min(max((value - self._low) / self._span, 0.0), 1.0)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def ticks(low: float, high: float) -> list[float]:
    """About four round numbers from the lowest to the highest."""
    rough = (high - low) / ABOUT_TICKS
    if not rough > 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def time_ticks(until: float) -> list[float]:
    fitting = (step for step in TIME_STEPS if until / step <= MOST_TIME_TICKS)
    step = next(fitting, TIME_STEPS[-1] * math.ceil(until / TIME_STEPS[-1] / MOST_TIME_TICKS))
    return [float(n * step) for n in range(int(until // step) + 1)]


def clock(seconds: float) -> str:
    """`0:45`, `12:00`, `3:20:00`."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _number(value: float) -> str:
    is_whole = abs(value) < LARGE and (abs(value) >= 10 or value == int(value))
    return f"{value:.0f}" if is_whole else f"{value:.3g}"


def _known(chart: LineChart) -> list[float]:
    return [v for line in chart.lines for v in line.values if v is not None]


def _high(chart: LineChart, low: float) -> float:
    most = max(_known(chart), default=low)
    if chart.high is not None:
        return max(chart.high, most) or 1.0
    return most + (0.05 * (most - low) or 0.05 * abs(most) or 1.0)


def _rule(scale: _Scale, value: float) -> str:
    y = scale.y(value)
    return (
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text x="{LEFT - 6}" y="{y + 3.5}" text-anchor="end">{_number(value)}</text>'
    )


def _time_tick(scale: _Scale, at: float) -> str:
    x, y = scale.x(at), HEIGHT - BOTTOM
    return (
        f'<line class="tick" x1="{x}" x2="{x}" y1="{y}" y2="{y + 4}"/>'
        f'<text x="{x}" y="{y + 16}" text-anchor="middle">{clock(at)}</text>'
    )


def _mark(scale: _Scale, at: float, label: str) -> str:
    x = scale.x(at)
    return (
        f'<line class="mark" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
        f"<title>{text_of(label)} at {clock(at)}</title></line>"
    )


def _path(scale: _Scale, at: Sequence[float], line: ChartLine, number: int) -> str:
    """Returns a path for every stretch without a gap; a single point is a short dash."""
    pieces: list[list[str]] = [[]]
    for time, value in zip(at, line.values, strict=False):
        if value is None or not math.isfinite(value):
            pieces.append([])
        else:
            pieces[-1].append(f"{scale.x(time)},{scale.y(value)}")
    drawn = "".join(f"M{' '.join(p)}" + ("h1" if len(p) == 1 else "") for p in pieces if p)
    dash = f' stroke-dasharray="{4 + 3 * (number // COLOURS)} 3"' if number >= COLOURS else ""
    return f'<path class="c{number % COLOURS}" d="{drawn}"{dash}/>' if drawn else ""


def _legend(labels: Sequence[str]) -> str:
    if len(labels) < 2:
        return ""
    keys = (
        f'<span><i class="c{place % COLOURS}"></i>{text_of(label)}</span>'
        for place, label in enumerate(labels)
    )
    return f'<p class="legend">{"".join(keys)}</p>'


def _bar(place: int, label: str, parts: Sequence[float], most: float) -> str:
    y, x = place * (BAR + BAR_GAP), float(BAR_LEFT)
    name = f'<text x="{BAR_LEFT - 8}" y="{y + 12}" text-anchor="end">{text_of(label)}</text>'
    out = [name]
    for number, value in enumerate(parts):
        width = round(value / most * (WIDTH - BAR_LEFT - BAR_RIGHT), 1)
        out.append(
            f'<rect class="f{number % COLOURS}" x="{round(x, 1)}" y="{y}" width="{width}" '
            f'height="{BAR}"/>'
        )
        x += width
    total = f'<text x="{round(x + 6, 1)}" y="{y + 12}">{sum(parts):.1f}</text>'
    return "".join([*out, total])
