"""The fold of a record: what is known of a run, whole, unfinished or strange."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model.run.record import (
    GitState,
    ItemState,
    RunAlert,
    RunEvent,
    RunFacts,
    RunItem,
    RunLine,
    RunLogged,
    RunSample,
    RunState,
)
from andon.runs.rules.curves import MOST_NAMES
from andon.runs.rules.fold import MOST_LINES, RunFold, row_of
from andon.runs.rules.lines import RecordLines
from tests.support.run_records import BEGAN, begin, end, sample, text_of, used

EVERY: tuple[RunLine, ...] = (
    begin(),
    RunFacts(BEGAN + 0.1, GitState("abc", dirty=True), versions={"torch": "2.9"}),
    sample(1, 20),
    RunLogged(BEGAN + 1, {"loss": 2.0, "lr": 0.1}, 1),
    RunEvent(BEGAN + 1, "epoch", {"number": 1}),
    RunItem(BEGAN + 2, ItemState.OK, 0, "a.bin", "0", runtime_seconds=1.5),
    RunAlert(BEGAN + 2, "thermal", "warning", "firing", "GPU 0 is hot", "0"),
    RunLogged(BEGAN + 3, {"loss": 1.0}, 2),
    sample(3, 80),
)


def folded(*lines: RunLine) -> RunFold:
    out = RunFold()
    out.add_all(lines)
    return out


def test_every_kind_of_line_is_kept_in_its_place() -> None:
    known = folded(*EVERY, end())
    assert known.begin == begin()
    assert known.facts is not None
    assert known.facts.versions == {"torch": "2.9"}
    assert [e.name for e in known.events] == ["epoch"]
    assert [i.item for i in known.items] == ["a.bin"]
    assert [a.rule for a in known.alerts] == ["thermal"]
    assert [v.step for v in known.step_lines] == [1, 2]
    assert known.last_values == {"loss": 1.0, "lr": 0.1}
    assert (known.samples, known.left_out) == (2, 0)


def test_a_finished_run_is_summed_up_by_its_own_end() -> None:
    row = row_of(begin(), folded(*EVERY, end()), "/r.jsonl", alive=False)
    assert (row.state, row.duration_seconds, row.samples) == (RunState.SUCCEEDED, 10.0, 10)
    assert (row.mean_utilization_percent, row.energy_joules) == (50.0, 6000.0)
    assert (row.idle_share, row.ended) == (0.25, BEGAN + 10)


def test_a_run_without_an_end_is_summed_up_from_its_samples() -> None:
    known = folded(*EVERY)
    used_so_far = known.summary()["GPU-a"]
    assert used_so_far["utilization_percent"]["mean"] == 60.0  # by time
    assert used_so_far["energy_joules"] == 900.0
    row = row_of(begin(), known, "/r.jsonl", alive=False)
    assert (row.state, row.mean_utilization_percent) == (RunState.LOST, 60.0)
    assert (row.duration_seconds, row.ended, row.samples) == (3.0, BEGAN + 3, 2)


def test_a_run_that_goes_on_has_no_end_and_no_length_yet() -> None:
    row = row_of(begin(), folded(*EVERY), "/r.jsonl", alive=True)
    assert row.state is RunState.RUNNING
    assert (row.ended, row.duration_seconds, row.samples) == (None, None, None)
    assert folded(*EVERY).duration_seconds(alive=True, now=BEGAN + 60) == 60


def test_the_end_says_how_it_ended_even_while_the_process_lives() -> None:
    assert folded(begin(), end(state=RunState.FAILED)).state(alive=True) is RunState.FAILED


def test_where_a_device_has_no_energy_the_sum_is_unknown() -> None:
    half = end(summary={"GPU-a": used(), "GPU-b": {**used(), "energy_joules": None}})
    row = row_of(begin(), folded(begin(), half), "/r", alive=False)
    assert row.energy_joules is None
    assert row.mean_utilization_percent == 50.0


@pytest.mark.parametrize("strange", ["NaN", True, [1], {"mean": "x"}])
@pytest.mark.parametrize("name", ["utilization_percent", "energy_joules", "peak_memory_bytes"])
def test_an_end_with_what_is_not_a_number_is_not_read(name: str, strange: object) -> None:
    lines = RecordLines()
    odd = end(summary={"GPU-a": {**used(), name: strange}})
    assert list(lines.feed(text_of([odd]).encode())) == []
    assert lines.unreadable == 1


def test_what_an_end_does_not_say_is_unknown() -> None:
    (read,) = RecordLines().feed(text_of([end(summary={"GPU-a": {}})]).encode())
    row = row_of(begin(), folded(begin(), read), "/r", alive=False)
    assert (row.mean_utilization_percent, row.energy_joules) == (None, None)


def test_devices_of_others_and_states_of_a_newer_andon_add_nothing() -> None:
    odd = RunSample(
        BEGAN + 1,
        {
            "GPU-b": {"state": "dreaming", "utilization_percent": 40},
            "GPU-z": {"state": "ok", "utilization_percent": 99},  # not one of its devices
        },
    )
    summary = folded(begin(), odd).summary()
    assert set(summary) == {"GPU-a", "GPU-b"}
    assert summary["GPU-b"]["utilization_percent"]["mean"] is None
    assert summary["GPU-b"]["samples"] == 0


def test_a_second_begin_is_not_this_run() -> None:
    known = folded(begin(), begin(id="other"), end())
    assert known.begin is not None
    assert known.begin.id == "kqzvmtra"


def test_memory_stays_bounded_and_the_latest_are_kept() -> None:
    events = [RunEvent(BEGAN + n, str(n)) for n in range(MOST_LINES + 2)]
    known = folded(begin(), *events)
    assert (list(known.events), known.left_out) == (events[2:], 2)
    known.add(RunLogged(BEGAN, {f"v{n}": 1 for n in range(MOST_NAMES + 1)}))
    known.add(RunLogged(BEGAN, {"v0": 4, "d": 5}))
    assert known.last_values == {f"v{n}": 1 for n in range(MOST_NAMES)} | {"v0": 4}


def test_without_tallies_nothing_is_counted() -> None:
    known = RunFold(tallying=False)
    known.add_all(EVERY)
    assert (known.summary(), known.samples) == ({}, 2)


@given(st.lists(st.integers(0, 400), max_size=20), st.booleans())
def test_where_the_bytes_are_cut_does_not_matter(cuts: list[int], finished: bool) -> None:
    data = text_of((*EVERY, end()) if finished else EVERY).encode()
    places = [0, *sorted(min(cut * 10, len(data)) for cut in cuts), len(data)]
    lines, known = RecordLines(), RunFold()
    for first, last in pairwise(places):
        known.add_all(lines.feed(data[first:last]))
    whole = folded(*EVERY, *([end()] if finished else []))
    one = row_of(begin(), known, "/r", alive=False)
    assert one == row_of(begin(), whole, "/r", alive=False)
    assert lines.unreadable == 0
