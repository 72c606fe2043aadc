"""The pure parts of `andon map`: items, the command, which item is next, what is left."""

import io
import json
import signal
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.cli import map_session
from andon.cli.show.map import MapScreen, summary_text
from andon.cli.terminal import Choices
from andon.errors import Invalid
from andon.model.run.record import ItemState, RunEnd, RunItem, RunState
from andon.work.map.calls import CallEnd, CallOutput
from andon.work.map.session import MapProgress, MapResult
from andon.work.rules.map.items import (
    MapItem,
    Redo,
    digest,
    items_from_json,
    items_from_lines,
    items_from_names,
    items_of,
    left,
    outcomes,
)
from andon.work.rules.map.plan import MapPlan, MapPolicy, MapUnit
from andon.work.rules.map.scaling import ScalingStep, efficiency, held_back_by, step_of
from andon.work.rules.map.template import stem, template_of
from andon.work.rules.map.worker_lines import answer_of, request_line
from tests.support.invariants import check_map

LATER = 1000.0  # when every item that is retried is due


def texts(items: tuple[MapItem, ...]) -> list[str]:
    return [item.text for item in items]


def test_items_are_lines_names_or_json() -> None:
    assert texts(items_from_lines("a\nb c\r\n\n d\n")) == ["a", "b c", " d"]
    assert texts(items_from_names("a\nb\0c\0")) == ["a\nb", "c"]
    found = items_from_json('{"id": 3, "path": "x.wav"}\n\n"plain"\n7\n')
    assert texts(found) == ['{"id": 3, "path": "x.wav"}', "plain", "7"]
    assert found[0].fields == {"id": "3", "path": "x.wav"}
    assert [item.index for item in found] == [0, 1, 2]


def test_a_line_that_is_no_json_is_named() -> None:
    with pytest.raises(Invalid, match="line 2 of the items is not JSON"):
        items_from_json('{"a": 1}\nnonsense\n')


def test_names_in_braces_are_replaced_and_other_braces_stay() -> None:
    rows = {
        ("infer", "{item}", "--out", "out/{stem}.csv"): ["infer", "a/b.wav", "--out", "out/b.csv"],
        ("infer",): ["infer", "a/b.wav"],
        ("infer", "{gpu}"): ["infer", "3", "a/b.wav"],
        ("awk", "{print $1}", "{item}"): ["awk", "{print $1}", "a/b.wav"],
        ("x", "{index}-{item}-{other}"): ["x", "7-a/b.wav-{other}"],
        ("sh", "-c", "echo {item}; rm -rf"): ["sh", "-c", "echo a/b.wav; rm -rf"],
    }
    item = MapItem(7, "a/b.wav")
    wrong = {
        words: found
        for words, expected in rows.items()
        if (found := template_of(words, [item]).command([item], "3")) != expected
    }
    assert not wrong


def test_an_item_in_a_text_for_a_shell_is_data() -> None:
    item = MapItem(0, "$(touch HIT).wav")
    made = template_of(("sh", "-c", "wc '{item}'"), [item]).command([item], "0")
    text = "andon_1=${1}; shift 1; wc ''\"${andon_1}\"''"
    assert made == ["sh", "-c", text, "sh", "$(touch HIT).wav"]


def test_a_stem_is_a_file_without_folder_and_suffix() -> None:
    rows = {"a/b.wav": "b", "b.tar.gz": "b.tar", ".hidden": ".hidden", "a/": "a", "x": "x",
            "/": "", "..": ".."}  # fmt: skip
    assert {text: stem(text) for text in rows} == rows


def test_fields_of_json_items_are_names_and_must_be_in_every_item() -> None:
    items = items_from_json('{"id": 1}\n{"id": 2}\n')
    assert template_of(["run", "{id}"], items).command([items[1]], "0") == ["run", "2"]
    with pytest.raises(Invalid, match="item 1 has no field 'id'"):
        template_of(["run", "{id}"], items_from_json('{"id": 1}\n{"x": 2}\n'))


