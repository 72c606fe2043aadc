"""What holds for any row of looks, whatever they show; and the words of every rule."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules import commands
from andon.alerts.rules.commands import acknowledge, current, unacknowledge, unsilence
from andon.alerts.rules.persistence import dump, restore
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.errors import Conflict, Gone, Invalid
from andon.explain.conditions.catalogue import BY_NAME, RULES
from andon.explain.conditions.condition import SERVED, described, inactive_reason, severity
from andon.explain.conditions.finding import HOLDS, Finding
from andon.explain.conditions.memory.memory_leak import Filling
from andon.explain.conditions.rulebook import Override, Rulebook, thresholds
from andon.explain.evidence.forecast import Arrival, Trend
from andon.explain.evidence.observation import (
    HeldDevices,
    Moment,
    Observation,
    OwnTrouble,
    PreviousLease,
    Sharing,
)
from andon.model.alert import Level, NoticeKind, Phase, Silence
from andon.model.device import (
    Device,
    DeviceStatus,
    Host,
    Limits,
    Process,
    Sample,
    Snapshot,
)
from andon.model.device import State as DeviceState
from andon.model.event import Event, EventKind
from tests.support.invariants import check_alerts
from tests.support.snapshots import h200
from tests.support.views import facts

AT, STEADY, GIB = 1_767_614_400.0, 1000.0, 2**30
H200 = Device("GPU-0", 0, "nvidia", "NVIDIA H200", memory_total_bytes=141 * GIB,
              limits=Limits(89, 700.0, 5, 16, 1980))  # fmt: skip


def snapshot(at: float = AT, device: Device = H200, **values: Any) -> Snapshot:
    sample = Sample(at, **{"temperature_celsius": 40, "utilization_percent": 0} | values)
    who = (Process(4101, user="alice", name="python", command="python train.py"),)
    status = DeviceStatus(device, DeviceState.OK, at, sample=sample, processes=who)
    return Snapshot("node17", at, boot="one", devices=(status,))


def played(*temperatures: int, every: float = 30.0) -> AlertState:
    state, book = EMPTY, Rulebook()
    for place, celsius in enumerate(temperatures):
        seen = Observation(snapshot(AT + place * every, temperature_celsius=celsius))
        moment = Moment(AT + place * every, STEADY + place * every)
        state = step(state, seen, moment, book).state
    return state


# Any looks at all.

NUMBERS = st.none() | st.integers(0, 130)
REASONS = st.none() | st.lists(
    st.sampled_from(["sw_power_cap", "hw_thermal_slowdown", "hw_slowdown", "gpu_idle"]), max_size=2
).map(tuple)
SAMPLES = st.builds(
    Sample,
    at=st.just(AT),
    temperature_celsius=NUMBERS,
    utilization_percent=st.none() | st.sampled_from([0, 3, 60, 100]),
    memory_used_bytes=st.none() | st.integers(0, 150 * GIB),
    power_watts=st.none() | st.sampled_from([75.0, 693.0]),
    power_limit_watts=st.none() | st.sampled_from([0.0, 500.0, 700.0]),
    fan_percent=NUMBERS,
    sm_clock_mhz=NUMBERS,
    throttle=REASONS,
    ecc_uncorrected=st.none() | st.integers(0, 3),
)
STATUSES = st.builds(
    DeviceStatus,
    device=st.sampled_from([H200, replace(H200, uuid="GPU-1", index=1),
                            Device("MIG-0", 0, "nvidia", "MIG", parent="GPU-0")]),
    state=st.sampled_from(DeviceState),
    since=st.just(AT),
    sample=st.none() | SAMPLES,
    processes=st.sampled_from([(), (Process(9, user="dan", memory_bytes=5 * GIB),)]),
)  # fmt: skip
HELD = HeldDevices("lease:1", ("GPU-0", "GPU-9"), AT, "alice")
EVENTS = st.builds(Event, kind=st.sampled_from(EventKind), at=st.just(AT),
                   uuid=st.sampled_from([None, "GPU-0", "GPU-9"]),
                   code=st.sampled_from([None, 13, 48, 79, 999]))  # fmt: skip
OBSERVATIONS = st.builds(
    Observation,
    snapshot=st.builds(
        Snapshot,
        node=st.just("n"),
        at=st.just(AT),
        host=st.builds(Host, cpu_percent=NUMBERS, memory_used_bytes=NUMBERS,
                       memory_total_bytes=st.sampled_from([None, 0, 130])),
        devices=st.lists(STATUSES, max_size=3, unique_by=lambda s: s.device.uuid).map(tuple),
    ),
    events=st.lists(EVENTS, max_size=2).map(tuple),
    troubles=st.sampled_from(
        [(), (OwnTrouble("store", "full"),), (OwnTrouble("notifier:x", "no"),)]
    ),
    leases=st.sampled_from([None, (), (HELD,), (HELD, replace(HELD, id="lease:2", orphaned=True))]),
    sharing=st.builds(Sharing, strangers=st.sampled_from([{}, {"GPU-0": frozenset({9})}]),
                      unsure=st.sampled_from([frozenset(), frozenset({"GPU-0", "GPU-1"})]),
                      former=st.sampled_from([{}, {"GPU-1": PreviousLease("lease:0", "bob", AT)}])),
)  # fmt: skip
LOOKS = st.lists(
    st.tuples(OBSERVATIONS, st.sampled_from([1.0, 30.0, 400.0, 90_000.0, -5.0])), max_size=12
)


@pytest.mark.slow
@given(LOOKS)
def test_any_looks_leave_a_valid_state_and_sensible_notices(
    looks: list[tuple[Observation, float]],
) -> None:
    state, book, steady = EMPTY, Rulebook(), STEADY
    told: dict[str, list[NoticeKind]] = {}
    for seen, passed in looks:
        steady += passed
        outcome = step(state, seen, Moment(AT + steady, steady), book)
        state = outcome.state
        check_alerts(state)
        for notice in outcome.notices:
            before = told.setdefault(notice.alert.id, [])
            assert (notice.kind is NoticeKind.FIRING) == (not before)
            assert NoticeKind.RESOLVED not in before
            before.append(notice.kind)
        for alert in current(state):
            assert alert.message
            assert alert.advice
            assert 0 <= alert.severity <= 100


def standing(state: AlertState) -> list[dict[str, Any]]:
    """Where every episode stands, without the numbers that were drawn when it last changed."""
    shown = ("id", "state", "level", "notified", "no_data_since", "inhibited_by", "resolved")
    found: list[dict[str, Any]] = dump(state)["episodes"]
    return [one | {"alert": {name: one["alert"][name] for name in shown}} for one in found]


@pytest.mark.slow
@given(LOOKS, LOOKS)
def test_a_restart_changes_nothing(
    before: list[tuple[Observation, float]], after: list[tuple[Observation, float]]
) -> None:
    """What was dumped and restored goes on exactly like what was not; only trends begin anew."""
    book, steady, state = Rulebook(thresholds(off=frozenset({"memory_leak"}))), STEADY, EMPTY
    for seen, passed in before:
        steady += abs(passed)
        state = step(state, seen, Moment(AT + steady, steady), book).state
    dumped = json.loads(json.dumps(dump(state)))
    other = restore(dumped, Moment(AT + steady, steady), state.boot)
    assert dump(other) == dumped
    steady += 10.0  # reasons that flicker are forgotten in a restart, and after five seconds
    for seen, passed in after:
        steady += abs(passed)
        one = step(state, seen, Moment(AT + steady, steady), book)
        two = step(other, seen, Moment(AT + steady, steady), book)
        assert [n.id for n in one.notices] == [n.id for n in two.notices]
        state, other = one.state, two.state
        assert standing(state) == standing(other)


@pytest.mark.slow
@given(LOOKS)
def test_a_step_does_not_change_the_state_that_it_is_given(
    looks: list[tuple[Observation, float]],
) -> None:
    state, book, steady = EMPTY, Rulebook(), STEADY
    for seen, passed in looks:
        steady += abs(passed)
        before = json.dumps(dump(state))
        after = step(state, seen, Moment(AT + steady, steady), book).state
        assert json.dumps(dump(state)) == before
        state = after


# Commands.


def test_only_what_is_pending_or_firing_can_be_acknowledged() -> None:
    state, moment = played(85), Moment(AT, STEADY)
    with pytest.raises(Gone):
        acknowledge(state, "thermal@GPU-0#1", "bob", "", moment)
    found = current(state)[0].id
    state = acknowledge(state, found, "bob", "seen", moment).state
    seen = current(state)[0].acknowledged
    assert seen is not None
    assert (seen.by, seen.note) == ("bob", "seen")
    state = unacknowledge(state, found, moment).state
    with pytest.raises(Conflict):
        unacknowledge(state, found, moment)


@pytest.mark.parametrize(
    "silence",
    [
        Silence("s", AT),
        Silence("s", AT + 10 * 366 * 86_400),
        Silence("s", AT + 60, rule="themal"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(silence: Silence) -> None:
    with pytest.raises(Invalid):
        commands.silence(EMPTY, silence, Moment(AT, STEADY))


def test_a_silence_stands_once_and_ends_once() -> None:
    moment = Moment(AT, STEADY)
    state = commands.silence(EMPTY, Silence("s", AT + 60), moment).state
    with pytest.raises(Conflict):
        commands.silence(state, Silence("s", AT + 60), moment)
    state = unsilence(state, "s", moment).state
    with pytest.raises(Gone):
        unsilence(state, "s", moment)


def test_the_current_alerts_have_the_numbers_of_the_last_look() -> None:
    alert = current(played(*[85] * 4, 87))[0]
    assert (alert.state, alert.value, alert.limit) == (Phase.FIRING, 87, 89)
    assert alert.message == "GPU 0 is too hot: 87 °C (alert above 80 °C, slows down at 89 °C)"
    assert [party.user for party in alert.affected] == ["alice"]


def test_a_device_that_warms_steadily_says_when_it_slows_down() -> None:
    state, book = EMPTY, Rulebook()
    for look in range(130):
        celsius = 70 + look * 16 // 130
        at = look * 10.0
        seen = Observation(snapshot(AT + at, temperature_celsius=celsius))
        state = step(state, seen, Moment(AT + at, STEADY + at), book).state
    alert = next(a for a in current(state) if a.rule == "thermal")
    assert "reached in about 5 min" in alert.message
    low, high = (alert.evidence[f"slowdown_in_{n}_seconds"] for n in ("earliest", "latest"))
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    assert low < alert.evidence["slowdown_in_seconds"] < high  # type: ignore[operator]


def test_a_throttle_says_for_how_much_of_the_last_hour() -> None:
    state, book = EMPTY, Rulebook()
    for look in range(40):
        at, reasons = look * 10.0, ("sw_thermal_slowdown",) if look >= 30 else ()
        seen = Observation(snapshot(AT + at, throttle=reasons))
        state = step(state, seen, Moment(AT + at, STEADY + at), book).state
    alert = current(state)[0]
    assert alert.rule == "throttle_thermal"
    assert alert.message == (
        "GPU 0 is thermally throttled: 40 °C (slows down at 89 °C), 25 % of the last 7 min"
    )
    assert alert.evidence["last_hour_percent"] == pytest.approx(25, abs=1)


@pytest.mark.parametrize(
    "broken",
    [{}, {"schema": "andon.alerting/9"}, {"episodes": [{}]}, {"ecc": {"x": "y"}}, {"ended": 3}],
)
def test_a_state_that_cannot_be_read_is_refused(broken: dict[str, object]) -> None:
    data = dump(played(85)) | broken if broken else {}
    with pytest.raises(Invalid):
        restore(data, Moment(AT, STEADY), "one")


def test_an_error_is_reported_although_the_clock_was_set_back_since_the_last_one() -> None:
    state, book = EMPTY, Rulebook()
    for wall, steady in ((AT, STEADY), (AT - 7200, STEADY + 60), (AT - 7199, STEADY + 61)):
        event = Event(EventKind.XID, "GPU-0", wall, 79)
        seen = Observation(snapshot(wall), (event,))
        outcome = step(state, seen, Moment(wall, steady), book)
        taken = outcome.state.findings.get("GPU-0", {}).get("xid")
        assert (taken is not None) is (wall != AT - 7199)  # that is the same one, seen twice
        state = outcome.state


@pytest.mark.parametrize("change", [{"alert": {"rule": "of_a_later_version"}}, {"held": [None]}])
def test_an_alert_of_another_versions_rule_ends_and_the_others_go_on(
    change: dict[str, Any],
) -> None:
    before = played(*[85] * 4, 91, 91, 91)
    data = json.loads(json.dumps(dump(before)))
    (old,) = data["episodes"]
    assert old["notified_rank"] is not None
    alert = old["alert"] | change.get("alert", {})
    data["episodes"] = [{**old, **change, "alert": alert}]
    moment = Moment(AT + 300, STEADY + 300)
    state = restore(data, moment, "one")
    seen = Observation(snapshot(AT + 300, temperature_celsius=40))
    outcome = step(state, seen, moment, Rulebook())
    check_alerts(outcome.state)
    assert [(n.kind, n.alert.id) for n in outcome.notices] == [(NoticeKind.RESOLVED, alert["id"])]


# The catalogue.


def test_a_forecast_names_its_bounds() -> None:
    about = Filling(Trend(2**20, 2**19, 2**21, 2**33, 900), Arrival(2400, 2100, 2820))
    said = described(BY_NAME["memory_leak"], facts(Finding((HOLDS,), about=about)))
    assert said is not None
    assert said.text.text == (
        "GPU 0: memory grows by 60.0 MiB a minute and will be full in about 40 min "
        "(35 min to 47 min)"
    )


def test_what_waits_for_leases_says_so() -> None:
    assert inactive_reason(BY_NAME["thermal"]) is None
    assert inactive_reason(BY_NAME["idle"]) is not None
    assert inactive_reason(BY_NAME["idle"], SERVED) is None
    assert inactive_reason(BY_NAME["squatter"], SERVED) is None


def test_heat_outranks_idleness() -> None:
    order = sorted(RULES, key=lambda rule: -severity(Level.WARNING, rule))
    names = [rule.name for rule in order]
    assert names.index("thermal") < names.index("idle")


def test_a_devices_own_figures_beat_its_models_and_those_beat_all() -> None:
    book = Rulebook(
        thresholds(thermal_celsius=70),
        [
            Override(device="GPU-0", figures={"thermal_celsius": 60}),
            Override(model="h200", figures={"thermal_celsius": 65, "memory_percent": 99}),
            Override(device=3, off=frozenset({"fan"})),
        ],
    )
    own, model = book.for_device(H200), book.for_device(replace(H200, uuid="GPU-1", index=3))
    assert (own.thermal_celsius, own.memory_percent, own.off) == (60, 99, frozenset())
    assert (model.thermal_celsius, model.off) == (65, frozenset({"fan"}))
    assert book.for_device(Device("x", 9, "amd", "MI300")).thermal_celsius == 70
    assert book.for_device(H200) is own


def test_a_reminder_has_the_numbers_of_now() -> None:
    """It repeated those of hours ago, also where the device had cooled down since."""
    state, told = EMPTY, []
    for second in range(0, 14_500, 25):
        celsius = 91 if second < 200 else 90
        seen = Snapshot("n", AT + second, devices=(h200(0, 0, temperature_celsius=celsius),))
        moment = Moment(AT + second, 1000.0 + second)
        outcome = step(state, Observation(seen), moment, Rulebook())
        state = outcome.state
        told += [(n.kind, n.alert.value) for n in outcome.notices if n.alert.rule == "thermal"]
    assert told == [("firing", 91.0), ("reminder", 90.0)]


def test_a_pending_alert_says_when_it_fires_and_a_calm_one_when_it_clears() -> None:
    def played(*celsius: int) -> tuple[float | None, float | None]:
        state = EMPTY
        for place, value in enumerate(celsius):
            at = AT + 20 * place
            seen = Snapshot("n", at, devices=(h200(0, 0, temperature_celsius=value),))
            moment = Moment(at, 1000.0 + 20 * place)
            state = step(state, Observation(seen), moment, Rulebook()).state
        (hot,) = [one for one in current(state) if one.rule == "thermal"]
        return hot.fires_in_seconds, hot.clears_in_seconds

    assert played(81) == (60.0, None)
    assert played(81, 81) == (40.0, None)
    assert played(81, 81, 81, 81) == (None, None)
    assert played(81, 81, 81, 81, 78) == (None, None)  # neither hot nor cool
    assert played(81, 81, 81, 81, 60) == (None, 120.0)
    assert played(81, 81, 81, 81, 60, 60) == (None, 100.0)
