"""The verdict on a check: by the card's own clocks, by its siblings, by its past."""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.checks.rules.judging import (
    MOST_DIFFERENCE,
    References,
    comparable,
    judged,
    lanes,
    per_clock,
)
from andon.model.check import (
    CardResult,
    CheckPart,
    CheckVerdict,
    RowRemaps,
    WrongWord,
    figures_of,
    result_of,
)
from tests.support.checks import check_result, measured, with_part
from tests.support.rows import rows

OTHERS = ("GPU-1", "GPU-2", "GPU-3")


def verdict_of(result: CardResult, **references: list[CardResult]) -> tuple[CheckVerdict, str]:
    found = judged(result, References(**references))
    return found.verdict, found.text


def test_a_healthy_card_says_with_what_it_was_compared() -> None:
    fine = (CheckVerdict.OK, "as fast as 3 others of its model here, 2 in the fleet")
    fleet = measured("GPU-8", "GPU-9")
    assert verdict_of(check_result(), local=measured(*OTHERS), fleet=fleet) == fine
    assert verdict_of(check_result()) == (CheckVerdict.OK, "as fast as its clock and bus allow")
    past = measured("GPU-0")
    assert verdict_of(check_result(), past=past) == (CheckVerdict.OK, "as fast as it was")


def test_without_a_reference_there_are_numbers_and_no_verdict() -> None:
    strange = check_result(capability="42.0", bandwidth_bytes_per_second=None)
    assert verdict_of(strange)[0] is CheckVerdict.UNJUDGED


@rows(
    "part, share, part_of_text",
    [
        ("tensor", 0.79, "tensor cores 21 % below the others"),
        ("fp32", 0.9, "FP32 10 % below the others"),
        ("memory", 0.9, "memory 10 % below the others"),
        ("to_device", 0.9, "copies to the card 10 % below the others"),
        ("from_device", 0.9, "copies from the card 10 % below the others"),
    ],
)
def test_a_card_below_its_siblings_is_slow(part: str, share: float, part_of_text: str) -> None:
    one = check_result()
    value = one.value(part)
    assert value is not None
    slow = with_part(one, part, value=value * share)
    verdict, text = verdict_of(slow, local=measured(*OTHERS))
    assert verdict is CheckVerdict.SLOW
    assert part_of_text in text


def test_two_cards_that_differ_a_little_are_no_proof() -> None:
    assert verdict_of(check_result(scale=0.93), local=measured("GPU-1"))[0] is CheckVerdict.OK
    verdict, text = verdict_of(check_result(scale=0.89), local=measured("GPU-1"))
    assert verdict is CheckVerdict.SLOW
    assert "below the other one of its model" in text


def test_siblings_that_differ_among_themselves_allow_as_much() -> None:
    wide = [
        one for n, s in enumerate((0.8, 0.9, 1.0, 1.1)) for one in measured(f"GPU-{n + 1}", scale=s)
    ]
    assert verdict_of(check_result(scale=0.86), local=wide)[0] is CheckVerdict.OK


@rows(
    "changes",
    [
        {"driver": "570.1"}, {"model": "NVIDIA H100"}, {"tests": 2},
        {"even_if_used": True}, {"simulated": True}, {"instance": True},
    ],
)  # fmt: skip
def test_others_of_another_kind_are_not_compared(changes: dict[str, object]) -> None:
    others = [replace(one, **changes) for one in measured(*OTHERS, scale=2.0)]
    assert comparable(check_result(), others) == []


def test_others_with_the_same_power_limit_are_compared_first() -> None:
    low = measured("GPU-1", scale=0.8, power_limit_watts=500.0)
    one = check_result(scale=0.8, power_limit_watts=500.0)
    assert comparable(one, [*low, *measured("GPU-2", "GPU-3")]) == low
    assert comparable(one, measured("GPU-2", "GPU-3")) == measured("GPU-2", "GPU-3")


def test_instances_are_compared_with_those_of_their_profile() -> None:
    one = check_result(instance=True, memory_total_bytes=18 << 30)
    same = measured("GPU-1", instance=True, memory_total_bytes=18 << 30)
    other = measured("GPU-2", instance=True, memory_total_bytes=35 << 30)
    assert comparable(one, [*same, *other]) == same


