"""The search for the largest size that fits, and what is said about it."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.cli.show.probe import render_probe
from andon.cli.show.text import painted
from andon.errors import Conflict, Gone, Invalid
from andon.model.codec import document, read_document
from andon.model.probe import ProbeResult, Trial, TrialState
from andon.model.wire import ANSWER, dumps, loads
from andon.units import GIB
from andon.work.rules.probe import (
    ProbePlan,
    StopReason,
    TrialEnd,
    begin_search,
    best,
    check_margin,
    check_pattern,
    check_template,
    filled,
    judged,
    limited_by,
    memory_line,
    number_of,
    probe_of,
    recommended,
)

PLAN = ProbePlan("train.py", "python train.py {n}", "NVIDIA H200", 1, "node", 1, 4096)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def trial(size: int, gib: float | None = None, state: TrialState = TrialState.FITS) -> Trial:
    used = None if gib is None else int(gib * GIB)
    return Trial(size, state, 1.0, "", peak_memory_bytes=used)


def searched(low: int, high: int, capacity: int) -> tuple[ProbeResult, int]:
    """A device on which every size up to `capacity` fits."""
    plan, trials = replace(PLAN, low=low, high=high), list[Trial]()
    while (size := plan.search(trials).next_size()) is not None:
        assert low <= size <= high
        assert size not in {one.size for one in trials}, "no size is tried twice"
        fits = size <= capacity
        state = TrialState.FITS if fits else TrialState.DEVICE_OUT_OF_MEMORY
        trials.append(trial(size, state=state))
    return probe_of(plan, trials, 0.0), len(trials)


def most_trials(low: int, high: int) -> int:
    """No search takes more: one trial for each doubling, then at most four halvings, because the
    gap after a doubling is as large as the size itself."""
    doublings = 1
    while low < high:
        low, doublings = 2 * low, doublings + 1
    return doublings + 4


@given(st.data())
def test_on_any_monotone_device_the_size_found_fits_and_a_sixteenth_more_does_not(
    data: st.DataObject,
) -> None:
    low = data.draw(st.integers(1, 5000))
    high = data.draw(st.integers(low, 10**6))
    capacity = data.draw(st.integers(0, 2 * high))
    found, trials = searched(low, high, capacity)
    assert found.complete
    assert trials <= most_trials(low, high)
    if capacity < low:
        assert (found.largest, found.too_large, trials) == (None, low, 1)
    elif capacity >= high:
        assert (found.largest, found.too_large) == (high, None)
    else:
        assert found.largest is not None
        assert found.largest <= capacity
        above = max(found.largest + 1, found.largest * 17 // 16)
        assert above > capacity
    if found.largest is not None:
        assert found.recommended is not None
        assert low <= found.recommended <= found.largest


def test_the_sizes_of_a_search_are_doubled_then_bisected() -> None:
    plan, sizes = replace(PLAN, high=512), list[int]()
    search = begin_search(plan.low, plan.high)
    while (size := search.next_size()) is not None:
        sizes.append(size)
        search = search.after(size, size <= 68)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 96, 80, 72, 68]
    assert (search.fits, search.fails) == (68, 72)


@pytest.mark.parametrize(
    ("largest", "low", "margin", "size"),
    [(68, 1, 10, 61), (100, 1, 10, 90), (10, 1, 0, 10), (1, 1, 50, 1), (70, 64, 50, 64)],
)
def test_the_recommended_size_keeps_a_margin(
    largest: int, low: int, margin: float, size: int
) -> None:
    assert recommended(largest, low, margin) == size


def test_a_trial_that_decides_nothing_leaves_the_search_where_it_was() -> None:
    trials = [trial(1), trial(2, state=TrialState.FAILED)]
    found = probe_of(PLAN, trials, 0.0)
    assert (found.largest, found.too_large, found.complete) == (1, None, False)


def test_the_line_of_memory_comes_from_trials_below_four_fifths_of_the_card() -> None:
    sizes = [trial(n, 3 + 2 * n) for n in (1, 2, 4, 8, 16, 32)]
    bent = [trial(64, 100.0), trial(72, 99.0, TrialState.DEVICE_OUT_OF_MEMORY)]
    line, why_none = memory_line([*sizes, *bent], 100 * GIB)
    assert line is not None
    assert why_none is None
    assert line.trials == 6
    assert line.fixed_bytes == pytest.approx(3 * GIB)
    assert line.bytes_per_unit == pytest.approx(2 * GIB)


@pytest.mark.parametrize(
    ("trials", "total", "why"),
    [
        ([trial(1, 1), trial(2, 2)], None, "the memory of the device is unknown"),
        ([trial(1, 1)], 80 * GIB, "fewer than 2 sizes"),
        ([trial(1), trial(2)], 80 * GIB, "fewer than 2 sizes"),
        ([trial(1, 2), trial(2, 2)], 80 * GIB, "memory did not grow"),
        ([trial(1, 70), trial(2, 75)], 80 * GIB, "fewer than 2 sizes"),
    ],
)
def test_where_there_is_no_line_the_reason_is_given(
    trials: list[Trial], total: int | None, why: str
) -> None:
    line, reason = memory_line(trials, total)
    assert line is None
    assert reason is not None
    assert reason.startswith(why)


END = TrialEnd(0, None, 12.0, "")
JUDGED = [
    (END, 0, TrialState.FITS),
    (replace(END, code=1, tail=OOM), 0, TrialState.DEVICE_OUT_OF_MEMORY),
    (replace(END, code=0, tail=OOM), 0, TrialState.FITS),  # it caught the error
    (replace(END, code=137, signal=9), 1, TrialState.HOST_OUT_OF_MEMORY),
    (replace(END, code=137, signal=9), 0, TrialState.FAILED),
    (replace(END, code=3), 0, TrialState.FAILED),
    (replace(END, code=143, signal=15, stopped=StopReason.READY), 0, TrialState.FITS),
    (replace(END, code=143, signal=15, stopped=StopReason.HELD), 0, TrialState.FITS),
    (replace(END, stopped=StopReason.HELD, tail=OOM), 0, TrialState.DEVICE_OUT_OF_MEMORY),
    (replace(END, stopped=StopReason.TIMEOUT), 0, TrialState.HUNG),
    (replace(END, stopped=StopReason.TIMEOUT, tail=OOM), 0, TrialState.DEVICE_OUT_OF_MEMORY),
    (replace(END, stopped=StopReason.LEASE, why="lease x expired"), 0, TrialState.STOPPED),
    (replace(END, code=130, interrupted=True), 0, TrialState.STOPPED),
    (replace(END, never_ready=True), 0, TrialState.FAILED),
]


@pytest.mark.parametrize(("end", "kills", "state"), JUDGED)
def test_how_a_trial_ended_says_whether_the_size_fits(
    end: TrialEnd, kills: int, state: TrialState
) -> None:
    found, message = judged(end, [], kills)
    assert found is state
    assert message


def test_what_a_probe_was_limited_by_is_named() -> None:
    host = [trial(1), trial(2, state=TrialState.HOST_OUT_OF_MEMORY)]
    assert limited_by(probe_of(PLAN, host, 0.0)) == "host memory"
    assert limited_by(probe_of(PLAN, [trial(1)], 0.0)) is None


def test_what_follows_from_a_probe_is_wrapped_and_not_cut() -> None:
    found = replace(probe_of(PLAN, [trial(1), trial(2)], 0.0), line=None, line_reason="w " * 60)
    answer = painted(render_probe(found, "GPU 0", 60)).split("recommended")[1]
    assert "…" not in answer
    assert answer.count(" w") == 60
    assert max(map(len, answer.splitlines())) <= 60


def test_a_short_trial_shows_how_long_it_took() -> None:
    found = probe_of(PLAN, [replace(trial(1), seconds=0.36)], 0.0)
    assert "0.36 s" in painted(render_probe(found, "GPU 0", 80))


def test_the_size_is_filled_in_wherever_it_stands() -> None:
    command = ["python", "t.py", "--batch={n}", "--steps", "{n}", "{m}"]
    assert filled(command, 8) == ["python", "t.py", "--batch=8", "--steps", "8", "{m}"]


WRONG = [
    lambda: check_template(["echo", "hi"]),
    lambda: check_template(["run{n}", "{n}"]),
    lambda: begin_search(5, 2),
    lambda: begin_search(0, 2),
    lambda: begin_search(1, 10**13),
    lambda: check_margin(100.0),
    lambda: check_margin(float("nan")),
    lambda: check_pattern("--ready", "("),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_makes_no_sense_is_refused_in_one_sentence(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(Invalid) as refused:
        wrong()
    assert "\n" not in refused.value.reason


@pytest.mark.parametrize(
    ("pattern", "line", "number"),
    [
        (r"samples/s: ([\d.]+)", "step 3 samples/s: 12.5", 12.5),
        (r"[\d,]+ tok/s", "x", None),
        (r"([\d,]+) tok/s", "1,024 tok/s", 1024.0),
        (r"\d+", "loss 7", 7.0),
        (r"(nan)", "nan", None),
        (r"(\w+)/s", "many/s", None),
    ],
)
def test_the_throughput_is_the_number_in_the_pattern(
    pattern: str, line: str, number: float | None
) -> None:
    found = re.search(pattern, line)
    assert (None if found is None else number_of(found)) == number


def test_a_name_that_means_two_kinds_of_devices_is_asked_back() -> None:
    probes = [
        probe_of(replace(PLAN, model=model), [trial(4)], at)
        for model, at in (("NVIDIA H200", 2.0), ("NVIDIA A100", 1.0))
    ]
    with pytest.raises(Conflict, match="NVIDIA A100, NVIDIA H200"):
        best(probes, "train.py")
    assert best(probes, "train.py", "a100").model == "NVIDIA A100"
    for name, model in (("other.py", None), ("train.py", "T4")):
        with pytest.raises(Gone):
            best(probes, name, model)


def test_a_probe_survives_its_file() -> None:
    trials = [trial(1, 3), replace(trial(2, 5), missing={"throughput": "x"}, note="less certain")]
    found = probe_of(replace(PLAN, memory_total_bytes=80 * GIB), trials, 5.0)
    assert read_document(ProbeResult, loads(dumps(document(found)), ANSWER)) == found


FIELDS = sorted(document(probe_of(PLAN, [trial(1)], 0.0)))
ANYTHING = st.none() | st.integers() | st.text() | st.lists(st.integers())


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_a_file_that_is_not_a_probe_is_refused_or_read(damage: dict[str, object]) -> None:
    whole = document(probe_of(PLAN, [trial(1)], 0.0))
    with suppress(Invalid):  # anything else would end `andon probes`
        assert isinstance(read_document(ProbeResult, {**whole, **damage}), ProbeResult)
