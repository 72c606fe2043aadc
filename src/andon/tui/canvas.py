"""The only widget of top: lines of text, of which only changed ones are repainted."""

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
    """Returns a style in the terminal's own palette, which fits light and dark backgrounds."""
    names = name.split()
    found = next((word for word in names if word in ("red", "green", "yellow", "cyan")), None)
    return Style(
        color=found if color else None,
        bold="bold" in names or None,
        dim="dim" in names or None,
        reverse="reverse" in names or None,
    )


class Canvas(Widget):
    """Displays lines; `show` repaints those that have changed."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"
    can_focus = True

    def __init__(self, color: bool) -> None:
        super().__init__()
        self._color = color
        self._lines: list[Text] = []
        self._strips: list[Strip] = []
        self._width = -1

    def show(self, lines: Sequence[Text]) -> None:
        """Paints the lines that differ from those that are shown."""
        before, self._lines = self._lines, list(lines)
        width = self.size.width
        if width != self._width or len(before) != len(lines):
            self._width = width
            self._strips = [self._strip(line) for line in lines]
            self.refresh()
            return
        changed = [
            y
            for y, (old, new) in enumerate(zip(before, lines, strict=True))
            if old is not new and old.spans != new.spans
        ]
        for y in changed:
            self._strips[y] = self._strip(lines[y])
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def _strip(self, line: Text) -> Strip:
        width, color = self._width, self._color
        segments = [Segment(text, _style(style, color)) for text, style in line.spans]
        taken = line.width
        if taken > width:
            return Strip(segments, taken).crop(0, width)
        if taken < width:
            segments.append(Segment(" " * (width - taken), _style("", color)))
        return Strip(segments, width)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Returns the lines that `show` prepared, without a style of the widget's own."""
        end = crop.y + crop.height
        found = self._strips[crop.y : end] if crop.width == self._width else []
        return found + [Strip.blank(crop.width)] * (crop.height - len(found))
