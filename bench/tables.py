"""Formats figures: one table per node, then what each tool reads."""

import textwrap
from collections.abc import Iterable
from typing import Final

from bench.figures import MODES, ONE_HERTZ, Combo, Series, Spread
from bench.targets import Part, ratio

TITLES = {ONE_HERTZ: "at 1 Hz", "tight": "in a tight loop"}
HEADINGS = ("wall median", "p99", "CPU median", "p99", "mean", "RSS MB")
PARTS: Final[tuple[tuple[str, Part], ...]] = (("andon", "all"), ("its reader", "reader"))
WIDTH = 100


def table(combo: Combo) -> str:
    """A combo's tools, one block per mode, times in milliseconds."""
    lines = [str(combo.place), "=" * len(str(combo.place))]
    for mode in MODES:
        of_mode = [series for series in combo.series if series.mode == mode]
        if not of_mode:
            continue
        lines += ["", _row(f"{TITLES[mode]}, ms", HEADINGS)]
        for series in of_mode:
            lines += _series_lines(series)
        lines += _ratio_lines(combo, mode)
    return "\n".join([*lines, ""])


def fields(combos: Iterable[Combo]) -> str:
    """The content of each tool's snapshot, listed once."""
    told: dict[str, list[str]] = {}
    for series in (s for combo in combos for s in combo.series if s.fields):
        if len(series.fields) > len(told.get(series.tool, ())):
            told[series.tool] = series.fields
    lines = ["content of one snapshot", "-----------------------"]
    for tool, names in told.items():
        words = f"{tool}: {', '.join(names)}"
        lines += textwrap.wrap(words, WIDTH, subsequent_indent="    ")
    return "\n".join([*lines, ""])


def _series_lines(series: Series) -> list[str]:
    if not series.wall:
        return [f"{series.tool:<26}not measured: {series.absent}"]
    wall, cpu = Spread.of(series.wall), Spread.of(series.cpu)
    cells = [
        _ms(wall.median_seconds), _ms(wall.p99_seconds),
        _ms(cpu.median_seconds), _ms(cpu.p99_seconds), _ms(cpu.mean_seconds),
        f"{series.memory_bytes / 1e6:.0f}",
    ]  # fmt: skip
    seen = f"  {len(series.wall)} ticks, {series.devices} devices, {series.processes} processes"
    lines = [_row(series.tool, cells) + seen]
    if series.reader:
        inside, used = Spread.of(series.reader), Spread.of(series.reader_cpu)
        own = [c - r for c, r in zip(series.cpu, series.reader_cpu, strict=True)]
        lines.append(_row("  its reader", [
            _ms(inside.median_seconds), _ms(inside.p99_seconds),
            _ms(used.median_seconds), _ms(used.p99_seconds), _ms(used.mean_seconds),
        ]))  # fmt: skip
        rest = Spread.of(own)
        lines.append(_row("  its sampler", [
            "", "", _ms(rest.median_seconds), _ms(rest.p99_seconds), _ms(rest.mean_seconds),
        ]))  # fmt: skip
    return lines


def _ratio_lines(combo: Combo, mode: str) -> list[str]:
    peers = [s.tool for s in combo.series if s.mode == mode and s.tool != "andon"]
    lines = []
    for peer in peers:
        for name, part in PARTS:
            wall = ratio(combo, peer, mode, "wall", part)
            cpu = ratio(combo, peer, mode, "cpu", part)
            if wall is not None and cpu is not None:
                head = f"{peer} / {name}"
                lines.append(f"{head:<26}{wall:9.1f}x wall   {cpu:9.1f}x CPU   (medians)")
    return lines


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:<26}" + "".join(f"{cell:>12}" for cell in cells)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
