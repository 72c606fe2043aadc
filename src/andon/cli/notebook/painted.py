"""What a command or a value shows in a notebook: its tables as HTML tables of the same cells, the
rest as it is printed; or all of it as plain text."""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from msgspec import Struct

from andon.cli.show import table
from andon.cli.show.text import Text, without_commands

_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES = {
    "1": "bold", "2": "dim", "7": "reverse", "31": "red", "32": "green", "33": "yellow",
    "36": "cyan",
}  # fmt: skip
_LIGHT = {"red": "#b3261e", "green": "#1d6b38", "yellow": "#855300", "cyan": "#1d6f7a"}
_DARK = {"red": "#ff8a80", "green": "#7fd6a0", "yellow": "#ffc75f", "cyan": "#6fd3df"}
# The page may be dark by its own theme, whatever the system prefers: JupyterLab and VS Code say so.
_DARK_PAGES = ("[data-jp-theme-light=false]", ".vscode-dark", "html[theme=dark]")


def _style() -> str:
    rules = [
        ".andon{overflow-x:auto}.andon pre{line-height:1.35;margin:0;background:none}",
        ".andon table{border-collapse:collapse;margin:4px 0;font:inherit}",
        ".andon td,.andon th{font-family:monospace;padding:1px 16px 1px 0;border:0;text-align:left;"
        "white-space:pre;background:none;color:inherit}",
        ".andon th{font-weight:400;opacity:.65}.andon .right{text-align:right}",
        ".andon .bold{font-weight:600}.andon .dim{opacity:.65}",
        ".andon .reverse{outline:1px solid currentColor}",
    ]
    rules += [f".andon .{name}{{color:{value}}}" for name, value in _LIGHT.items()]
    dark = [f".andon .{name}{{color:{value}}}" for name, value in _DARK.items()]
    rules += [f"{page} {rule}" for page in _DARK_PAGES for rule in dark]
    plain = "body:not([data-jp-theme-light]):not(.vscode-light) "
    seen = "".join(plain + rule for rule in dark)
    return f"<style>{''.join(rules)}@media(prefers-color-scheme:dark){{{seen}}}</style>"


class _Drawn(Struct, frozen=True):
    """A table: its lines as they are printed, and its HTML."""

    lines: list[str]
    html: str


class Painted:
    """What a cell shows. All of it is escaped; nothing in it runs."""

    def __init__(self, paint: Callable[[], str] | str) -> None:
        """`paint` returns text with colours; the tables that it draws meanwhile are kept."""
        self._tables: list[_Drawn] = []
        if isinstance(paint, str):
            self._text = without_commands(paint)
            return
        table.on_drawn.append(self._keep)
        try:
            self._text = without_commands(paint())
        finally:
            table.on_drawn.remove(self._keep)

    def _keep(self, columns: Sequence[Any], rows: Sequence[Any], lines: list[Text]) -> None:
        printed = [line.plain.rstrip() for line in lines]
        self._tables.append(_Drawn(printed, _table(columns, rows)))

    def __repr__(self) -> str:
        return _SGR.sub("", self._text).rstrip("\n")

    def _repr_html_(self) -> str:
        return f'{_style()}<div class="andon">{"".join(self._parts())}</div>'

    def _parts(self) -> Iterator[str]:
        """Yields each table where its lines are, and the text between them."""
        lines, left = self._text.rstrip("\n").split("\n"), list(self._tables)
        plain, place, start = [_SGR.sub("", line).rstrip() for line in lines], 0, 0
        while place < len(lines):
            found = next((t for t in left if plain[place : place + len(t.lines)] == t.lines), None)
            if found is None:
                place += 1
                continue
            yield _pre(lines[start:place])
            yield found.html
            left.remove(found)
            place = start = place + len(found.lines)
        yield _pre(lines[start:])


def _pre(lines: Sequence[str]) -> str:
    # Odd places hold the codes between the texts.
    parts, shown, names = _SGR.split("\n".join(lines)), "", ""
    for place, part in enumerate(parts):
        if place % 2:
            names = " ".join(_CLASSES[code] for code in part.split(";") if code in _CLASSES)
        else:
            shown += _span(part, names)
    return f"<pre>{shown}</pre>" if lines else ""


def _span(text: str, names: str) -> str:
    return f'<span class="{names}">{escape(text)}</span>' if names else escape(text)


def _table(columns: Sequence[Any], rows: Sequence[Any]) -> str:
    sides = [' class="right"' if one.column.right else "" for one in columns]
    heads = zip(sides, (escape(one.column.title) for one in columns), strict=True)
    head = "".join(f"<th{side}>{title}</th>" for side, title in heads)
    body = "".join(_row(columns, sides, place, row) for place, row in enumerate(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(columns: Sequence[Any], sides: Sequence[str], place: int, row: Any) -> str:
    """A message takes the place of all columns that do not lead."""
    whole = row.message is None
    shown = [(s, c) for s, c in zip(sides, columns, strict=True) if whole or c.column.lead]
    cells = [f"<td{side}>{_cell(one.cells[place], row.style)}</td>" for side, one in shown]
    if not whole:
        rest = len(columns) - len(shown)
        cells.append(f'<td colspan="{max(1, rest)}">{_cell(row.message, row.style)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: Text, style: str | None) -> str:
    return "".join(_span(part, style or names) for part, names in text.spans)
