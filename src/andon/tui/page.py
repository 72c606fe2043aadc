"""A page that is being drawn: its lines, and what a click on each of them means."""

from collections.abc import Iterable

from msgspec import Struct, field

from andon.cli.show.text import Text, say, without_unicode
from andon.tui.histories import Histories
from andon.tui.scene import Scene
from andon.tui.state import TopState

_ARROWS = str.maketrans({"↓": "v", "↑": "^", "▾": "v", "▴": "^"})


class Hit(Struct, frozen=True):
    """What a click means: a row of a table, a column to sort by, or a key."""

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
    """Lines from top to bottom; `hits` maps a line to stretches of columns and their meaning."""

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
        """A stretch of the next line."""
        self.hits.setdefault(len(self.lines), []).append((start, end, hit))

    def fill(self, height: int) -> None:
        """As tall as the window, and no taller."""
        del self.lines[height:]
        self.lines += [Text()] * (height - len(self.lines))

    def hit(self, x: int, y: int) -> Hit | None:
        found = self.hits.get(y, ())
        return next((hit for start, end, hit in found if start <= x < end), None)


def selected(text: Text, width: int) -> Text:
    """The line under the cursor, over the whole width."""
    return say(text.fit(width).pad(width).plain, "reverse")


def plain_ascii(text: Text) -> Text:
    """The same line in ASCII, as wide as before."""
    return Text(
        tuple(
            (without_unicode(part.replace("°C", "C ").translate(_ARROWS)), style)
            for part, style in text.spans
        )
    )


def scrolled(count: int, room: int, cursor: int) -> int:
    """The first row to show, so that the cursor is in the middle where there is more than fits."""
    return max(0, min(cursor - room // 2, count - room))
