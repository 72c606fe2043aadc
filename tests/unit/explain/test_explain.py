"""What each rule says about states, heat and fans, and when it keeps silent."""

import pytest
from msgspec.structs import replace

from andon.explain.why import explain, explain_absence, explain_node
from andon.model.device import (
    Fault,
    Limits,
    MemoryKind,
    Snapshot,
    State,
)
from andon.units import GIB
from tests.support.explaining import (
    ALICE,
    AT,
    BOB,
    IDLE,
    TRAINING,
    UUID,
    card,
    codes,
    film,
    node,
    of,
    why,
)

# Nothing is wrong.


def test_a_healthy_full_load_has_nothing_wrong_with_it() -> None:
    reasons = why(
        card(
            TRAINING,
            replace(ALICE, memory_bytes=135 * GIB),
            memory_used_bytes=136 * GIB,
            power_watts=693.0,
            sm_clock_mhz=1755,
            throttle=("sw_power_cap",),
        )
    )
    assert codes(reasons) == ["healthy", "memory_full", "power_bound"]
    assert not any(reason.is_trouble for reason in reasons)
    assert reasons[0].sentence.startswith("OK: 99 % busy, 66 °C")
    assert reasons[1].process is not None


def test_an_idle_device_that_nobody_holds_is_fine() -> None:
    reasons = why(card(IDLE))
    assert codes(reasons) == ["healthy"]
    assert "no compute processes" in reasons[0].sentence
    assert reasons[0].confidence_label == "certain"


def test_an_idle_card_that_rests_its_link_is_fine() -> None:
    assert codes(why(card(IDLE, pcie_generation=1, pcie_width=8))) == ["healthy"]


def test_nothing_is_less_certain_where_less_is_known() -> None:
    reasons = why(card({"utilization_percent": 50, "memory_used_bytes": GIB}))
    assert reasons[0].code == "healthy"
    assert reasons[0].confidence_label == "likely"


# States.


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (State.LOST, "lost"),
        (State.STALE, "hung"),
        (State.ASLEEP, "asleep"),
        (State.UNKNOWN, "unreported"),
    ],
)
def test_a_device_that_says_nothing_is_judged_by_its_state_alone(state: State, code: str) -> None:
    hot = card(TRAINING, temperature_celsius=99, throttle=("hw_thermal_slowdown",))
    silent = replace(hot, state=state, reason="because 42", hint="reboot it")
    (reason,) = why(silent)
    assert reason.code is code
    assert "because 42" in reason.sentence


def test_the_hint_of_a_lost_device_is_the_advice_and_its_last_heat_the_evidence() -> None:
    (reason,) = why(replace(card(TRAINING), state=State.LOST, hint="reboot it"))
    assert reason.advice == "Reboot it."
    found = {one.name: one.value for one in reason.evidence}
    assert (found["last.temperature_celsius"], found["state_seconds"]) == (66, 999.0)


def test_a_device_lost_with_its_driver_is_told_as_the_drivers_trouble() -> None:
    words = "the driver and its library have different versions"
    (reason,) = why(replace(card(TRAINING), state=State.LOST, reason=words))
    assert reason.code == "version_mismatch"


def test_a_device_that_is_no_longer_listed_is_lost() -> None:
    past = [node(card(TRAINING), at=AT - 5), node(at=AT)]
    (reason,) = explain(past, UUID)
    assert reason.code == "lost"
    assert "5 s ago" in reason.sentence


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("the NVIDIA library libnvidia-ml.so.1 was not found", "no_driver"),
        ("the NVIDIA driver is not loaded", "no_driver"),
        ("the driver and its library have different versions", "version_mismatch"),
        ("no permission to use the NVIDIA driver", "no_permission"),
        ("the operating system blocked the driver", "no_permission"),
        ("no device was found", "no_device"),
        ("something new", "no_driver"),
    ],
)
def test_a_node_without_a_device_says_why(words: str, code: str) -> None:
    snapshot = Snapshot("n", AT, faults=(Fault("nvidia", words, "do this"),))
    (reason,) = explain_absence([snapshot])
    assert (reason.code, reason.advice) == (code, "Do this.")
    assert explain([snapshot], "any") == (reason,)


def test_a_node_with_neither_device_nor_fault_has_no_device() -> None:
    assert codes(explain_absence([Snapshot("n", AT)])) == ["no_device"]
    assert codes(explain_absence([])) == ["no_device"]
    assert codes(explain([], UUID)) == ["no_device"]
    assert explain_node([]) == {}


def test_unknown_values_are_told_with_their_reasons_and_nothing_is_concluded() -> None:
    blank = replace(card({}), missing={"utilization_percent": "no permission"})
    (reason,) = why(blank)
    assert reason.code == "unreadable"
    assert ("missing.utilization_percent", "no permission") in [
        (e.name, e.value) for e in reason.evidence
    ]


def test_a_device_without_a_fan_or_a_thermometer_can_still_be_judged() -> None:
    reasons = why(card({**TRAINING, "temperature_celsius": None}))
    assert codes(reasons) == ["healthy", "unreadable"]


def test_a_mig_instance_says_why_it_shows_little_and_its_board_that_it_is_divided() -> None:
    board = replace(card(TRAINING, utilization_percent=None), missing={})
    part = card({"memory_used_bytes": 30 * GIB}, BOB, number=1)
    part = replace(part, device=replace(part.device, parent=UUID, limits=Limits()))
    assert codes(why(board, part, uuid="GPU-1")) == ["partitioned"]
    assert codes(why(board, part)) == [
        "partitioned",
        "healthy",
        "unreadable",
    ]