def test_a_card_that_became_slower_is_slow_by_its_own_past() -> None:
    verdict, text = verdict_of(check_result(scale=0.9), past=measured("GPU-0") * 3)
    assert verdict is CheckVerdict.SLOW
    assert "10 % below its own past" in text


def test_an_unhealthy_past_is_no_reference() -> None:
    past = [replace(one, verdict=CheckVerdict.WRONG) for one in measured("GPU-0", scale=2.0)]
    assert verdict_of(check_result(), past=past)[0] is CheckVerdict.OK


@rows(
    "result, explained_by, words",
    [
        (with_part(check_result(power_limit_watts=500.0), "tensor", value=513e12,
                   clock_mhz=1433.0), "power_limit_lowered",
         "below its own past · 1,433 MHz, power limit 500 of 700 W"),
        (with_part(with_part(check_result(), "to_device", value=27e9, pcie_width=8), "from_device",
                   value=27e9, pcie_width=8), "narrow_link", "8 of 16 lanes"),
        (with_part(check_result(), "to_device", value=27e9, pcie_generation=4), "narrow_link",
         "PCIe generation 4 of 5"),
        (with_part(check_result(), "fp32", value=50e12, throttle=("sw_thermal_slowdown",),
                   temperature_celsius=91), "throttle_thermal", "slowed down by heat at 91 °C"),
        (with_part(check_result(), "fp32", value=50e12, throttle=("hw_power_brake_slowdown",)),
         "throttle_hardware", "power brake"),
        (with_part(check_result(even_if_used=True), "memory", value=2e12), "occupied",
         "others used it"),
    ],
)  # fmt: skip
def test_a_slow_card_has_the_condition_that_explains_it(
    result: CardResult, explained_by: str, words: str
) -> None:
    found = judged(result, References(past=measured("GPU-0")))
    assert found.verdict is CheckVerdict.SLOW
    assert (found.explained_by, words in found.text) == (explained_by, True)


def test_arithmetic_below_its_clock_is_slow_without_any_other() -> None:
    verdict, text = verdict_of(with_part(check_result(), "fp32", value=33e12))
    assert verdict is CheckVerdict.SLOW
    assert text == "slow: FP32 at 49 % of what its clock allows · 1,980 MHz"


def test_a_low_clock_alone_is_no_fault_of_the_arithmetic() -> None:
    slow_clock = with_part(check_result(), "fp32", value=33e12, clock_mhz=1000.0)
    assert verdict_of(slow_clock)[0] is CheckVerdict.OK


def test_memory_below_its_bus_is_slow_without_any_other() -> None:
    verdict, text = verdict_of(with_part(check_result(), "memory", value=2.4e12))
    assert (verdict, text) == (CheckVerdict.SLOW, "slow: memory at 50 % of what its bus allows")


def test_wrong_results_come_before_everything_and_name_the_processor() -> None:
    words = tuple(WrongWord("fp32", n, 1, 3, sm=41) for n in range(3))
    parts = (CheckPart("fp32", 1.0, examined=270_336, wrong=3),)
    found = judged(check_result(parts=parts, wrong=words, new_ecc=2), References())
    assert found.verdict is CheckVerdict.WRONG
    assert found.text == "WRONG RESULTS on SM 41: 3 of 270,336 results"


def test_wrong_words_of_memory_name_their_bits() -> None:
    words = (WrongWord("patterns", 7, 0x10000, 0), WrongWord("patterns", 9, 0x10001, 0))
    parts = (CheckPart("patterns", 1.0, examined=4000, wrong=2),)
    found = judged(check_result(parts=parts, wrong=words), References())
    assert found.text == "WRONG RESULTS in memory, bits 0x00010001: 2 words of 1,000"


def test_new_uncorrectable_errors_are_a_verdict() -> None:
    found = judged(check_result(new_ecc=1), References())
    assert (found.verdict, found.text) == (
        CheckVerdict.MEMORY, "1 uncorrectable memory error during the check",
    )  # fmt: skip


