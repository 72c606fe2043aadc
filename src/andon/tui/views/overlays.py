"""What is drawn over a view: the help, the menu of columns, the dialog about a process."""

from collections.abc import Sequence

from andon.cli.show.text import Text, styled
from andon.tui.keys import help_groups
from andon.tui.page import Frame, Hit, Page
from andon.tui.views.processes import COLUMN_NAMES, COLUMNS

MENU_HELP = "Space shows or hides, Esc closes"


def help_lines(frame: Frame) -> list[Text]:
    """Returns every key, in as many columns as fit; generated from the table of keys."""
    blocks: list[list[Text]] = []
    for group, rows in help_groups(frame.state).items():
        widest = max(len(keys) for keys, _ in rows)
        lines = [styled(group, "bold")]
        lines += [styled(f"  {keys.ljust(widest)}  ", "dim") + styled(text) for keys, text in rows]
        blocks.append(lines)
    if frame.width < 120:
        return [line for block in blocks for line in [*block, Text()]]
    half = frame.width // 2
    left, right = _balanced(blocks)
    rows_needed = max(len(left), len(right))
    left += [Text()] * (rows_needed - len(left))
    right += [Text()] * (rows_needed - len(right))
    return [a.fit(half - 2).pad(half) + b for a, b in zip(left, right, strict=True)]


def _balanced(blocks: Sequence[list[Text]]) -> tuple[list[Text], list[Text]]:
    left: list[Text] = []
    right: list[Text] = []
    for block in blocks:
        shorter = left if len(left) <= len(right) else right
        shorter += [*block, Text()]
    return left, right


def help_page(page: Page, frame: Frame, room: int) -> None:
    lines = help_lines(frame)
    first = max(0, min(frame.state.rows.get("help", 0), len(lines) - room))
    page.add_all(line.fit(frame.width) for line in lines[first : first + room])


def column_menu(page: Page, frame: Frame) -> None:
    """Draws every column over the bottom of the view, with a mark if it is shown."""
    state = frame.state
    lines = [styled(f" columns  ({MENU_HELP})".ljust(frame.width), "bold reverse")]
    for place, name in enumerate(COLUMN_NAMES):
        shown = name not in state.processes.hidden
        text = styled(f" [{'x' if shown else ' '}] {COLUMNS[name]}")
        lines.append(
            styled(text.plain.ljust(frame.width), "reverse") if place == state.menu else text
        )
    start = over(page, lines)
    for place in range(len(COLUMN_NAMES)):
        page.hits[start + 1 + place] = [(0, frame.width, Hit("column", place))]


def over(page: Page, lines: Sequence[Text]) -> int:
    """Puts lines over the bottom of a page, above its last line; returns where they begin."""
    room = len(page.lines) - 2
    shown = list(lines)[: max(0, room)]
    start = len(page.lines) - 1 - len(shown)
    page.lines[start : start + len(shown)] = shown
    for row in range(start, start + len(shown)):
        page.hits.pop(row, None)
    return start
