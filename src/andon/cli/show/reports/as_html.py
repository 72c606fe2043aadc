"""A document as one HTML file: no script, nothing from elsewhere, light and dark, printable."""

from collections.abc import Iterable

from andon.cli.show.reports.charts import bar_chart, line_chart, text_of
from andon.cli.show.reports.document import (
    BarChart,
    Block,
    Document,
    Facts,
    Grid,
    LineChart,
    Section,
    Sentences,
)

LIGHT = (
    "--ground:#f4f3ee;--panel:#fdfcf9;--ink:#17191b;--dim:#5a6067;--line:#dedbd2;--warn:#855300;"
    "--c0:#2b5fb4;--c1:#b3541e;--c2:#3d7a52;--c3:#7a4fa3;--c4:#a8326b;--c5:#1d7a86;--c6:#7d6a12;"
    "--c7:#5a6067"
)
DARK = (
    "--ground:#0f1113;--panel:#171a1d;--ink:#ecebe6;--dim:#9ba2a9;--line:#292e33;--warn:#ffc75f;"
    "--c0:#7fb0ff;--c1:#ff9d66;--c2:#7fd6a0;--c3:#c79bf0;--c4:#ff8fbf;--c5:#6fd3df;--c6:#d9c35a;"
    "--c7:#b4bac0"
)
COLOURS = "".join(
    f"path.c{n}{{stroke:var(--c{n})}}i.c{n}{{background:var(--c{n})}}rect.f{n}{{fill:var(--c{n})}}"
    for n in range(8)
)
STYLE = f"""
:root{{{LIGHT};color-scheme:light dark}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
@media print{{:root{{{LIGHT};--ground:#fff;--panel:#fff}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 Inter,system-ui,"Segoe UI",
"Helvetica Neue","Noto Sans","Liberation Sans",sans-serif}}
main{{max-width:1180px;margin:0 auto;padding:32px 24px 48px}}
h1{{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}}
h2{{font-size:17px;margin:0 0 12px}}
.subtitle{{color:var(--dim);margin:4px 0 20px}}
.warning{{display:inline-block;border:1px solid var(--warn);color:var(--warn);font-weight:600;
padding:2px 10px;border-radius:4px;margin:0 0 12px}}
section{{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:18px 20px;
margin:0 0 16px}}
dl{{columns:2 420px;column-gap:32px;margin:0}}
dl div{{display:grid;grid-template-columns:124px 1fr;gap:16px;padding:2px 0;break-inside:avoid}}
dt{{color:var(--dim)}} dd{{margin:0;overflow-wrap:anywhere}}
.scroll{{overflow-x:auto}} .scroll+*,dl+*,ul+*{{margin-top:14px}}
table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}
th{{text-align:left;font-weight:500;color:var(--dim);font-size:13px;white-space:nowrap}}
th,td{{padding:5px 14px 5px 0;border-bottom:1px solid var(--line)}}
tr:last-child td{{border-bottom:0}}
.n{{text-align:right;white-space:nowrap;padding:5px 0 5px 14px}}
ul{{margin:0;padding-left:20px}} li{{margin:0 0 6px}} li:last-child{{margin:0}}
.quiet{{color:var(--dim);font-size:13px;margin:10px 0 0}}
.charts{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));
gap:20px 28px}}
figure{{margin:0;min-width:0;max-width:680px}} .charts+*{{margin-top:20px}}
figcaption{{font-weight:500;margin:0 0 4px}}
small{{color:var(--dim);font-weight:400}}
svg{{display:block;width:100%;height:auto;overflow:visible}}
svg text{{fill:var(--dim);font-size:11px}}
.rule{{stroke:var(--line)}} .tick{{stroke:var(--dim)}}
.mark{{stroke:var(--dim);stroke-dasharray:2 3;opacity:.7}}
path{{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}}
.legend{{margin:4px 0 0;font-size:13px;color:var(--dim);display:flex;flex-wrap:wrap;gap:2px 16px}}
.legend i{{display:inline-block;width:12px;height:3px;border-radius:2px;margin:0 6px 3px 0}}
footer{{color:var(--dim);font-size:13px}}
{COLOURS}
@media print{{body{{font-size:11pt}}main{{max-width:none;padding:0}}section,figure,tr
{{break-inside:avoid}}section{{padding:12px 0;border:0;border-top:1px solid var(--line);
border-radius:0}}.scroll{{overflow:visible}}.charts{{grid-template-columns:1fr 1fr}}}}
"""


def document_html(document: Document, foot: str) -> str:
    """A whole page. All text is escaped: names and commands come from anyone."""
    warning = f'<p class="warning">{text_of(document.warning)}</p>' if document.warning else ""
    body = "".join(_section(section) for section in document.sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing is loaded and nothing runs, whatever a name in the record tries.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none';style-src 'unsafe-inline'\">"
        f"<title>{text_of(document.title)}</title><style>{STYLE}</style></head><body><main>"
        f"{warning}<h1>{text_of(document.title)}</h1>"
        f'<p class="subtitle">{text_of(document.subtitle)}</p>{body}'
        f"<footer>{text_of(foot)}</footer></main></body></html>\n"
    )


def _section(section: Section) -> str:
    charts = [block for block in section.blocks if isinstance(block, LineChart | BarChart)]
    others = (_block(block) for block in section.blocks if block not in charts)
    drawn = f'<div class="charts">{"".join(map(_block, charts))}</div>' if charts else ""
    return f"<section><h2>{text_of(section.title)}</h2>{drawn}{''.join(others)}</section>"


def _block(block: Block) -> str:
    match block:
        case Facts():
            return f"<dl>{''.join(_fact(name, value) for name, value in block.rows)}</dl>"
        case Grid():
            return _grid(block)
        case Sentences():
            return _sentences(block)
        case LineChart():
            return line_chart(block)
        case BarChart():
            return bar_chart(block)


def _fact(name: str, value: str) -> str:
    return f"<div><dt>{text_of(name)}</dt><dd>{text_of(value)}</dd></div>"


def _sentences(block: Sentences) -> str:
    if block.quiet:
        return "".join(f'<p class="quiet">{text_of(line)}</p>' for line in block.lines)
    return f"<ul>{''.join(f'<li>{text_of(line)}</li>' for line in block.lines)}</ul>"


def _grid(block: Grid) -> str:
    head = _row("th", block.columns, block.text_columns)
    rows = "".join(_row("td", row, block.text_columns) for row in block.rows)
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _row(tag: str, cells: Iterable[str], text_columns: int) -> str:
    number = ' class="n"'
    drawn = (
        f"<{tag}{number if place >= text_columns else ''}>{text_of(cell)}</{tag}>"
        for place, cell in enumerate(cells)
    )
    return f"<tr>{''.join(drawn)}</tr>"
