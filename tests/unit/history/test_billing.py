"""What people are billed by: energy, idle time and hours, whoever asks, at every interval."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.history.rules.ledger import UseLedger, changed_at
from andon.model.run.energy import EnergyMeter
from tests.support.billing import HELD_WATTS, Load, Meter, Recording
from tests.support.history_parts import AT, upkeep

HOUR, DAY = 3600.0, 86_400.0
NOON = AT + DAY + 12 * HOUR
SPAN = NOON - 120.0, NOON + 240.0
INTERVALS = (1.0, 5.0, 20.0)
RANGES = (HOUR, DAY, 7 * DAY)


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("phase", [0.3, 0.7])
def test_a_short_load_is_billed_by_the_counter_at_every_interval_and_range(
    interval: float, phase: float
) -> None:
    load = Load(NOON + 7.0, NOON + 51.0)
    recording = Recording([load], SPAN)
    recording.play(interval, phase * interval)
    joules = recording.meters[0].joules(load.last) - recording.meters[0].joules(load.first)
    for seconds in RANGES:
        ada = recording.users(SPAN[1] - seconds, SPAN[1])["ada"]
        assert ada.energy_joules == pytest.approx(joules, rel=0.02)
        assert ada.device_seconds == pytest.approx(44.0, rel=0.03)


@pytest.mark.parametrize("seconds", RANGES)
def test_the_idle_share_of_a_process_that_rests_half_of_its_time_is_a_half(seconds: float) -> None:
    recording = Recording([Load(NOON + 10.0, NOON + 70.0, rests=6.0)], SPAN)
    recording.play(1.0, 0.4)
    ada = recording.users(SPAN[1] - seconds, SPAN[1])["ada"]
    assert ada.idle_share == pytest.approx(0.5, abs=0.03)
    assert ada.energy_joules == pytest.approx(30 * (700 + HELD_WATTS), rel=0.02)


def test_a_counter_that_was_read_before_the_server_recorded_counts() -> None:
    """Another caller may have had it read: the first snapshot of the recorder has it, but older."""
    load = Load(NOON + 7.0, NOON + 51.0)
    recording = Recording([load], (NOON - 16.0, NOON + 240.0))
    recording.take(NOON - 16.0)
    recording.ledger = UseLedger()  # that snapshot was another caller's
    for tick in range(10):
        recording.take(NOON - 15.0 + 20.0 * tick)
    ada = recording.users(NOON - 120.0, NOON + 240.0)["ada"]
    assert ada.energy_joules == pytest.approx(44 * 700, rel=0.02)


def test_a_device_without_a_counter_is_billed_by_its_power() -> None:
    recording = Recording([Load(NOON + 7.0, NOON + 51.0)], SPAN, counter=False)
    recording.play(1.0)
    ada = recording.users(SPAN[0], SPAN[1])["ada"]
    assert ada.energy_joules == pytest.approx(44 * 700, rel=0.03)


def test_a_counter_that_begins_again_counts_on() -> None:
    lost = Meter([Load(NOON, NOON + 200.0)], *SPAN).joules(NOON + 90.0)
    recording = Recording(
        [Load(NOON, NOON + 200.0)], SPAN, resets=lambda at: lost if at >= NOON + 90.0 else 0.0
    )
    recording.play(5.0, 1.0)
    ada = recording.users(SPAN[0], SPAN[1])["ada"]
    assert ada.energy_joules == pytest.approx(200 * 700, rel=0.03)


@pytest.mark.parametrize("step", [-31.0, -59.0, 31.0, 59.0])
def test_a_clock_that_is_set_bills_nothing_twice_and_gives_nothing_back(step: float) -> None:
    recording = Recording([Load(NOON + 7.0, NOON + 190.0)], SPAN)
    used = list[float]()
    for tick in range(360):
        recording.ahead = step if tick >= 150 else 0.0
        points = [one for point in recording.take(SPAN[0] + tick) for one in point.readings]
        used += [values[0] / 10 for _, metrics, values in points if metrics[0] == "used_joules"]
    assert min(used) >= 0
    assert sum(used) == pytest.approx(183 * 700, rel=0.02)


def test_what_happened_while_no_server_ran_is_unknown() -> None:
    recording = Recording([Load(NOON - 100.0, NOON + 230.0)], SPAN)
    recording.play(1.0, away=(NOON, NOON + 120.0))
    ada = recording.users(SPAN[0], SPAN[1])["ada"]
    assert ada.device_seconds == pytest.approx(210.0, abs=2.0)
    assert ada.energy_joules == pytest.approx(210 * 700, rel=0.03)


@pytest.mark.parametrize("away", [0.0, 3 * DAY])
def test_tiers_give_the_same_answer(away: float) -> None:
    """A row of a coarser tier is as long as a bucket, or divides it."""
    recording = Recording(
        [Load(NOON + 7.0, NOON + 51.0), Load(NOON + 70.0, NOON + 200.0, "bob", 8, rests=3.0)], SPAN
    )
    recording.play(5.0, 2.0)
    fresh = recording.users(*SPAN)
    upkeep(recording.store, NOON + DAY + away)
    later = recording.users(*SPAN)
    for user, one in fresh.items():
        assert later[user].energy_joules == pytest.approx(one.energy_joules, rel=0.001)
        assert later[user].idle_share == pytest.approx(one.idle_share, abs=0.001)
        assert later[user].device_seconds == one.device_seconds


def test_the_shares_of_those_who_share_a_device_are_the_devices_energy() -> None:
    loads = [Load(NOON, NOON + 120.0), Load(NOON, NOON + 120.0, "bob", 8)]
    recording = Recording(loads, SPAN)
    recording.play(1.0, 0.5)
    found = recording.users(*SPAN)
    assert found["ada"].energy_joules == pytest.approx(120 * 700 / 2, rel=0.03)
    assert found["ada"].energy_joules == pytest.approx(found["bob"].energy_joules, rel=0.01)


def _loads(parts: Sequence[tuple[str, float, float, float]]) -> list[Load]:
    return [
        Load(NOON + 20 * first, NOON + 20 * first + length, user, pid, rests=rests, device=pid % 2)
        for pid, (user, first, length, rests) in enumerate(parts)
    ]


STORIES = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "eve"]),
        st.integers(0, 6).map(float),
        st.integers(5, 90).map(float),
        st.sampled_from([0.0, 2.0]),
    ),
    min_size=1,
    max_size=4,
).map(_loads)


@pytest.mark.slow
@given(STORIES, st.sampled_from(INTERVALS), st.integers(0, 2))
def test_any_split_of_time_or_of_users_sums_to_the_whole(
    loads: list[Load], interval: float, part: int
) -> None:
    """Splits are between buckets: within one, time decides."""
    recording = Recording(loads, SPAN)
    recording.play(interval, 0.2 * interval)
    cut = SPAN[0] + 120.0 * part
    whole = recording.users(*SPAN)
    parts = [recording.users(SPAN[0], cut) if cut > SPAN[0] else {}, recording.users(cut, SPAN[1])]
    for user, one in whole.items():
        mine = [part[user] for part in parts if user in part]
        assert sum(part.joules for part in mine) == pytest.approx(one.joules, rel=1e-6, abs=1.0)
        assert sum(part.device_seconds for part in mine) == pytest.approx(one.device_seconds)
        assert sum(p.idle_seconds for p in mine) == pytest.approx(one.idle_seconds, abs=0.1)


@pytest.mark.slow
@given(STORIES, st.sampled_from(INTERVALS))
def test_a_person_a_run_and_a_device_agree(loads: list[Load], interval: float) -> None:
    recording = Recording(loads, SPAN)
    recording.play(interval, 0.4 * interval)
    billed = sum(one.joules for one in recording.users(*SPAN).values())
    whole, gap = 0.0, 0.0
    for meter in recording.meters:
        in_use = [
            at for at in range(int(SPAN[0]), int(SPAN[1])) if any(x.is_on(at) for x in meter.loads)
        ]
        run = EnergyMeter(SPAN[0])
        for at in range(int(SPAN[0]), int(SPAN[1])):
            run.add(at, meter.watts(at), meter.joules(at) if at % 10 == 0 else None)
        assert (run.until(SPAN[1]) or (0.0, ""))[0] == pytest.approx(
            meter.joules(SPAN[1]) - meter.joules(SPAN[0]), rel=0.01
        )
        whole += sum(meter.joules(at + 1.0) - meter.joules(at) for at in in_use)
        gap += (
            700.0 * interval * len({x.first for x in meter.loads} | {x.last for x in meter.loads})
        )
    assert billed == pytest.approx(whole, rel=0.05, abs=gap)


@given(st.floats(0, 800), st.floats(0, 800), st.floats(0.1, 60), st.floats(0, 1))
def test_the_counter_tells_when_power_changed(
    before: float, after: float, gap: float, part: float
) -> None:
    joules = before * part * gap + after * (1 - part) * gap
    found = changed_at((0.0, gap), (before, after), joules)
    assert 0.0 <= found <= gap
    if abs(after - before) >= 50:
        assert found == pytest.approx(max(part * gap, min(0.04, gap)), abs=0.01)