def test_unified_memory_is_a_fact_and_no_ghost() -> None:
    plain = card(TRAINING)
    shared = replace(plain, device=replace(plain.device, memory_kind=MemoryKind.UNIFIED))
    assert codes(why(shared)) == ["healthy", "unified"]


# Heat and fan.


def test_a_thermal_slowdown_is_heat_with_what_it_costs_and_who_works() -> None:
    reasons = why(
        card(
            TRAINING, ALICE, temperature_celsius=91, sm_clock_mhz=990,
            throttle=("hw_slowdown", "hw_thermal_slowdown"),
        )
    )  # fmt: skip
    assert codes(reasons) == ["heat"]
    assert "91 °C (slows down at 89 °C)" in reasons[0].sentence
    assert "50 % below maximum" in reasons[0].sentence
    assert reasons[0].process == ALICE


def test_where_the_shares_are_unknown_heat_is_of_who_holds_most() -> None:
    both = [replace(p, utilization_percent=None) for p in (ALICE, BOB)]
    heat = of("heat", why(card(TRAINING, *both, throttle=("sw_thermal_slowdown",))))
    most = max((ALICE, BOB), key=lambda one: one.memory_bytes or 0)
    assert heat.process is not None
    assert heat.process.pid == most.pid


def test_heat_of_equals_names_all_of_them() -> None:
    crowd = [replace(p, utilization_percent=50) for p in (ALICE, BOB)]
    heat = of("heat", why(card(TRAINING, *crowd, throttle=("sw_thermal_slowdown",))))
    assert heat.process is None
    assert heat.blamed.startswith("2 processes of ")


@pytest.mark.parametrize(("celsius", "weighty"), [(79, None), (80, False), (84, True)])
def test_hot_is_near_its_own_limit_or_warm_by_any_measure(
    celsius: int, weighty: bool | None
) -> None:
    reasons = why(card(TRAINING, temperature_celsius=celsius))
    found = [reason.weight > 60 for reason in reasons if reason.code == "hot"]
    assert found == ([] if weighty is None else [weighty])


def test_an_old_driver_that_names_only_the_hardware_means_heat_above_the_limit() -> None:
    slowed = card(TRAINING, temperature_celsius=90, throttle=("hw_slowdown",), sm_clock_mhz=600)
    (reason,) = why(slowed)
    assert (reason.code, reason.confidence_label) == ("heat", "likely")


def test_hot_memory_under_a_cool_chip_is_what_slows_it_down() -> None:
    slowed = card(TRAINING, memory_temperature_celsius=110, throttle=("sw_thermal_slowdown",))
    (reason,) = why(slowed)
    assert reason.sentence == (
        "GPU 0 is thermally throttled by its memory: 110 °C, while the chip is at 66 °C, "
        "clock 4 % below maximum."
    )


def test_hot_memory_is_told_apart_from_a_hot_chip() -> None:
    reasons = why(card(TRAINING, memory_temperature_celsius=106))
    assert codes(reasons) == ["memory_heat"]


def test_the_fan_is_explained_by_heat_and_load() -> None:
    reasons = why(card(TRAINING, ALICE, fan_percent=50))
    assert codes(reasons) == ["healthy", "fan"]
    assert reasons[1].process == ALICE


def test_a_loud_fan_is_what_people_ask_about_and_no_trouble() -> None:
    reasons = why(card(TRAINING, ALICE, fan_percent=82))
    assert codes(reasons) == ["fan", "healthy"]
    assert not any(reason.is_trouble for reason in reasons)
    assert reasons[0].advice.startswith("Nothing to do")
    hot = why(card(TRAINING, ALICE, fan_percent=100, temperature_celsius=91))
    [fan] = [reason for reason in hot if reason.code == "fan"]
    assert fan.advice.startswith("The fan is doing its job")


def test_a_fan_that_runs_on_an_idle_cool_card_is_odd() -> None:
    assert codes(why(card(IDLE, fan_percent=60))) == ["fan_idle"]


def test_a_fan_that_runs_on_after_work_is_not_odd() -> None:
    warm = {**IDLE, "temperature_celsius": 48, "fan_percent": 45}
    past = film(3, 1.0, lambda k: {**warm, "utilization_percent": 0 if k else 90})
    assert codes(explain(past, UUID)) == ["healthy", "fan"]


def test_a_card_that_works_a_little_all_the_time_does_not_cool_down() -> None:
    light = {**IDLE, "utilization_percent": 10, "temperature_celsius": 41, "fan_percent": 33}
    reasons = explain(film(5, 1.0, lambda k: light), UUID)
    sentence = next(reason.sentence for reason in reasons if reason.code == "fan")
    assert sentence == "Fan at 33 %: the GPU is lightly used (10 %)."


def test_a_quiet_fan_at_a_third_is_how_some_cards_idle() -> None:
    assert codes(why(card(IDLE, fan_percent=33))) == ["healthy"]


def test_a_fan_that_stands_on_a_hot_card_has_failed() -> None:
    reasons = why(card(TRAINING, temperature_celsius=86, fan_percent=0))
    assert codes(reasons)[:2] == ["fan_failed", "hot"]
    assert "fan_failed" not in codes(why(card(IDLE, fan_percent=0)))
