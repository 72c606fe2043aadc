"""A document that every form can show: sections of facts, tables, sentences and charts."""

from collections.abc import Sequence

from msgspec import Struct


class Facts(Struct, frozen=True):
    """Names and their values."""

    rows: tuple[tuple[str, str], ...]


class Grid(Struct, frozen=True):
    """A table; its first columns are text, the others numbers. Where not all columns fit, those
    with the lowest ranks are shown; without ranks the first ones."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    ranks: tuple[int, ...] = ()


class Sentences(Struct, frozen=True):
    """Separate sentences; `quiet` ones explain the rest."""

    lines: tuple[str, ...]
    quiet: bool = False


class ChartLine(Struct, frozen=True):
    """One line of a chart; a gap where nothing was read."""

    label: str
    values: tuple[float | None, ...]


class ChartMark(Struct, frozen=True):
    """Something that happened at a time."""

    at: float
    label: str


class LineChart(Struct, frozen=True):
    """Lines over seconds since the beginning."""

    title: str
    unit: str
    at: tuple[float, ...]
    lines: tuple[ChartLine, ...]
    until: float
    low: float | None = 0.0
    high: float | None = None  # the largest value, where nothing limits it
    marks: tuple[ChartMark, ...] = ()


class BarChart(Struct, frozen=True):
    """One bar for each row, made of parts that are named once."""

    title: str
    unit: str
    parts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]


Block = Facts | Grid | Sentences | LineChart | BarChart


class Section(Struct, frozen=True):
    """A part of a document, with its heading."""

    title: str
    blocks: tuple[Block, ...]


class Document(Struct, frozen=True):
    """The content; `warning` must not be overlooked."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    warning: str | None = None


def section(title: str, *blocks: Block | None) -> Section | None:
    """Returns a section of the blocks that are not None; None if all are."""
    found = tuple(block for block in blocks if block is not None)
    return Section(title, found) if found else None


def sections(*found: Section | None) -> tuple[Section, ...]:
    return tuple(one for one in found if one is not None)


def facts(rows: Sequence[tuple[str, str | None]]) -> Facts | None:
    """Returns the facts that are known."""
    known = tuple((name, value) for name, value in rows if value)
    return Facts(known) if known else None


def sentences(lines: Sequence[str], quiet: bool = False) -> Sentences | None:
    return Sentences(tuple(lines), quiet) if lines else None