def test_several_items_of_a_call_are_words_of_their_own() -> None:
    items = items_of(["a", "b"])
    assert template_of(["x", "{item}", "-g{gpu}"], items, 2).command(items, "1") == [
        "x", "a", "b", "-g1",
    ]  # fmt: skip
    assert template_of(["x"], items, 2).command(items, "1") == ["x", "a", "b"]
    with pytest.raises(Invalid, match="--per-call"):
        template_of(["x", "in={item}"], items, 2)


@given(
    st.integers(1, 30), st.integers(1, 4), st.integers(0, 3), st.none() | st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=120),
)  # fmt: skip
def test_every_item_is_somewhere_and_none_is_tried_too_often(
    count: int, per_call: int, retries: int, most: int | None, steps: list[tuple[int, bool, bool]]
) -> None:
    plan = MapPlan(items_of(map(str, range(count))), MapPolicy(retries, most), per_call)
    tried: dict[int, int] = {}
    running: list[MapUnit] = []
    for place, ok, returned in steps:
        check_map(plan)
        if place % 2 and running:
            unit = running.pop(place % len(running))
            if returned:
                plan.returned(unit)
                tried[unit.items[0].index] -= 1
            else:
                plan.ended(unit, ok, 0.0)
        elif (unit_or_none := plan.take(LATER)) is not None:
            running.append(unit_or_none)
            first = unit_or_none.items[0].index
            tried[first] = tried.get(first, 0) + 1
    check_map(plan)
    assert all(times <= retries + 1 for times in tried.values())
    assert plan.over == (not running and (plan.stopped is not None or plan.untouched == 0))


def test_a_failed_item_waits_before_it_is_tried_again() -> None:
    plan = MapPlan(items_of(["a"]), MapPolicy(retries=2))
    for attempt, wait in ((1, 1.0), (2, 2.0)):
        unit = plan.take(10.0 * attempt)
        assert unit is not None
        assert unit.attempt == attempt
        assert plan.ended(unit, False, 10.0 * attempt) is ItemState.RETRY
        assert plan.take(10.0 * attempt) is None
        assert plan.due_seconds(10.0 * attempt) == wait
    last = plan.take(30.0)
    assert last is not None
    assert plan.ended(last, False, 30.0) is ItemState.FAILED
    assert plan.over


def test_too_many_failures_begin_no_further_item() -> None:
    plan = MapPlan(items_of("abc"), MapPolicy(most_failures=1))
    unit = plan.take(0.0)
    assert unit is not None
    plan.ended(unit, False, 0.0)
    assert plan.take(0.0) is None
    assert plan.over
    assert plan.untouched == 2
    assert plan.stopped == "1 item failed, which is the limit of --max-failures"


def line(index: int, item: str, state: ItemState) -> RunItem:
    return RunItem(1.0, state, index, item)


def test_what_is_left_of_an_earlier_map() -> None:
    before = outcomes([
        line(0, "a", ItemState.START), line(0, "a", ItemState.OK),
        line(1, "b", ItemState.START), line(1, "b", ItemState.FAILED),
        line(2, "a", ItemState.START),
    ])  # fmt: skip
    items = items_of(["a", "b", "a", "d"])
    rows = {Redo.UNDONE: [1, 2, 3], Redo.FAILED: [1], Redo.ALL: [0, 1, 2, 3]}
    assert {redo: [item.index for item in left(items, before, redo)] for redo in rows} == rows
    # What had begun and not ended is marked: it may have done its work.
    for redo in (Redo.UNDONE, Redo.ALL):
        assert [item.index for item in left(items, before, redo) if item.begun_before] == [2]
    # The list has changed: what moved is known by its text.
    changed = items_of(["new", "a", "b"])
    assert texts(left(changed, before)) == ["new", "b"]


def test_a_command_is_known_by_its_words() -> None:
    assert digest(["a", "b"]) == digest(("a", "b"))
    assert digest(["a", "b"]) != digest(["a b"])


def test_lines_between_a_map_and_its_worker() -> None:
    assert json.loads(request_line(MapItem(3, "a\nb"))) == {"index": 3, "item": "a\nb"}
    assert request_line(MapItem(3, "a\nb")).count(b"\n") == 1
    rows: dict[bytes, tuple[int, bool, str | None] | None] = {
        b'{"index": 1, "ok": true, "result": 5}': (1, True, None),
        b'{"index": 1, "ok": false, "error": "no"}': (1, False, "no"),
        b'{"index": true, "ok": true}': None,
        b'{"index": 1, "ok": 1}': None,
        b"{nonsense": None,
        b"output": None,
        b"[1]": None,
        b"{" * 5000: None,
    }
    found = {text: answer_of(text) for text in rows}
    assert {
        text: None if one is None else (one.index, one.ok, one.error) for text, one in found.items()
    } == rows


