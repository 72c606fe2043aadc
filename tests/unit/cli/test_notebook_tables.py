"""What a notebook shows: the tables of the commands as HTML, of the same cells as the text."""

import pytest

from andon.cli.notebook.extension import AndonMagics
from andon.cli.notebook.painted import Painted
from andon.cli.show import table
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import styled
from andon.errors import Invalid

COLUMNS: tuple[TableColumn[tuple[str, str]], ...] = (
    TableColumn("NAME", lambda row: styled(row[0], "bold red"), lead=True, elastic=4),
    TableColumn("USED", lambda row: styled(row[1]), right=True),
)


def shown() -> str:
    rows = [
        TableRow(("<script>x</script>", "1 GiB")),
        TableRow(("lost", "")),
        TableRow(("gone", ""), styled("does not answer & more")),
    ]
    lines = [styled("before <b>"), *draw(COLUMNS, rows, 22), styled("after")]
    return "".join(f"{line.paint(True)}\n" for line in lines)


def test_a_table_is_one_in_html_with_whole_and_escaped_cells() -> None:
    painted = Painted(shown)
    html = painted._repr_html_()
    assert html.count("<table>") == 1
    assert '<th>NAME</th><th class="right">USED</th>' in html
    assert '<td><span class="bold red">&lt;script&gt;x&lt;/script&gt;</span></td>' in html
    assert '<td class="right">1 GiB</td>' in html
    assert '<td colspan="1">does not answer &amp; more</td>' in html
    assert html.index("before &lt;b&gt;") < html.index("<table>") < html.index("after")
    assert "<script>" not in html
    assert "NAME" in repr(painted)  # the text has it as it is printed, cut to its width
    assert "…" in repr(painted)
    assert table.on_drawn == []


def test_text_without_tables_and_a_table_that_was_not_printed_stay_text() -> None:
    assert "<table>" not in Painted("GPU 0 · 1 s busy")._repr_html_()

    def unseen() -> str:
        draw(COLUMNS, [TableRow(("a", "b"))], 22)
        return "nothing\n"

    html = Painted(unseen)._repr_html_()
    assert "<table>" not in html
    assert "<pre>nothing</pre>" in html


def test_a_line_with_half_a_quotation_is_refused_as_one() -> None:
    magics = AndonMagics(None)
    for call in (lambda: magics.line("runs show 'x"), lambda: magics.cell("'x", "1")):
        with pytest.raises(Invalid, match="quotation mark is missing"):
            call()
