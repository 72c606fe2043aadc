"""Lays out rows in columns and decides which columns fit."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from andon.cli.show.text import Text, styled

R = TypeVar("R")
GAP = 2
GROWTH = 4


class TableColumn(Struct, Generic[R], frozen=True):
    """One column. Lower ranks are shown first; `elastic` ones take the space that is left."""

    title: str
    cell: Callable[[R], Text]
    rank: int = 0
    right: bool = False
    elastic: int = 0  # the minimum width of a column that may be cut
    lead: bool = False  # shown even where a row has a message instead of values
    gap: int = GAP
    floor: int = 0  # space for later values, where rows are printed one by one
    grown: Callable[[R, int], Text] | None = None  # draws the cell this many columns wider


class TableRow(Struct, Generic[R], frozen=True):
    """One row; a message replaces every column that does not lead."""

    value: R
    message: Text | None = None
    style: str | None = None  # replaces the styles of all cells


class _Measured(Generic[R]):
    """A column with the cells of all rows: each is made and measured once, because a live table
    is drawn every second."""

    __slots__ = ("cells", "column", "least", "natural", "widths")

    def __init__(self, column: TableColumn[R], rows: Sequence[TableRow[R]]) -> None:
        lead = column.lead
        self.column = column
        self.cells = [
            column.cell(row.value) if lead or row.message is None else _NOTHING for row in rows
        ]
        self.widths = [cell.width for cell in self.cells]
        self.natural = max([len(column.title), column.floor, *self.widths])
        elastic = max(column.elastic, len(column.title)) if column.elastic else self.natural
        self.least = min(self.natural, elastic)


_NOTHING = Text()
on_drawn: list[Callable[[Sequence[Any], Sequence[Any], list[Text]], None]] = []
"""Called with the measured columns, the rows and the lines of each table: a notebook shows the
same cells as HTML."""


def draw(
    columns: Sequence[TableColumn[R]],
    rows: Sequence[TableRow[R]],
    width: int,
    fills: bool = False,
) -> list[Text]:
    """A heading and one line per row, none wider than `width`. With `fills`, columns that can grow
    share what is left of it."""
    chosen = _chosen(columns, rows, width)
    sizes = _sizes(chosen, width)
    if fills:
        _grow(chosen, sizes, rows, width)
    lines = [_line(chosen, sizes, place, row, width) for place, row in enumerate(rows)]
    lines.insert(0, heading([one.column for one in chosen], sizes, width))
    for call in on_drawn:
        call(chosen, rows, lines)
    return lines


def _grow(
    columns: Sequence[_Measured[R]], sizes: list[int], rows: Sequence[TableRow[R]], width: int
) -> None:
    """In steps, so that a value with a digit more does not move every bar."""
    spare = width - sum(sizes) - sum(one.column.gap for one in columns[1:])
    growing = [place for place, one in enumerate(columns) if one.column.grown is not None]
    more = spare // len(growing) // GROWTH * GROWTH if growing else 0
    for place in growing if more > 0 else ():
        one, grown = columns[place], columns[place].column.grown
        assert grown is not None
        one.cells = [_NOTHING if row.message else grown(row.value, more) for row in rows]
        one.widths = [cell.width for cell in one.cells]
        sizes[place] += more


def choose(
    columns: Sequence[TableColumn[R]], rows: Sequence[TableRow[R]], width: int
) -> list[TableColumn[R]]:
    """The columns that fit, chosen by rank, in their original order."""
    return [one.column for one in _chosen(columns, rows, width)]


def _chosen(
    columns: Sequence[TableColumn[R]], rows: Sequence[TableRow[R]], width: int
) -> list[_Measured[R]]:
    """The most important first: those that do not fit need not be measured."""
    taken: dict[int, _Measured[R]] = {}
    room = width + (columns[0].gap if columns else 0)  # the first column has no gap
    for place in sorted(range(len(columns)), key=lambda place: columns[place].rank):
        one = _Measured(columns[place], rows)
        need = one.least + one.column.gap
        if taken and need > room:
            break  # a less important column is not shown just because it is narrow
        taken[place] = one
        room -= need
    return [taken[place] for place in sorted(taken)]


def heading(columns: Sequence[TableColumn[R]], sizes: Sequence[int], width: int) -> Text:
    titles = [
        styled(column.title, "dim").pad(size, column.right)
        for column, size in zip(columns, sizes, strict=True)
    ]
    out = Text()
    for number, (column, title) in enumerate(zip(columns, titles, strict=True)):
        out = out + styled(" " * (column.gap if number else 0)) + title
    return out.fit(width)


def line(
    columns: Sequence[TableColumn[R]], sizes: Sequence[int], row: TableRow[R], width: int
) -> Text:
    return _line([_Measured(column, [row]) for column in columns], sizes, 0, row, width)


def _line(
    columns: Sequence[_Measured[R]], sizes: Sequence[int], place: int, row: TableRow[R], width: int
) -> Text:
    spans: list[tuple[str, str]] = []
    first = True
    for one, size in zip(columns, sizes, strict=True):
        column = one.column
        if row.message is not None and not column.lead:
            continue
        cell, taken = one.cells[place], one.widths[place]
        if taken > size:
            cell = cell.fit(size)
            taken = cell.width
        before = (0 if first else column.gap) + (size - taken if column.right else 0)
        first = False
        spans += ((" " * before, ""),) if before else ()
        spans += cell.spans
        spans += ((" " * (size - taken), ""),) if size > taken and not column.right else ()
    text = Text(tuple(spans))
    if row.message is not None:
        text = text + styled(" " * GAP) + row.message
    return (text if row.style is None else text.restyled(row.style)).fit(width)


def sizes_of(
    columns: Sequence[TableColumn[R]], rows: Sequence[TableRow[R]], width: int
) -> list[int]:
    """Elastic columns share the space that fixed ones leave, from the left."""
    return _sizes([_Measured(column, rows) for column in columns], width)


def _sizes(columns: Sequence[_Measured[R]], width: int) -> list[int]:
    sizes = [one.least for one in columns]
    spare = width - sum(sizes) - sum(one.column.gap for one in columns[1:])
    for place, one in enumerate(columns):
        more = min(max(0, spare), one.natural - sizes[place])
        sizes[place] += more
        spare -= more
    return sizes
