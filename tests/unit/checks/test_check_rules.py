"""Which cards are checked, for how long, what their lines mean, and how a prolog ends."""

from math import inf
from typing import Any
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.checks.rules import lines, prolog
from andon.checks.rules.before_work import AfterCheck, after_check
from andon.checks.rules.choosing import by_itself, divided_boards, refusal
from andon.checks.rules.plan import (
    LAUNCH_SECONDS,
    LEAST_BURN_SECONDS,
    LEAST_CHUNK_BYTES,
    PLANS,
    SPARE_BYTES,
    CheckMode,
    memory_to_test,
    next_rounds,
    plan_for,
)
from andon.checks.session import MOST_SNAPSHOTS, Readings
from andon.model.check import CheckVerdict
from andon.model.device import NOT_READ, DeviceStatus, Process, ProcessKind, Sample, Setup, State
from andon.model.event import Event, EventKind
from andon.units import GIB, MIB
from tests.support.checks import check_result
from tests.support.rows import rows
from tests.support.snapshots import h200, mig_board, simulated

IDLE = replace(h200(0), processes=())
WORK = Process(7, ProcessKind.COMPUTE, user="alice", name="python")
DESKTOP = Process(8, ProcessKind.GRAPHICS, user="alice", name="Xorg")
SERVER = Process(9, ProcessKind.COMPUTE, user="root", name="nvidia-cuda-mps-server")


@rows(
    "status, named, even, words",
    [
        (IDLE, False, False, None),
        (replace(IDLE, processes=(DESKTOP,)), False, False, None),
        (replace(IDLE, processes=(WORK,)), False, False, "in use by alice"),
        (replace(IDLE, processes=(WORK,)), False, True, None),
        (replace(IDLE, processes=(SERVER,)), True, True, "MPS"),
        (replace(IDLE, state=State.ASLEEP, sample=None), False, False, "name it with -d"),
        (replace(IDLE, state=State.ASLEEP, sample=None), True, False, None),
        (replace(IDLE, state=State.LOST, reason="gone"), True, True, "lost: gone"),
        (replace(IDLE, visible=False), True, True, "hidden"),
    ],
)
def test_which_cards_may_be_checked(
    status: DeviceStatus, named: bool, even: bool, words: str | None
) -> None:
    found = refusal(status, False, named, even)
    assert (found is None) == (words is None)
    assert words is None or words in (found or "")


def test_a_divided_board_is_checked_by_its_instances() -> None:
    board = mig_board(6)
    assert divided_boards(board) == {board[0].device.uuid}
    assert "each is checked as itself" in (refusal(board[0], True, False, False) or "")
    assert refusal(replace(board[1], processes=()), False, False, False) is None


def test_the_load_of_other_vendors_is_said_to_be_missing() -> None:
    device = replace(IDLE.device, vendor="amd", setup=Setup(ecc=True))
    sample = None if IDLE.sample is None else replace(IDLE.sample, ecc_uncorrected=0)
    other = replace(IDLE, device=device, sample=sample)
    text = by_itself(other) or ""
    assert text.startswith("a load for amd is not built yet; link 5×16, ECC on, 0 uncorrected")
    narrow = replace(other.sample, pcie_width=8) if other.sample else None
    assert "link 5×8 of 5×16" in (by_itself(replace(other, sample=narrow)) or "")
    silent = replace(other, sample=None, device=replace(other.device, setup=NOT_READ))
    assert "link not known, ECC not known, errors not known" in (by_itself(silent) or "")
    assert by_itself(IDLE) is None
    made_up = replace(IDLE, device=replace(IDLE.device, vendor="sim"))
    assert by_itself(made_up) == "simulated: there is no card to measure"


@rows(
    "first, second, found",
    [
        ([], False, AfterCheck.USE),
        (["ok", "unjudged", "not_checked", "failed"], False, AfterCheck.USE),
        (["ok", "slow"], False, AfterCheck.TAKE_OTHERS),
        (["hung"], False, AfterCheck.TAKE_OTHERS),
        (["slow"], True, AfterCheck.USE),
        (["slow", "wrong_results"], True, AfterCheck.REFUSE),
        (["hung"], True, AfterCheck.REFUSE),
    ],
)
def test_what_follows_from_a_check_before_work(
    first: list[str], second: bool, found: AfterCheck
) -> None:
    results = [check_result(f"GPU-{n}", verdict=CheckVerdict(one)) for n, one in enumerate(first)]
    assert after_check(results, second) is found


