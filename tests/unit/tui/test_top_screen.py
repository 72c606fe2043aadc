"""The screen of top at every size: it fits, it says what matters, and each view has a picture."""

import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from andon.cli.show.text import Text, display_width, styled
from andon.model.device import Snapshot
from andon.tui.keys import KEYS
from andon.tui.page import selected
from andon.tui.scene import Scene
from andon.tui.screen import compose
from andon.tui.state import Focus, ProcessChoice, Prompt, PromptKind, ShownNotice, TopView
from tests.conftest import REPOSITORY
from tests.support import snapshots as golden
from tests.support.snapshots import assert_golden, office
from tests.support.top_scenes import frame_of, page_of, text_of


def many() -> Snapshot:
    return replace(office(), devices=tuple(golden.h200(index) for index in range(64)))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


SIZES = [(20, 5), (40, 8), (80, 24), (120, 40), (300, 80)]


@pytest.mark.slow
@pytest.mark.parametrize("view", list(TopView))
def test_every_view_fits_every_window(view: TopView) -> None:
    wrong: list[object] = []
    for snapshot in (office(), golden.farm(), golden.no_gpu(), golden.faults(), many()):
        for width, height in SIZES:
            for ascii_only in (False, True):
                page = page_of(snapshot, width, height, view=view, ascii_only=ascii_only)
                wide = [x for x in page.lines if display_width(x.plain) > width]
                if len(page.lines) != height or wide:
                    wrong.append((snapshot.node, width, height, ascii_only, wide[:1]))
                if ascii_only and not text_of(page).isascii():
                    wrong.append((snapshot.node, width, height, "not ASCII"))
    assert not wrong


def test_before_the_first_reading_there_is_a_screen() -> None:
    frame = replace(frame_of(office()), scene=Scene())
    for view in TopView:
        shown = text_of(compose(replace(frame, state=replace(frame.state, view=view))))
        assert "reading the devices" in shown


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60)])
def test_the_first_view_has_its_picture(width: int, height: int) -> None:
    assert_golden(f"top-{width}x{height}.txt", text_of(page_of(office(), width, height)))


@pytest.mark.parametrize(
    "view",
    [v for v in TopView if v not in (TopView.DEVICES, TopView.JOBS, TopView.RUNS, TopView.PROCESS)],
)
def test_each_view_has_its_picture(view: TopView) -> None:
    assert_golden(f"top-{view}.txt", text_of(page_of(office(), 100, 30, view=view)))


def test_in_ascii_the_picture_is_the_same_in_other_signs() -> None:
    page = page_of(office(), 80, 24, ascii_only=True)
    assert_golden("top-ascii.txt", text_of(page))


def test_the_help_has_every_key_of_the_table() -> None:
    shown = text_of(page_of(office(), 120, 60, help=True, replayed=True))
    missing = [binding.help for binding in KEYS if binding.help[:40] not in shown]
    assert not missing
    assert_golden("top-help.txt", shown)


def test_without_the_key_that_ends_processes_no_text_offers_it() -> None:
    for state in ({}, {"help": True}, {"view": TopView.PROCESSES}):
        assert "end this" not in text_of(page_of(office(), 120, 60, can_end=False, **state))
        assert " end " not in text_of(page_of(office(), 120, 60, can_end=False, **state))


def test_what_is_typed_a_notice_and_a_copied_text_take_the_last_line() -> None:
    prompt = Prompt(PromptKind.FILTER, "tra", "")
    assert "filter: tra" in page_of(office(), prompt=prompt).lines[-1].plain
    notice = ShownNotice("the server is gone", office().at + 1)
    assert page_of(office(), notice=notice).lines[-1].plain == "the server is gone"
    old = replace(notice, until=office().at - 1)
    assert "quit" in page_of(office(), notice=old).lines[-1].plain
    assert "copied: GPU-1" in page_of(office(), copied="GPU-1").lines[-1].plain


def test_the_selected_row_is_reversed_in_the_table_that_has_the_cursor() -> None:
    devices = page_of(office(), focus=Focus.DEVICES)
    reversed_rows = [x for x in devices.lines[2:-1] if any("reverse" in s for _, s in x.spans)]
    assert len(reversed_rows) == 1
    assert reversed_rows[0].width == 120


@pytest.mark.parametrize("name", ["train", "训练训练", "train " * 10])
def test_the_selected_row_is_as_wide_as_the_screen_and_reversed(name: str) -> None:
    row = selected(styled(name, "red"), 20)
    assert row.width == 20
    assert [style for _, style in row.spans] == ["reverse"]


def test_a_click_hits_what_it_looks_like() -> None:
    page = page_of(office())
    kinds = {hit.kind for hits in page.hits.values() for _, _, hit in hits}
    assert kinds == {"action", "device", "process"}
    y = next(i for i, line in enumerate(page.lines) if "GPU MEM" in line.plain)
    x = page.lines[y].plain.index("PID")
    found = page.hit(x, y)
    assert found is not None
    assert found.value == "sort:pid"
    assert page.hit(119, 39) is None


@pytest.mark.parametrize("choice", [ProcessChoice(sort="device"), ProcessChoice(text="训练训练")])
def test_the_heading_of_the_processes_is_above_their_columns(choice: ProcessChoice) -> None:
    usual = heading_of(ProcessChoice())
    found = heading_of(choice)
    assert found.width == usual.width == 120
    assert found.plain.index("PID") == usual.plain.index("PID")


def heading_of(choice: ProcessChoice) -> Text:
    page = page_of(office(), view=TopView.PROCESSES, processes=choice)
    return next(line for line in page.lines if "GPU MEM" in line.plain)


def test_filters_narrow_the_processes_down_and_say_so() -> None:
    rows = [p for s in office().devices for p in s.processes]
    user = next(p.user for p in rows if p.user)
    page = text_of(page_of(office(), view=TopView.PROCESSES, processes=ProcessChoice(user=user)))
    heading = next(line for line in page.splitlines() if "COMMAND" in line)
    assert f"of {user}" in heading
    empty = ProcessChoice(text="no such process")
    assert "no process matches" in text_of(page_of(office(), processes=empty))


def test_sixty_four_devices_say_which_ones_are_shown() -> None:
    uuid = many().devices[40].device.uuid
    shown = text_of(page_of(many(), 120, 40, device=uuid))
    assert " of 64" in shown
    assert any(line.split()[1:2] == ["40"] for line in shown.splitlines())


def test_bars_use_the_width_that_is_left() -> None:
    def bars(width: int) -> int:
        lines = text_of(page_of(office(), width, 40)).splitlines()
        return max(sum(line.count(sign) for sign in "━╸─") for line in lines)

    assert bars(120) < bars(200) < bars(300)


def test_the_page_about_top_has_its_picture_and_its_views() -> None:
    page = (REPOSITORY / "docs" / "top.md").read_text(encoding="utf-8")
    assert (golden.GOLDEN / "top-80x24.txt").read_text(encoding="utf-8") in page
    named = [b for b in KEYS if b.view is not None]
    missing = [b.view for b in named if f"| `{b.keys[0]}` `{b.keys[1]}` | {b.view} |" not in page]
    assert not missing
