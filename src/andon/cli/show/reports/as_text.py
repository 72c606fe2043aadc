"""A document for a terminal; charts become sparklines."""

from itertools import pairwise

from andon.cli.show.render import paragraph
from andon.cli.show.reports.document import (
    BarChart,
    Block,
    Document,
    Facts,
    Grid,
    LineChart,
    Sentences,
)
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, display_width, styled, with_mark
from andon.history.rules.sparkline import sparkline

MOST_SPARKS = 60


def document_text(document: Document, width: int) -> list[Text]:
    lines = [styled(document.title, "bold").fit(width), styled(document.subtitle, "dim").fit(width)]
    lines = with_mark(lines, document.warning or "", width)
    for section in document.sections:
        lines += [Text(), styled(section.title, "bold")]
        for block in section.blocks:
            lines += _block(block, width)
    return lines


def _block(block: Block, width: int) -> list[Text]:
    match block:
        case Facts():
            return _facts(block, width)
        case Grid():
            return _grid(block, width)
        case Sentences():
            style = "dim" if block.quiet else ""
            mark = "" if block.quiet else "- "
            return [t for line in block.lines for t in paragraph(mark + line, width, style)]
        case LineChart():
            return _sparks(block, width)
        case BarChart():
            return []  # its table has the same values


def _facts(block: Facts, width: int) -> list[Text]:
    room = max(display_width(name) for name, _ in block.rows)
    out = []
    for name, value in block.rows:
        first, *rest = paragraph(value, width - room - 2, indent=0) or [Text()]
        out.append(styled(name, "dim").pad(room + 2) + first)
        out += [styled(" " * (room + 2)) + line for line in rest]
    return out


def _grid(block: Grid, width: int) -> list[Text]:
    columns = [_column(block, place) for place in range(len(block.columns))]
    return draw(columns, [TableRow(row) for row in block.rows], width)


def _column(block: Grid, place: int) -> TableColumn[tuple[str, ...]]:
    is_text = place < block.text_columns
    return TableColumn(
        block.columns[place].upper(),
        lambda row: styled(row[place]),
        rank=block.ranks[place] if block.ranks else place,
        right=not is_text,
        elastic=8 if is_text else 0,
    )


def _sparks(block: LineChart, width: int) -> list[Text]:
    """Returns one line for each device: as many blocks as fit, each the mean of its span."""
    head = styled(", ".join(filter(None, (block.title, block.unit))), "dim")
    room = max((display_width(line.label) for line in block.lines), default=0)
    count = max(1, min(MOST_SPARKS, width - room - 4))
    return [
        head,
        *(
            styled(line.label).pad(room + 2)
            + styled(sparkline(thinned(line.values, count), block.low, block.high))
            for line in block.lines
        ),
    ]


def thinned(values: tuple[float | None, ...], count: int) -> list[float | None]:
    """At most `count` values, each the mean of its span."""
    if len(values) <= count:
        return list(values)
    edges = [place * len(values) // count for place in range(count + 1)]
    return [_mean(values[begin:end]) for begin, end in pairwise(edges)]


def _mean(values: tuple[float | None, ...]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
