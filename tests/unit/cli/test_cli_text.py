"""Text on a screen: how wide it is, how it is cut, and what it cannot do to the terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.cli.main import run
from andon.cli.show.findings import render_findings
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import (
    Text,
    display_width,
    harmless,
    painted,
    styled,
    with_mark,
    without_unicode,
)
from andon.doctor.rules.findings import Check, failure, ok, unknown
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode


@pytest.mark.parametrize(
    ("words", "width"),
    [("python", 6), ("训练", 4), ("🚀", 2), ("e\u0301", 1), ("│x", 2), ("", 0), ("ｶﾅ", 2)],
)
def test_width_is_counted_in_cells(words: str, width: int) -> None:
    assert display_width(words) == width


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_a_cut_text_is_never_wider_than_asked(words: str, width: int) -> None:
    assert styled(words).fit(width).width <= width


@given(st.text(max_size=20), st.integers(min_value=0, max_value=30), st.booleans())
def test_a_cut_and_padded_cell_has_exactly_its_width(words: str, width: int, right: bool) -> None:
    assert styled(words).fit(width).pad(width, right).width == width


def test_what_is_cut_ends_in_an_ellipsis() -> None:
    assert styled("carolina").fit(5).plain == "caro…"
    assert (styled("ab", "red") + styled("cdef")).fit(4).plain == "abc…"
    assert (styled("ab") + styled("cd")).fit(4).plain == "abcd"


@given(st.text())
def test_no_process_name_can_move_the_cursor(words: str) -> None:
    shown = harmless(words)
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert "\u202e" not in shown


def test_an_escape_sequence_stays_visible_as_a_replacement() -> None:
    assert harmless("\x1b[2Jboo\u202e") == "�[2Jboo�"


def test_colour_is_left_out_where_it_is_not_wanted() -> None:
    text = styled("hot", "bold red") + styled(" ok")
    assert text.paint(color=False) == "hot ok"
    assert text.paint(color=True) == "\x1b[1;31mhot\x1b[0m ok"


def test_a_line_ends_without_spaces() -> None:
    assert styled("x").pad(9).paint(color=False) == "x"
    assert styled("x").pad(9).paint(color=True) == "x"


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert without_unicode("● 71 °C ━━╸─ – 训…") == "* 71 C ###- - ??~"


@pytest.mark.parametrize("color", [False, True])
def test_columns_stay_where_they_are_in_ascii(color: bool) -> None:
    cells = (
        (styled("71 °C", "red"), styled("训 e\N{COMBINING ACUTE ACCENT}")),
        (styled("–"), styled("train")),
    )
    columns: list[TableColumn[int]] = [
        TableColumn("TEMP", lambda row: cells[row][0], right=True),
        TableColumn("NAME", lambda row: cells[row][1], elastic=8),
        TableColumn("LAST", lambda row: styled("x")),
    ]
    lines = [line.paint(color) for line in draw(columns, [TableRow(0), TableRow(1)], 80)]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", without_unicode(line)) for line in lines]
    assert plain == [" TEMP  NAME   LAST", " 71 C  ?? e   x", "    -  train  x"]
    assert without_unicode("91 °C (slowdown 89 °C)") == "91 C (slowdown 89 C)"


def _columns() -> list[TableColumn[str]]:
    return [
        TableColumn("NAME", lambda word: styled(word), elastic=5, lead=True),
        TableColumn("SIZE", lambda word: styled(str(len(word))), rank=1, right=True),
        TableColumn("LATER", lambda word: styled("x" * 20), rank=2),
    ]


def test_columns_appear_by_rank_as_there_is_room() -> None:
    rows = [TableRow("训练🚀"), TableRow("b")]
    assert [line.plain.rstrip() for line in draw(_columns(), rows, 14)] == [
        "NAME    SIZE",
        "训练🚀     3",
        "b          1",
    ]
    assert "LATER" in draw(_columns(), rows, 40)[0].plain


def test_a_message_takes_the_place_of_the_values() -> None:
    lines = draw(_columns(), [TableRow("a", message=styled("lost", "red"))], 40)
    assert lines[1].plain == "a     lost"


def test_no_line_of_a_table_is_wider_than_the_screen() -> None:
    rows = [TableRow("名" * 40), TableRow("b" * 90, message=styled("why " * 30))]
    for width in range(4, 120):
        assert all(line.width <= width for line in draw(_columns(), rows, width))


def test_empty_text_is_nothing() -> None:
    assert styled("") == Text()


@pytest.mark.parametrize("width", [20, 26, 32, 33, 60])
def test_findings_break_between_words_on_a_narrow_screen(width: int) -> None:
    words = "the driver library is not installed for this Python"
    findings = [
        failure(Check.NO_DEVICE, words, "sudo apt install driver && sudo reboot now"),
        *(ok(Check.KERNEL, "fine") for _ in range(12)),
        unknown(Check.CLOCK, "nobody knows"),
    ]
    lines = painted(render_findings(findings, styled("node"), width)).splitlines()
    assert all(display_width(line) <= width for line in lines)
    told = " ".join(" ".join(lines).split())
    assert words in told
    assert "fix: sudo apt install driver && sudo reboot now" in told


@pytest.mark.parametrize("width", [12, 20, 80])
def test_a_mark_stands_in_the_first_line_and_is_never_cut(width: int) -> None:
    lines = [
        text.plain for text in with_mark([styled("1 of 8 free: GPU 5"), styled("x")], "SIM", width)
    ]
    assert lines[0].endswith("  SIM")
    assert display_width(lines[0]) <= width
    assert (lines[1:], with_mark([styled("x")], "", width)) == (["x"], [styled("x")])


@pytest.mark.parametrize("words", [["free"], ["ps"], ["who"], ["devices", "--topology"]])
def test_no_line_of_an_output_is_just_a_mark(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(words, FakeNode(golden.simulated()))
    lines = capsys.readouterr().out.splitlines()
    assert "SIMULATED" in lines[0]
    assert "SIMULATED" not in [line.strip() for line in lines]
