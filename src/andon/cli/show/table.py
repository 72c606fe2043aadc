"""Lays out rows in columns and decides which columns fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from andon.cli.show.text import Text, say

R = TypeVar("R")
GAP = 2


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[R]):
    """One column. Lower ranks are shown first; `elastic` ones take the space that is left."""

    title: str
    cell: Callable[[R], Text]
    rank: int = 0
    right: bool = False
    elastic: int = 0  # the minimum width of a column that may be cut
    lead: bool = False  # shown even where a row has a message instead of values
    gap: int = GAP
    floor: int = 0  # space for later values, where rows are printed one by one


@dataclass(frozen=True, slots=True)
class TableRow(Generic[R]):
    """One row; a message replaces every column that does not lead."""

    value: R
    message: Text | None = None
    style: str | None = None  # replaces the styles of all cells


def draw(columns: Sequence[TableColumn[R]], rows: Sequence[TableRow[R]], width: int) -> list[Text]:
    """A heading and one line per row, none wider than `width`."""
    columns = drawn_once(columns)
    chosen = choose(columns, rows, width)
    sizes = sizes_of(chosen, rows, width)
    return [heading(chosen, sizes, width), *(line(chosen, sizes, row, width) for row in rows)]


def drawn_once(columns: Sequence[TableColumn[R]]) -> list[TableColumn[R]]:
    """The same columns for one drawing of the same rows: each cell is needed when columns are
    chosen, sized and drawn, and is made once."""
    return [_drawn_once(column) for column in columns]


def _drawn_once(column: TableColumn[R]) -> TableColumn[R]:
    made: dict[int, Text] = {}

    def cell(value: R) -> Text:
        found = made.get(id(value))
        if found is None:
            found = made[id(value)] = column.cell(value)
        return found

    return replace(column, cell=cell)


def choose(
    columns: Sequence[TableColumn[R]], rows: Sequence[TableRow[R]], width: int
) -> list[TableColumn[R]]:
    """The columns that fit, chosen by rank, in their original order."""
    taken: list[TableColumn[R]] = []
    room = width + (columns[0].gap if columns else 0)  # the first column has no gap
    for column in sorted(columns, key=lambda c: c.rank):
        need = _least(column, rows) + column.gap
        if taken and need > room:
            break  # a less important column is not shown just because it is narrow
        taken.append(column)
        room -= need
    return [column for column in columns if column in taken]


def heading(columns: Sequence[TableColumn[R]], sizes: Sequence[int], width: int) -> Text:
    titles = [
        say(column.title, "dim").pad(size, column.right)
        for column, size in zip(columns, sizes, strict=True)
    ]
    return _abreast(columns, titles).fit(width)


def line(
    columns: Sequence[TableColumn[R]], sizes: Sequence[int], row: TableRow[R], width: int
) -> Text:
    shown = [
        (column, size)
        for column, size in zip(columns, sizes, strict=True)
        if row.message is None or column.lead
    ]
    cells = [column.cell(row.value).fit(size).pad(size, column.right) for column, size in shown]
    text = _abreast([column for column, _ in shown], cells)
    if row.message is not None:
        text = text + say(" " * GAP) + row.message
    return (text if row.style is None else text.restyled(row.style)).fit(width)


def natural(column: TableColumn[R], rows: Sequence[TableRow[R]]) -> int:
    """How wide the column is when nothing is cut."""
    cells = [column.cell(row.value).width for row in rows if row.message is None or column.lead]
    return max([len(column.title), column.floor, *cells])


def _least(column: TableColumn[R], rows: Sequence[TableRow[R]]) -> int:
    size = natural(column, rows)
    return min(size, max(column.elastic, len(column.title))) if column.elastic else size


def sizes_of(
    columns: Sequence[TableColumn[R]], rows: Sequence[TableRow[R]], width: int
) -> list[int]:
    """Elastic columns share the space that fixed ones leave, from the left."""
    sizes = [_least(column, rows) for column in columns]
    spare = width - sum(sizes) - sum(column.gap for column in columns[1:])
    for place, column in enumerate(columns):
        more = min(max(0, spare), natural(column, rows) - sizes[place])
        sizes[place] += more
        spare -= more
    return sizes


def _abreast(columns: Sequence[TableColumn[R]], cells: Sequence[Text]) -> Text:
    out = Text()
    for number, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        out = out + say(" " * (column.gap if number else 0)) + cell
    return out
