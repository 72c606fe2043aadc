"""The one widget of top: lines of text, of which only those that changed are painted again."""

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from andon.cli.show.text import Text


@lru_cache(maxsize=256)
def _style(name: str, color: bool) -> Style:
    """Colours of the terminal's own palette: they fit a light background as well as a dark one."""
    words = name.split()
    found = next((word for word in words if word in ("red", "green", "yellow", "cyan")), None)
    return Style(
        color=found if color else None,
        bold="bold" in words or None,
        dim="dim" in words or None,
        reverse="reverse" in words or None,
    )


class Canvas(Widget):
    """Line API: `show` compares with what is there."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"
    can_focus = True

    def __init__(self, color: bool) -> None:
        super().__init__()
        self._color = color
        self._lines: list[Text] = []
        self.painted = 0  # lines painted so far, for the tests of what a sample costs

    @property
    def lines(self) -> Sequence[Text]:
        return self._lines

    def show(self, lines: Sequence[Text]) -> None:
        """Paint the lines that differ from those that are shown."""
        before, self._lines = self._lines, list(lines)
        width = self.size.width
        changed = [
            y
            for y, line in enumerate(self._lines)
            if y >= len(before) or before[y].spans != line.spans
        ]
        if len(before) > len(lines) or len(changed) == len(lines):
            self.refresh()
        elif changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width)
        self.painted += 1
        segments = [
            Segment(text, _style(style, self._color)) for text, style in self._lines[y].spans
        ]
        return Strip(segments).adjust_cell_length(width)
