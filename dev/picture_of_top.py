"""The picture of `andon top` in docs/pictures: the first view of eight simulated GPUs, as SVG.

python -m dev.picture_of_top                    writes docs/pictures/top.svg
python -m dev.picture_of_top FILE 200x60        another file, another window
"""

import re
import sys
from html import escape
from pathlib import Path

from msgspec.structs import replace
from tests.support.snapshots import HOST
from tests.support.top_scenes import frame_of

from andon.cli.show.text import Text
from andon.drivers.sim.backend import Simulation
from andon.model.device import Card, DeviceStatus, Snapshot, State
from andon.tui.histories import Histories
from andon.tui.screen import compose

WIDTH, HEIGHT = 120, 34
CELL, LINE, MARGIN = 8.4, 17, 14
SPAN, AT = 300, 1_763_170_867.0
COLOURS = {"red": "#e06c75", "green": "#98c379", "yellow": "#e5c07b", "cyan": "#56b6c2"}
NO_BREAK = "\u00a0"  # plain spaces are collapsed
PLAIN, DIM, PAPER = "#d7dae0", "#7f848e", "#1e2127"


def main(path: Path, width: int = WIDTH, height: int = HEIGHT) -> None:
    """Five minutes of simulated readings, drawn by the same functions as on a terminal."""
    histories, backend = Histories(), Simulation(count=8, origin=AT - 4000)
    cards = list(backend.open())
    for second in range(-SPAN, 1):
        shot = _snapshot(backend, cards, AT + second)
        histories.add(shot)
    frame = frame_of(shot, width, height, span_seconds=float(SPAN))
    page = compose(replace(frame, histories=histories))
    path.write_text(svg(page.lines, width), encoding="utf-8")


def _snapshot(backend: Simulation, cards: list[Card], at: float) -> Snapshot:
    statuses = [
        DeviceStatus(
            device, State.OK, at, sample=reading.sample, missing=reading.missing,
            processes=reading.processes,
        )
        for card in cards
        for device, reading in zip(
            backend.describe(card), backend.read(card, at, True), strict=True
        )
    ]  # fmt: skip
    return Snapshot("gpu-box", at, True, host=HOST, devices=tuple(statuses))


def svg(lines: list[Text], width: int) -> str:
    wide, tall = round(width * CELL + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" '
        f'font-family="monospace" font-size="14">'
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>'
    )
    return head + "".join(_line(line, y) for y, line in enumerate(lines)) + "</svg>\n"


def _line(line: Text, row: int) -> str:
    out, x = "", 0
    y = MARGIN + (row + 1) * LINE - 4
    for text, style in line.spans:
        wide = Text(((text, ""),)).width
        left, words = MARGIN + x * CELL, style.split()
        x += wide
        fill = next((COLOURS[word] for word in words if word in COLOURS), PLAIN)
        fill = DIM if "dim" in words and fill == PLAIN else fill
        if "reverse" in words:
            out += (
                f'<rect x="{left:.1f}" y="{y - 13}" width="{wide * CELL:.1f}" height="{LINE}" '
                f'fill="{PLAIN}"/>'
            )
            fill = PAPER
        bold = ' font-weight="bold"' if "bold" in words else ""
        for word in re.finditer(r"\S+(?: \S+)*", text):
            begin = left + Text(((text[: word.start()], ""),)).width * CELL
            length = Text(((word[0], ""),)).width * CELL
            out += (
                f'<text x="{begin:.1f}" y="{y}" textLength="{length:.1f}" fill="{fill}"{bold}>'
                f"{escape(word[0]).replace(' ', NO_BREAK)}</text>"
            )
    return out


if __name__ == "__main__":
    given = [*sys.argv[1:], *("docs/pictures/top.svg", f"{WIDTH}x{HEIGHT}")[len(sys.argv) - 1 :]]
    main(Path(given[0]), *map(int, given[1].split("x")))