def test_scaling_says_what_holds_it_back() -> None:
    one = ScalingStep(1, 10, 10.0, 90.0, 20.0)
    assert efficiency(ScalingStep(4, 40, 10.0), one) == 1.0
    assert held_back_by([one, ScalingStep(4, 40, 10.0)]) is None
    rows = {
        (30.0, 99.0): "the node's CPU is at 99 %",
        (95.0, 20.0): "the GPUs are 95 % busy",
        (30.0, 20.0): "the GPUs are only 30 % busy",
        (None, None): "not known",
    }
    for (busy, cpu), words in rows.items():
        said = held_back_by([one, ScalingStep(4, 20, 10.0, busy, cpu)])
        assert said is not None
        assert said.startswith("4 workers do 50 % of what they could")
        assert words in said
    summary = {"u": {"utilization_percent": {"mean": 40.0}}}
    assert step_of(2, 4, 2.0, summary, {"cpu_percent": {"mean": 9.0}}) == ScalingStep(
        2, 4, 2.0, 40.0, 9.0
    )


class ScreenText(io.TextIOWrapper):
    """A terminal that keeps everything that was written to it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="", write_through=True)

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What can be read on it: a carriage return with a clear begins the line again."""
        self.flush()
        self.seek(0)
        return [line.rpartition("\r\x1b[K")[2] for line in self.read().split("\n")]


@pytest.mark.parametrize("ending", ["\n", ""])
def test_the_progress_of_a_map_stands_below_every_output(ending: str) -> None:
    terminal = ScreenText()
    with redirect_stdout(terminal), redirect_stderr(terminal):
        screen = MapScreen(Choices(color="never"), keep_order=False, draw_seconds=0.0)
        screen.tick(MapProgress(total=3, done=0, failed=0, running=1, seconds=1.0))
        for index, state in enumerate((ItemState.OK, ItemState.FAILED)):
            output = CallOutput(f"out {index}{ending}".encode())
            ended = CallEnd(state is ItemState.OK, 0.1, "exit code 1", output)
            screen.ended(MapUnit((MapItem(index, f"i{index}"),)), ended, state)
            assert terminal.lines()[-1].startswith("0/3")
        screen.close()
    assert terminal.lines() == ["out 0", "out 1", "andon: item i1: exit code 1", ""]


@pytest.mark.parametrize(
    ("done", "failed", "said"),
    [
        (6, 1, "6 of 7 items done in 2 s (3.0/s); 1 failed"),
        (0, 7, "0 of 7 items done in 2 s; 7 failed"),
    ],
)
def test_the_rate_of_a_finished_map_is_that_of_what_it_says_is_done(
    done: int, failed: int, said: str
) -> None:
    progress = MapProgress(total=7, done=done, failed=failed, running=0, seconds=2.0)
    result = MapResult(progress, (), RunEnd(0.0, RunState.FAILED, 2.0, 0, {}), None, "r")
    assert summary_text(result) == said


class Interrupted(map_session._Maker, frozen=True):
    """A measurement during which this process gets a signal."""

    number: int = signal.SIGINT

    def _session(self, *_: object) -> Any:
        pool = SimpleNamespace(release=lambda: False, stop=print, end=print, outlives=False)
        plan = SimpleNamespace(running=())
        run = partial(signal.raise_signal, self.number)
        return SimpleNamespace(run=lambda tick: run(), pool=pool, plan=plan, is_open=True)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_measurement_that_a_signal_ends_has_the_signals_code(number: int, code: int) -> None:
    asked: Any = SimpleNamespace(scaling=(1, 2), policy=MapPolicy(), per_call=1)
    nothing: Any = None
    maker = Interrupted(Choices(), asked, nothing, nothing, {}, number=number)
    assert maker.measure(items_of(["a", "b"])) == code
