"""A page that is being drawn: its lines, and what a click on each of them means."""

from collections.abc import Iterable

from msgspec import Struct, field

from andon.cli.show.text import Text, styled, without_unicode
from andon.tui.histories import Histories
from andon.tui.scene import Scene
from andon.tui.state import TopState

_ARROWS = str.maketrans({"↓": "v", "↑": "^", "▾": "v", "▴": "^"})


class Hit(Struct, frozen=True):
    """The target of a click: a row of a table, a column to sort by, or a key."""

    kind: str
    value: object


class Frame(Struct, frozen=True):
    """Everything that a view draws from."""

    scene: Scene
    state: TopState
    histories: Histories
    width: int
    height: int
    ascii_only: bool = False
    now: float = 0.0


class Page(Struct):
    """Lines from top to bottom; `hits` maps a line to ranges of columns and their click targets."""

    width: int
    lines: list[Text] = field(default_factory=list)
    hits: dict[int, list[tuple[int, int, Hit]]] = field(default_factory=dict)

    def add(self, text: Text, hit: Hit | None = None) -> None:
        if hit is not None:
            self.hits[len(self.lines)] = [(0, self.width, hit)]
        self.lines.append(text)

    def add_all(self, texts: Iterable[Text]) -> None:
        for text in texts:
            self.add(text)

    def mark(self, start: int, end: int, hit: Hit) -> None:
        """Marks a range of the next line as a click target."""
        self.hits.setdefault(len(self.lines), []).append((start, end, hit))

    def fill(self, height: int) -> None:
        """Fills or cuts the page to the height of the window."""
        del self.lines[height:]
        self.lines += [Text()] * (height - len(self.lines))

    def hit(self, x: int, y: int) -> Hit | None:
        found = self.hits.get(y, ())
        return next((hit for start, end, hit in found if start <= x < end), None)


def selected(text: Text, width: int) -> Text:
    """Returns the line highlighted over the whole width, as the one under the cursor."""
    return styled(text.fit(width).pad(width).plain, "reverse")


def plain_ascii(text: Text) -> Text:
    """Returns the same line in ASCII, as wide as before."""
    return Text(
        tuple(
            (without_unicode(part.replace("°C", "C ").translate(_ARROWS)), style)
            for part, style in text.spans
        )
    )


def scrolled(count: int, room: int, cursor: int) -> int:
    """Returns the first row to show; the cursor is in the middle if not all rows fit."""
    return max(0, min(cursor - room // 2, count - room))
