"""What a run used, as its record says it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model.run.record import (
    ItemState,
    RunAlert,
    RunBegin,
    RunEnd,
    RunItem,
    RunJoined,
    RunLine,
    RunLogged,
    RunSeries,
    RunState,
)
from andon.model.run.wire import line_to_text
from andon.runs.rules.fold import RunFold
from andon.runs.rules.lines import SAMPLE, RecordLines
from andon.runs.rules.reports.advice import advice_on
from andon.runs.rules.reports.report import (
    Prices,
    items_by_device,
    phases_of,
    report_of,
    steps_per_second,
)
from andon.runs.rules.summary import RunTallies
from tests.support.run_records import BEGAN, DEVICES, begin, end, sample, used
from tests.support.run_reports import report_on

ALICE, BOB = DEVICES


def item(index: int, state: ItemState = ItemState.OK, on: str | None = "0") -> RunItem:
    return RunItem(BEGAN + index, state, index, f"chunk {index}", on, runtime_seconds=2.0)


def test_a_report_adds_up_what_its_devices_used() -> None:
    found = report_on(begin(), sample(1), end())
    assert found.state is RunState.SUCCEEDED
    assert (found.duration_seconds, found.device_seconds) == (10.0, 20.0)
    assert found.wasted_seconds == pytest.approx(5.0)  # a quarter of the time on both
    assert found.energy_joules == 6000.0
    assert found.devices[0].mean("utilization_percent") == 40.0


def test_a_device_that_joins_late_counts_from_then_on() -> None:
    fold = RunFold()
    fold.add_all([begin(devices=(ALICE,)), RunJoined(BEGAN + 3.0, BOB)])
    fold.add_all(sample(second, 0) for second in range(1, 6))
    found = report_of(fold, alive=True, now=BEGAN + 5.0)
    assert [one.held_seconds for one in found.devices] == [5.0, 2.0]
    assert found.devices[1].wasted_seconds == 2.0
    assert found.device_seconds == 7.0


def test_a_device_that_left_and_came_back_counts_while_the_run_had_it() -> None:
    tallies = RunTallies(DEVICES, BEGAN)
    tallies.leave(BOB.uuid, BEGAN + 2.0)
    tallies.join(BOB, BEGAN + 8.0)
    held = {uuid: one["held_seconds"] for uuid, one in tallies.summary(BEGAN + 10.0, 10.0).items()}
    assert held == {ALICE.uuid: 10.0, BOB.uuid: 4.0}


def test_cost_and_co2_come_from_the_settings_and_from_nowhere_else() -> None:
    record = (begin(), sample(1), end(summary={d.uuid: used(joules=3.6e6) for d in DEVICES}))
    assert (report_on(*record).cost, report_on(*record).co2_grams) == (None, None)
    priced = report_on(*record, prices=Prices(0.30, "EUR", 400.0))
    assert priced.cost == pytest.approx(0.6)
    assert priced.co2_grams == pytest.approx(800.0)


def test_a_sum_without_one_device_is_not_known() -> None:
    found = report_on(begin(), end(summary={"GPU-a": used()}))
    assert found.energy_joules is None
    assert found.wasted_seconds is None
    assert found.devices[1].readings == {}


def test_a_run_that_goes_on_is_reported_as_far_as_it_went() -> None:
    found = report_on(begin(), sample(1, 0), sample(2, 100), alive=True, now=BEGAN + 30)
    assert found.state is RunState.RUNNING
    assert found.duration_seconds == 30.0
    assert found.devices[0].most("utilization_percent") == 100


def test_of_an_unfinished_record_whose_ends_alone_were_read_samples_are_not_known() -> None:
    fold = RunFold(tallying=False)
    fold.add_all([begin(devices=(ALICE,)), sample(1), sample(2)])
    found = report_of(fold, whole=False)
    assert (found.samples, found.devices[0].samples) == (None, None)


def test_idleness_is_no_throttling_and_the_largest_share_comes_first() -> None:
    shares = {"gpu_idle": 0.5, "sw_power_cap": 0.1, "hw_slowdown": 0.2, "sync_boost": 0.0}
    found = report_on(begin(), end(summary={"GPU-a": {**used(), "throttle_by_cause": shares}}))
    assert list(found.devices[0].throttle_shares) == ["hw_slowdown", "sw_power_cap"]


def test_only_the_latest_alerts_are_listed_and_all_are_counted() -> None:
    alerts = [RunAlert(BEGAN + n, "thermal", "warning", "firing", f"hot {n}") for n in range(80)]
    found = report_on(begin(), *alerts, end())
    assert (found.alert_count, len(found.alerts)) == (80, 50)
    assert found.alerts[-1].message == "hot 79"


@pytest.mark.parametrize(
    ("percents", "starved"), [((10, 40, 0, 60, 0, 50), True), ((95, 99, 97, 99, 98, 99), False)]
)
def test_a_starved_loader_is_told_from_a_busy_one_by_the_record(
    percents: tuple[float, ...], starved: bool
) -> None:
    mean = sum(percents) / len(percents)
    at = tuple(10.0 * place for place in range(len(percents)))
    summary = {d.uuid: used(mean) for d in DEVICES}
    series = RunSeries(at, {d.uuid: {"utilization_percent": percents} for d in DEVICES})
    cpu = {"cpu_percent": {"min": 90.0, "mean": 98.0, "p95": 99.0, "max": 99.0}}
    last = end(summary=summary, series=series, node=cpu, duration_seconds=60.0)
    words = [advice.text for advice in advice_on(report_on(begin(), last))]
    assert any("the loader starves it; CPU was at 98 %" in line for line in words) is starved


def test_the_phases_of_a_run_leave_out_what_is_idle_at_both_ends() -> None:
    at = [float(10 * place) for place in range(10)]
    found = phases_of(at, [0, 1, 90, 80, None, 100, 90, 0, 0, 0], 100.0)
    assert found is not None
    assert (found.idle_before_seconds, found.idle_after_seconds) == (20.0, 30.0)
    assert (found.working_seconds, found.busy_percent) == (50.0, 90.0)


@pytest.mark.parametrize("busy", [[], [90.0] * 3, [None] * 9, [0.0] * 9])
def test_too_little_to_tell_has_no_phases(busy: list[float | None]) -> None:
    assert phases_of([float(n) for n in range(len(busy))], busy, 9.0) is None


@given(st.lists(st.none() | st.floats(0, 100), max_size=40), st.floats(0, 1e5))
def test_phases_never_last_longer_than_the_run(busy: list[Any], more: float) -> None:
    duration = len(busy) + more
    found = phases_of([float(n) for n in range(len(busy))], busy, duration)
    if found is not None:
        parts = (found.idle_before_seconds, found.working_seconds, found.idle_after_seconds)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(duration)


def test_items_are_counted_by_the_device_that_did_them() -> None:
    items = [
        item(1, ItemState.START), item(1), item(2), item(3, ItemState.FAILED),
        item(3, ItemState.RETRY), item(4, on="1"), item(5, on=None),
    ]  # fmt: skip
    found = items_by_device(items, DEVICES, 10.0)
    first, second = found[ALICE.uuid], found[BOB.uuid]
    assert (first.done, first.failed, first.retried) == (2, 1, 1)
    assert (first.mean_seconds, first.per_second) == (2.0, 0.2)
    assert second.done == 1


def test_an_item_without_a_device_is_of_the_only_one() -> None:
    assert items_by_device([item(1, on=None)], [ALICE], None)[ALICE.uuid].per_second is None


@pytest.mark.parametrize(
    ("steps", "rate"),
    [([], None), ([5.0], None), ([1.0, 21.0], 2.0), ([3.0, 3.0], None), ([9.0, 1.0], None)],
)
def test_steps_by_time_need_two_that_advance(steps: list[float], rate: float | None) -> None:
    logged = [RunLogged(BEGAN + 10 * place, {}, step) for place, step in enumerate(steps)]
    assert steps_per_second(logged) == rate


def test_of_steps_that_went_back_there_is_no_rate() -> None:
    """The last is not as far from the first as they were many."""

    def rate(*steps: float) -> float | None:
        lines = (RunLogged(BEGAN + n, {"loss": 1.0}, step) for n, step in enumerate(steps))
        return report_on(begin(), *lines, end()).steps_per_second

    assert (rate(0, 10, 20), rate(0, 10, 5)) == (10.0, None)


def test_of_a_finished_record_samples_are_passed_over_and_nothing_else() -> None:
    lines: list[RunLine] = [begin(), sample(1), item(1), sample(2), end()]
    data = "".join(map(line_to_text, lines)).encode()
    reader = RecordLines(skipped=(SAMPLE,))
    assert [type(line) for line in reader.feed(data)] == [RunBegin, RunItem, RunEnd]
    assert reader.unreadable == 0
    assert line_to_text(sample(1)).encode().startswith(SAMPLE)
