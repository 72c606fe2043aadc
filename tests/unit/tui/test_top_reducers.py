"""What each key of top does, as a function of the state before and the scene."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.tui.keys import KEYS, action_of, key_name
from andon.tui.page import Frame
from andon.tui.reducers import ACTIONS, act, clicked, in_help, in_menu, settled, typed
from andon.tui.scene import SORT_NAMES, process_entries
from andon.tui.state import INTERVALS, SPANS, EffectKind, Focus, ProcessChoice, TopState, TopView
from andon.tui.views.processes import COLUMN_NAMES
from tests.support.snapshots import office
from tests.support.top_scenes import frame_of


def after(frame: Frame, *actions: str) -> TopState:
    for action in actions:
        frame = replace(frame, state=act(frame, action)[0])
    return frame.state


def frame(**state: Any) -> Frame:
    return frame_of(office(), **state)


def test_every_key_has_an_action_and_every_action_a_key() -> None:
    named = {binding.action.partition(":")[0] for binding in KEYS}
    assert named - {"view", "sort"} == ACTIONS
    views = {TopView(b.action.partition(":")[2]) for b in KEYS if b.action.startswith("view:")}
    assert views == set(TopView) - {TopView.DEVICE, TopView.PROCESS}
    sorts = {b.action.partition(":")[2] for b in KEYS if b.action.startswith("sort:")}
    assert sorts <= set(SORT_NAMES)


def test_no_key_means_two_things_in_one_view() -> None:
    doubled = []
    for view in TopView:
        seen: dict[str, str] = {}
        for binding in KEYS:
            if binding.views is None or view in binding.views:
                for key in binding.keys:
                    if key in seen:
                        doubled.append((view, key, seen[key], binding.action))
                    seen[key] = binding.action
    assert not doubled


def test_every_action_works_in_every_view() -> None:
    wrong = []
    for view in TopView:
        for binding in KEYS:
            try:
                act(frame(view=view), binding.action)
            except Exception as error:  # noqa: BLE001 - all failing rows are named at once
                wrong.append((view, binding.action, error))
    assert not wrong


def test_keys_are_named_as_they_are_printed() -> None:
    table = {"ctrl+z": "Ctrl-Z", "f10": "F10", "slash": "/", "pageup": "PgUp", "q": "q", "F": "F"}
    assert {key: key_name(key) for key in table} == table


def test_a_capital_letter_is_another_key() -> None:
    state = TopState()
    assert action_of(state, "upper_f", "F") == "follow"
    assert action_of(state, "f", "f") == "filter_device"
    assert action_of(state, "question_mark", "?") == "help"
    assert action_of(state, "less_than_sign", "<") == "sort_previous"
    assert action_of(state, "x", "x") is None


def test_keys_that_a_session_lacks_do_nothing() -> None:
    assert action_of(TopState(can_end=False), "k", "k") is None
    assert action_of(TopState(can_end=True), "k", "k") == "end"
    assert action_of(TopState(), "full_stop", ".") is None
    assert action_of(TopState(replayed=True), "full_stop", ".") == "step"


def test_the_cursor_moves_through_devices_and_stops_at_their_ends() -> None:
    devices = [status.device.uuid for status in office().devices]
    assert after(frame(), "up").device == devices[0]
    assert after(frame(), "down", "down").device == devices[2]
    assert after(frame(), "last").device == frame().scene.entries[-1].status.device.uuid
    assert after(frame(), "last", "home").device == devices[0]


def test_tab_goes_to_the_processes_and_enter_opens_what_is_chosen() -> None:
    assert after(frame(), "open").view is TopView.DEVICE
    state = after(frame(), "focus", "open")
    assert (state.view, state.back) == (TopView.PROCESS, (TopView.DEVICES,))
    assert after(frame(), "focus", "open", "back").view is TopView.DEVICES


def test_the_cursor_stays_on_its_process_when_the_order_changes() -> None:
    state = after(frame(focus=Focus.PROCESSES, view=TopView.PROCESSES), "down", "down")
    chosen = state.process
    turned = settled(replace(state, processes=ProcessChoice(reverse=True)), frame().scene, 0.0)
    assert turned.process == chosen
    assert turned.place != state.place


def test_when_a_process_ends_the_cursor_goes_to_its_neighbour() -> None:
    state = after(frame(focus=Focus.PROCESSES, view=TopView.PROCESSES), "down")
    assert state.process is not None
    pid = state.process[0]
    snapshot = office()
    left = tuple(
        replace(s, processes=tuple(p for p in s.processes if p.pid != pid))
        for s in snapshot.devices
    )
    scene = frame_of(replace(snapshot, devices=left)).scene
    found = settled(state, scene, 0.0)
    assert found.process is not None
    assert found.process[0] != pid
    assert found.place == state.place


def test_the_device_in_most_trouble_is_selected_until_a_person_chooses() -> None:
    snapshot, calm = office(), replace(office(), devices=office().devices[:2])
    begun = settled(TopState(), frame_of(calm).scene, 0.0)
    assert begun.device == snapshot.devices[0].device.uuid
    worse = settled(begun, frame_of(snapshot).scene, 1.0)
    assert worse.device == snapshot.devices[3].device.uuid, "it is lost"
    chosen, _ = act(replace(frame_of(calm), state=begun), "down")
    assert settled(chosen, frame_of(snapshot).scene, 1.0).device == chosen.device


def test_a_followed_process_that_ends_is_told_about() -> None:
    followed = after(frame(focus=Focus.PROCESSES), "focus", "focus", "down", "follow")
    assert followed.follow is not None
    nothing = replace(office(), devices=(office().devices[1],))
    found = settled(followed, frame_of(nothing).scene, 5.0)
    assert found.follow is None
    assert found.notice is not None
    assert str(followed.follow[0]) in found.notice.text
    assert after(replace(frame(), state=followed), "follow").follow is None, "again stops it"


@pytest.mark.parametrize("sort", SORT_NAMES)
def test_processes_can_be_sorted_by_every_column_and_the_other_way_round(sort: str) -> None:
    scene = frame().scene
    once = process_entries(scene, ProcessChoice(sort=sort))
    held = [row.key for row in once if row.process]
    again = process_entries(scene, ProcessChoice(sort=sort, reverse=True))
    assert [row.key for row in again if row.process] == held[::-1]
    assert after(frame(), f"sort:{sort}").processes.sort == sort
    assert after(frame(), "sort:pid", "sort:pid").processes.reverse


def test_the_sort_key_goes_through_all_columns_and_skips_hidden_ones() -> None:
    seen, current = [], frame(processes=ProcessChoice(hidden=frozenset(("cpu",))))
    for _ in SORT_NAMES:
        current = replace(current, state=after(current, "sort_next"))
        seen.append(current.state.processes.sort)
    assert set(seen) == set(SORT_NAMES) - {"cpu"}


def test_a_filter_works_while_it_is_typed_and_escape_takes_it_back() -> None:
    current = frame(processes=ProcessChoice(text="old"))
    current = replace(current, state=after(current, "filter"))
    for key, character in (("ctrl+u", None), ("v", "v"), ("l", "l"), ("x", "x")):
        current = replace(current, state=typed(current, key, character)[0])
    current = replace(current, state=typed(current, "backspace", None)[0])
    assert current.state.processes.text == "vl"
    assert typed(current, "escape", None)[0].processes.text == "old"
    kept = typed(current, "enter", None)[0]
    assert (kept.processes.text, kept.prompt) == ("vl", None)
    assert after(replace(current, state=kept), "back").processes.text == ""


def test_filters_by_user_device_mine_and_compute() -> None:
    mine = after(frame(), "mine").processes
    found = process_entries(frame().scene, mine)
    assert {row.process.user for row in found if row.process} == {"alice"}
    device = after(frame(), "filter_device").processes
    labels = {row.label for row in process_entries(frame().scene, device)}
    assert labels == {"0"}
    assert after(frame(), "compute").processes.compute_only
    current = replace(frame(), state=after(frame(), "filter_user"))
    for character in "bob":
        current = replace(current, state=typed(current, character, character)[0])
    rows = process_entries(current.scene, current.state.processes)
    assert {row.process.user for row in rows if row.process} == {"bob"}


def test_a_tree_without_ancestors_has_every_process() -> None:
    flat = process_entries(frame().scene, ProcessChoice())
    tree = process_entries(frame().scene, ProcessChoice(tree=True))
    assert {row.key for row in tree} == {row.key for row in flat}


def test_columns_are_hidden_and_shown_again() -> None:
    current = replace(frame(), state=after(frame(), "columns"))
    current = replace(current, state=in_menu(current, "down"))
    hidden = in_menu(current, "space")
    assert hidden.processes.hidden == {COLUMN_NAMES[1]}
    assert not in_menu(replace(current, state=hidden), "space").processes.hidden
    assert in_menu(current, "escape").menu is None


def test_the_help_scrolls_and_any_other_key_closes_it() -> None:
    state = after(frame(), "help")
    assert in_help(state, "down", 50).rows["help"] == 1
    assert in_help(state, "up", 50).help
    assert not in_help(state, "x", 50).help


def test_spans_and_intervals_stop_at_their_ends() -> None:
    longest = after(frame(), *["span_longer"] * len(SPANS))
    assert longest.span_seconds == SPANS[-1]
    assert after(frame(), *["faster"] * len(INTERVALS)).interval_seconds == INTERVALS[0]
    state, effects = act(frame(), "slower")
    assert [effect.kind for effect in effects] == [EffectKind.INTERVAL]
    assert float(effects[0].text) == state.interval_seconds == 2.0


def test_copying_gives_what_commands_take() -> None:
    _, effects = act(frame(), "copy")
    assert effects[0].text == office().devices[0].device.uuid
    state = after(frame(), "focus")
    copied, effects = act(replace(frame(), state=state), "copy")
    assert copied.copied == effects[0].text
    assert "train.py" in effects[0].text or "vllm" in effects[0].text
    _, effects = act(frame(view=TopView.LEASES), "copy")
    assert effects[0].text == "k7qm2x"


def test_lists_open_the_device_or_the_users_processes() -> None:
    assert after(frame(view=TopView.LEASES), "open").device == office().devices[0].device.uuid
    alerts = after(frame(view=TopView.ALERTS), "open")
    assert alerts.view is TopView.DEVICE
    users = after(frame(view=TopView.USERS), "open")
    assert (users.view, users.processes.user) == (TopView.PROCESSES, "bob")


def test_a_click_selects_and_a_second_one_opens() -> None:
    uuid = office().devices[1].device.uuid
    once, _ = clicked(frame(), "device", uuid, twice=False)
    assert (once.device, once.view) == (uuid, TopView.DEVICES)
    twice, _ = clicked(frame(), "device", uuid, twice=True)
    assert twice.view is TopView.DEVICE
    assert clicked(frame(), "action", "sort:pid", twice=False)[0].processes.sort == "pid"
    assert clicked(frame(view=TopView.ALERTS), "row", 2, twice=False)[0].rows[TopView.ALERTS] == 2


def test_pausing_stepping_and_leaving_are_effects() -> None:
    table = {
        "pause": EffectKind.PAUSE, "step": EffectKind.STEP, "step_back": EffectKind.STEP_BACK,
        "quit": EffectKind.QUIT, "suspend": EffectKind.SUSPEND, "redraw": EffectKind.REDRAW,
        "end": EffectKind.END, "environment": EffectKind.ENVIRONMENT,
    }  # fmt: skip
    found = {action: act(frame(), action)[1][0].kind for action in table}
    assert found == table
    assert act(frame(), "step")[0].paused
