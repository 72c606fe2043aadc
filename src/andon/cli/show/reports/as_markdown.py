"""A document as Markdown, for a ticket, a wiki or a pull request."""

import re

from andon.cli.show.reports.as_text import thinned
from andon.cli.show.reports.document import (
    BarChart,
    Block,
    Document,
    Facts,
    Grid,
    LineChart,
    Sentences,
)
from andon.cli.show.text import harmless
from andon.history.rules.sparkline import sparkline

SPARKS = 60
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~])")
_HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
"""Not every Markdown knows a backslash in front of these."""
_IN_CODE = {ord("<"): "‹", ord(">"): "›"}
_SPECIAL_BEGIN = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=])")


def document_markdown(document: Document) -> str:
    parts = [f"# {escaped(document.title)}", escaped(document.subtitle)]
    if document.warning:
        parts.insert(1, f"**{escaped(document.warning)}**")
    for section in document.sections:
        parts.append(f"## {escaped(section.title)}")
        parts += [text for block in section.blocks if (text := _block(block))]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Escapes text: a run's name must not become a link, a heading or HTML."""
    plain = _SPECIAL.sub(r"\\\1", harmless(text)).translate(_HTML)
    return _SPECIAL_BEGIN.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", plain)


def _block(block: Block) -> str:
    match block:
        case Facts():
            return _table(("", ""), block.rows, 2)
        case Grid():
            return _table(block.columns, block.rows, block.text_columns)
        case Sentences():
            mark = "" if block.quiet else "- "
            between = "\n\n" if block.quiet else "\n"
            return between.join(mark + escaped(line) for line in block.lines)
        case LineChart():
            return _sparks(block)
        case BarChart():
            return ""  # its table has the same values


def _table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], text_columns: int) -> str:
    rule = ["---" if place < text_columns else "--:" for place in range(len(columns))]
    lines = [[escaped(name) for name in columns], rule, *([escaped(c) for c in r] for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sparks(block: LineChart) -> str:
    room = max((len(line.label) for line in block.lines), default=0)
    drawn = (
        f"{harmless(line.label).translate(_IN_CODE).ljust(room)}  "
        f"{sparkline(thinned(line.values, SPARKS), block.low, block.high)}"
        for line in block.lines
    )
    # An indented block cannot be closed by what it shows.
    body = "\n".join(f"    {line}" for line in drawn)
    return f"{escaped(block.title)}, {escaped(block.unit)}:\n\n{body}"
