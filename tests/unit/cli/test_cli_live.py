"""The picture of `andon watch` on a terminal fits every window."""

from msgspec.structs import replace

from andon.cli.show.text import display_width
from andon.cli.show.watch import LiveTable
from tests.support import snapshots as golden
from tests.support.rows import rows
from tests.support.snapshots import office


@rows("width", [10, 20, 39, 79, 199])
@rows("height", [2, 3, 10, 60])
def test_no_line_is_too_wide_and_there_is_room_for_the_cursor(width: int, height: int) -> None:
    for snapshot in (office(), golden.farm(), golden.no_gpu(), golden.faults()):
        lines = LiveTable(color=False).frame(snapshot, width, height)
        assert len(lines) <= height - 1
        assert all(display_width(line) <= width for line in lines)


def test_the_heading_stands_once_and_every_device_below() -> None:
    lines = LiveTable(color=False).frame(office(), 120, 40)
    assert sum("MODEL" in line for line in lines) == 1
    assert sum(line.startswith(("●", "▲", "✕", "◌", "○")) for line in lines) == len(
        office().devices
    )
    assert "q or Ctrl-C ends" in lines[-1]


def test_a_low_window_says_how_many_are_left_out() -> None:
    many = replace(office(), devices=tuple(golden.h200(index) for index in range(64)))
    lines = LiveTable(color=False).frame(many, 80, 20)
    shown = sum(line.startswith("●") for line in lines)
    assert f"and {64 - shown} more: a taller window shows them" in lines


def test_a_trend_grows_with_the_samples() -> None:
    table = LiveTable(color=False)
    for _ in range(3):
        lines = table.frame(replace(office(), devices=(golden.h200(0, 9.0),)), 150, 40)
    assert any("▁▁▁" in line or "███" in line or "▂▂▂" in line for line in lines), lines
    assert "\x1b" not in "".join(lines), "NO_COLOR"
