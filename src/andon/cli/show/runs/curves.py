"""The curves of logged values as rows: a sparkline, the last value, the lowest and the highest."""

from collections.abc import Iterator, Mapping, Sequence

from andon.cli.show.runs.cells import number
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, styled
from andon.history.rules.sparkline import sparkline
from andon.model.run.record import RunCurve, RunExtreme
from andon.units import and_more, counted

MOST_CURVES, BLOCKS = 20, 24
_Named = tuple[str, RunCurve]


def curve_rows(
    curves: Mapping[str, RunCurve], width: int, most: int = MOST_CURVES
) -> Iterator[Text]:
    """Yields an empty line, and a row for each curve."""
    if not curves:
        return
    yield Text()
    yield from draw(_COLUMNS, [TableRow(one) for one in list(curves.items())[:most]], width)
    if len(curves) > most:
        yield styled(and_more(len(curves) - most).strip(), "dim")


def blocks(curve: RunCurve, most: int = BLOCKS) -> str:
    """Returns the last value in each of so many parts of the curve; a gap where there is none."""
    count = min(most, len(curve.last))
    ends = [(place + 1) * len(curve.last) // count - 1 for place in range(count)]
    return sparkline([curve.last[end] for end in ends], None, None)


def _last(one: _Named) -> Text:
    known = [value for value in one[1].last if value is not None]
    return styled(number(known[-1]) if known else UNKNOWN)


def _extreme(name: str) -> "TableColumn[_Named]":
    def cell(one: _Named) -> Text:
        found: RunExtreme | None = getattr(one[1], name)
        return styled(extreme_text(found))

    return TableColumn(name.upper(), cell, rank=2, right=True)


def extreme_text(found: RunExtreme | None) -> str:
    """Returns `0.2033 at 281`: the value and its step."""
    if found is None:
        return UNKNOWN
    return number(found.value) + ("" if found.step is None else f" at {found.step:.15g}")


def remarks_text(curve: RunCurve) -> str:
    """Says what a curve does not show: values that are no numbers, and steps that went back."""
    gaps = [f"{counted(sum(curve.gaps), 'value')} no number"] if curve.gaps else []
    times = counted(len(curve.restarts), "time")
    return ", ".join([*gaps, *([f"steps went back {times}"] if curve.restarts else [])])


_COLUMNS: Sequence[TableColumn[_Named]] = (
    TableColumn("VALUE", lambda one: styled(one[0]), lead=True, elastic=8),
    TableColumn("CURVE", lambda one: styled(blocks(one[1]))),
    TableColumn("LAST", _last, right=True),
    _extreme("lowest"),
    _extreme("highest"),
    TableColumn("", lambda one: styled(remarks_text(one[1]), "yellow"), rank=3),
)