@rows(
    "capability, found",
    [("9.0", 128), ("8.0", 64), ("8.9", 128), ("7.5", 64), ("6.0", 64), ("6.1", 128), ("5.2", 128),
     ("12.0", 128), ("42.0", None), ("", None), ("x.y", None)],
)  # fmt: skip
def test_the_lanes_of_each_architecture(capability: str, found: int | None) -> None:
    assert lanes(capability) == found


def test_an_h200_does_almost_all_that_its_clock_allows() -> None:
    rate = per_clock(check_result(), "fp32")
    assert rate is not None
    assert 0.97 < rate / 256 < 0.99


@given(st.floats(0.3, 3.0), st.integers(3, 12), st.integers(0, 2**32))
def test_healthy_siblings_are_never_slow(scale: float, count: int, seed: int) -> None:
    chance = random.Random(seed)
    noisy = [check_result(f"GPU-{n}", scale * chance.uniform(0.99, 1.01)) for n in range(count)]
    free = [
        replace(one, capability="", bandwidth_bytes_per_second=None, pcie_width=None)
        for one in noisy
    ]
    for one in free:
        assert judged(one, References(local=free)).verdict is CheckVerdict.OK


@given(st.floats(0.05, 0.99 - MOST_DIFFERENCE), st.integers(1, 12))
def test_a_card_far_below_all_others_is_always_slow(scale: float, count: int) -> None:
    others = measured(*(f"GPU-{n}" for n in range(1, count + 1)))
    assert judged(check_result(scale=scale), References(local=others)).verdict is CheckVerdict.SLOW


@given(st.sampled_from(list(CheckVerdict)))
def test_a_result_that_ended_badly_keeps_its_verdict(verdict: CheckVerdict) -> None:
    if verdict is not CheckVerdict.UNJUDGED:
        one = check_result(verdict=verdict, text="as it ended")
        assert judged(one, References(local=measured(*OTHERS))) == one


def test_a_fleet_judges_what_depends_on_the_card_alone() -> None:
    fleet = [result_of(figures_of(one)) for one in measured("GPU-7", "GPU-8", "GPU-9")]
    one = check_result()
    assert verdict_of(one, fleet=fleet) == (CheckVerdict.OK, "as fast as 3 in the fleet")
    link = with_part(one, "to_device", value=(one.value("to_device") or 0) * 0.7)
    assert verdict_of(link, fleet=fleet)[0] is CheckVerdict.OK, "another machine, another link"
    slow = with_part(one, "tensor", value=(one.value("tensor") or 0) * 0.79)
    found = verdict_of(slow, local=measured("GPU-1", "GPU-2", scale=0.79), fleet=fleet)
    assert found[0] is CheckVerdict.SLOW
    assert found[1].startswith("slow: tensor cores 21 % below 3 in the fleet"), "as all here are"


def test_figures_for_a_fleet_name_no_card() -> None:
    found = figures_of(check_result("GPU-secret"))
    assert "secret" not in str(found)
    assert figures_of(check_result("GPU-secret")).card == found.card
    assert figures_of(check_result("GPU-other")).card != found.card


@rows(
    "before, after, words",
    [
        (RowRemaps(0, 0), RowRemaps(0, 0), None),
        (RowRemaps(3, 2, True), RowRemaps(3, 2, True), None),
        (RowRemaps(0, 0), RowRemaps(1, 0), None),
        (RowRemaps(0, 0), RowRemaps(0, 2, True), "2 rows of its memory failed during the check"),
        (RowRemaps(9, 9, True, True), RowRemaps(9, 9, True, True), "no spare row is left"),
        (None, RowRemaps(0, 2), None),
    ],
)
def test_rows_of_memory_that_fail_during_the_check(
    before: RowRemaps | None, after: RowRemaps, words: str | None
) -> None:
    found = judged(check_result(rows_before=before, rows=after), References(measured(*OTHERS)))
    assert (found.verdict is CheckVerdict.MEMORY) == (words is not None)
    assert words is None or words in found.text