@rows(
    "free, integrated, available, found",
    [
        (140 * GIB, False, None, 139 * GIB),
        (2 * GIB, False, None, 2 * GIB - GIB // 2),
        (100 * GIB, True, 40 * GIB, 10 * GIB),
        (100 * GIB, True, None, 25 * GIB),
        (MIB, False, None, 0),
    ],
)
def test_how_much_memory_is_tested(
    free: int, integrated: bool, available: int | None, found: int
) -> None:
    assert memory_to_test(free, integrated, available) == found


@given(st.integers(0, 2**45), st.booleans(), st.none() | st.integers(0, 2**45))
def test_memory_is_never_used_up(free: int, integrated: bool, available: int | None) -> None:
    found = memory_to_test(free, integrated, available)
    assert 0 <= found <= free
    assert found % LEAST_CHUNK_BYTES == 0
    assert not free or free - found >= min(SPARE_BYTES, free // 4)
    if integrated and available is not None:
        assert found <= available / 4


@given(st.integers(1, 10**6), st.floats(0, 10), st.integers(1, 10**6))
def test_no_launch_is_longer_than_its_limit_if_the_last_one_was_measured(
    rounds: int, seconds: float, most: int
) -> None:
    found = next_rounds(rounds, seconds, most)
    assert 1 <= found <= most
    assert found == 1 or found * seconds / rounds <= LAUNCH_SECONDS * 1.001


def test_a_burn_lasts_as_long_as_it_is_told() -> None:
    assert plan_for(CheckMode.BURN, 600.0).tensor_seconds == 600.0
    assert plan_for(CheckMode.BURN, 1.0).tensor_seconds == LEAST_BURN_SECONDS
    assert plan_for(CheckMode.QUICK) is PLANS[CheckMode.QUICK]


def test_a_long_burn_keeps_its_first_reading_and_every_event() -> None:
    session = Mock()
    readings = Readings(session)
    [seen] = session.call.call_args.args
    xid = Event(EventKind.XID, "GPU-0", 1.0, code=48)
    for number in range(MOST_SNAPSHOTS + 50):
        events = (xid,) if number == 1 else ()
        status = replace(IDLE, device=replace(IDLE.device, uuid="GPU-0"), sample=Sample(number))
        seen(replace(simulated(), devices=(status,), events=events))
    found = readings.samples("GPU-0", 0.0, inf)
    assert (found[0].at, found[-1].at, len(found)) == (0, MOST_SNAPSHOTS + 49, MOST_SNAPSHOTS + 1)
    assert [one.code for one in readings.events("GPU-0", 0.0)] == [48]


def line(event: str, **values: Any) -> dict[str, Any]:
    return {"event": event, **values}


def test_the_numbers_of_the_link_are_two() -> None:
    begin = check_result(parts=())
    ended = line("end", part="link", value=55e9, back=50e9, examined=10, wrong=0)
    found = lines.with_end(begin, ended, [])
    assert (found.value("to_device"), found.value("from_device")) == (55e9, 50e9)


def test_readings_of_a_part_are_summed_up() -> None:
    samples = [
        Sample(1.0, power_watts=400.0, temperature_celsius=50, pcie_width=4, pcie_generation=1),
        Sample(2.0, power_watts=600.0, temperature_celsius=60, pcie_width=16, pcie_generation=5,
               throttle=("sw_power_cap", "gpu_idle")),
    ]  # fmt: skip
    ended = line("end", part="tensor", value=6e14, clock_mhz=1800.0, examined=10, wrong=0)
    part = lines.with_end(check_result(parts=()), ended, samples).part("tensor")
    assert part is not None
    assert (part.power_watts, part.temperature_celsius, part.throttle) == (
        500.0,
        60,
        ("sw_power_cap",),
    )
    assert (part.pcie_generation, part.pcie_width) == (5, 16), "an idle link is narrower"


def test_what_was_not_read_is_not_known() -> None:
    ended = line("end", part="memory", value=4e12, examined=10, wrong=0)
    part = lines.with_end(check_result(parts=()), ended, []).part("memory")
    assert part is not None
    assert (part.power_watts, part.temperature_celsius, part.pcie_width) == (None, None, None)


@rows(
    "kind, code, begun, verdict",
    [
        ("refused", None, False, CheckVerdict.NOT_CHECKED),
        ("too_old", 35, False, CheckVerdict.NOT_CHECKED),
        ("no_library", None, False, CheckVerdict.NOT_CHECKED),
        ("uncorrectable", 214, True, CheckVerdict.MEMORY),
        ("failed", 719, True, CheckVerdict.LOST),
        ("failed", 999, True, CheckVerdict.LOST),
        ("failed", 999, False, CheckVerdict.FAILED),  # a driver that does not start is no lost card
        ("failed", 46, True, CheckVerdict.FAILED),  # busy
        ("failed", 2, False, CheckVerdict.NOT_CHECKED),
    ],
)
def test_how_a_process_that_gives_up_is_judged(
    kind: str, code: int | None, begun: bool, verdict: CheckVerdict
) -> None:
    assert lines.failure(kind, "why", code, begun)[0] is verdict


@rows("verdict", list(CheckVerdict))
def test_a_prolog_fails_for_broken_cards_alone(verdict: CheckVerdict) -> None:
    broken = (CheckVerdict.WRONG, CheckVerdict.LOST, CheckVerdict.MEMORY)
    results = [check_result(verdict=CheckVerdict.OK), check_result("GPU-1", verdict=verdict)]
    assert prolog.exit_code(results) == (verdict in broken)
    slow_too = (*broken, CheckVerdict.SLOW)
    assert prolog.exit_code(results, ["slow"]) == (verdict in slow_too)


def test_the_reason_of_a_drain_names_the_card() -> None:
    one = check_result("GPU-5", verdict=CheckVerdict.WRONG, text="WRONG RESULTS on SM 41")
    assert prolog.reason([one]) == "andon check: GPU 5: WRONG RESULTS on SM 41"
