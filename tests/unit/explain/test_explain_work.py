"""What each rule says about clocks, memory, use and the whole node, and when it keeps silent."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from andon.alerts.rules.alerts_from_sample import board_from_sample
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.departures import EndedProcesses
from andon.explain.why import explain, explain_node, worst_first
from andon.history.rules.intervals import UsageInterval
from andon.model.device import (
    Host,
    Process,
    ProcessKind,
)
from andon.units import GIB, MIB
from tests.support.explaining import (
    ALICE,
    AT,
    BOB,
    IDLE,
    TOTAL,
    TRAINING,
    UUID,
    card,
    codes,
    film,
    node,
    of,
    why,
)

# Clocks.


def test_a_cap_that_costs_more_than_a_fifth_is_a_trouble_and_a_lowered_limit_its_cause() -> None:
    capped = {**TRAINING, "power_watts": 413.0, "power_limit_watts": 420.0, "sm_clock_mhz": 1335}
    reasons = why(card(capped, ALICE, throttle=("sw_power_cap",)))
    assert codes(reasons) == ["power_limit_lowered", "power_cap"]
    assert "default of 700 W, clock 33 % below maximum" in reasons[0].sentence
    assert reasons[0].advice.endswith("sudo nvidia-smi -i 0 -pl 700")
    assert "because of its power limit (up to 20 % is normal)" in reasons[1].sentence


def test_a_limit_that_costs_a_good_part_of_the_clock_as_designed_is_told_first() -> None:
    bound = {**TRAINING, "power_watts": 694.0, "throttle": ("sw_power_cap",)}
    assert codes(why(card(bound, sm_clock_mhz=1665))) == [
        "power_bound",
        "healthy",
    ]
    assert codes(why(card(bound, sm_clock_mhz=1755))) == [
        "healthy",
        "power_bound",
    ]


def test_dense_work_on_an_h200_at_its_own_limit_is_healthy_as_measured() -> None:
    dense = {**TRAINING, "power_watts": 690.9, "throttle": ("sw_power_cap",)}
    assert codes(why(card(dense, sm_clock_mhz=1440))) == [
        "power_bound",
        "healthy",
    ]
    assert codes(why(card(dense, sm_clock_mhz=1200))) == ["power_cap"]
    starved = card(dense, sm_clock_mhz=1440, power_watts=420.0)
    assert codes(why(starved)) == ["power_cap"]


def test_a_lowered_limit_that_costs_nothing_is_a_fact() -> None:
    assert codes(why(card(IDLE, power_limit_watts=500.0))) == [
        "healthy",
        "power_limit_lowered",
    ]


def test_the_brake_and_an_unexplained_hardware_slowdown_are_told_apart() -> None:
    braked = ("hw_slowdown", "hw_power_brake_slowdown")
    assert codes(why(card(TRAINING, throttle=braked))) == ["power_brake"]
    assert codes(why(card(TRAINING, throttle=("hw_slowdown",)))) == ["hardware_slowdown"]


def test_set_clocks_are_a_trouble_only_where_they_cost_much() -> None:
    held = ("applications_clocks_setting",)
    assert codes(why(card(TRAINING, throttle=held))) == ["healthy"]
    assert codes(why(card(TRAINING, throttle=held, sm_clock_mhz=1700))) == [
        "healthy",
        "clocks_set",
    ]
    assert codes(why(card(TRAINING, throttle=held, sm_clock_mhz=900))) == ["clocks_set"]


def test_low_clocks_under_load_without_a_reason() -> None:
    (reason,) = why(card(TRAINING, sm_clock_mhz=900))
    assert (reason.code, reason.confidence_label) == ("low_clocks", "likely")
    (reason,) = why(card({**TRAINING, "throttle": None}, sm_clock_mhz=900))
    assert (reason.code, reason.confidence_label) == ("low_clocks", "possible")
    assert codes(why(card(IDLE, sm_clock_mhz=345))) == ["healthy"]


def test_a_narrow_link_counts_while_it_works() -> None:
    (reason,) = why(card(TRAINING, pcie_width=4, pcie_generation=3))
    assert reason.code == "narrow_link"
    assert "4 of 16 lanes and runs at generation 3 of 5" in reason.sentence


def test_a_link_that_was_read_while_the_card_rested_proves_nothing() -> None:
    rested = node(card(IDLE, at=AT - 4, pcie_generation=1), at=AT - 4)
    now = card(TRAINING, pcie_generation=1, read_at={"pcie_generation": AT - 4})
    assert codes(explain([rested, node(now)], UUID)) == ["healthy"]
    alone = card(TRAINING, pcie_generation=1, read_at={"pcie_generation": AT - 4})
    assert codes(why(alone)) == ["healthy"]


def test_a_device_that_lags_behind_its_busy_peers_is_told() -> None:
    others = [card(TRAINING, number=n) for n in (1, 2)]
    slow = card(TRAINING, sm_clock_mhz=1500)
    assert codes(why(slow, *others)) == ["slower_than_peers"]
    idle = [card(IDLE, number=n) for n in (1, 2)]
    assert codes(why(slow, *idle)) == ["healthy"]


# Memory.


def test_memory_held_by_a_process_that_does_nothing_is_hoarded() -> None:
    busy = replace(ALICE, memory_bytes=100 * GIB)
    past = film(21, 20.0, lambda _: {**TRAINING, "memory_used_bytes": 131 * GIB}, busy, BOB)
    reasons = explain(past, UUID)
    assert codes(reasons) == ["idle_memory"]
    assert reasons[0].process == BOB
    assert "bob's jupyter holds 30.0 GiB and has been idle for 7 min" in reasons[0].sentence
    assert reasons[0].confidence_label == "certain"


def test_a_process_whose_share_is_unknown_is_not_called_idle() -> None:
    quiet = replace(BOB, utilization_percent=None)
    reasons = why(card(TRAINING, ALICE, quiet, memory_used_bytes=131 * GIB))
    assert "idle_memory" not in codes(reasons)


def test_memory_that_no_process_explains_is_a_ghost() -> None:
    (reason,) = why(card(IDLE, memory_used_bytes=38 * GIB))
    assert (reason.code, reason.process) == ("unattributed_memory", None)
    assert "no visible process accounts for 38.0 GiB" in reason.sentence
    assert "/dev/nvidia*" in reason.advice


def test_a_ghost_names_the_process_that_is_gone_and_held_as_much() -> None:
    values = {**IDLE, "memory_used_bytes": 30 * GIB}
    past = [node(card(values, BOB, at=AT - 9), at=AT - 9), node(card(values))]
    (reason,) = explain(past, UUID)
    assert (reason.code, reason.process) == ("unattributed_memory", BOB)
    held = "bob's jupyter held 30.0 GiB until 9 s ago and"
    assert f"{held} is no longer on this GPU." in reason.sentence, "it may run on, elsewhere"
    ended = EndedProcesses(exited=frozenset({(BOB.pid, BOB.started)}))
    (reason,) = explain(past, UUID, departures=ended)
    assert f"{held} has exited." in reason.sentence


def test_a_dead_process_that_the_driver_still_lists_is_the_one_that_had_a_name() -> None:
    values = {**IDLE, "memory_used_bytes": 30 * GIB}
    nameless = Process(BOB.pid, memory_bytes=BOB.memory_bytes)
    past = [
        node(card(values, BOB, at=AT - 9), at=AT - 9),
        node(card(values, nameless, at=AT - 5), at=AT - 5),
        node(card(values)),
    ]
    (reason,) = explain(past, UUID)
    assert "bob's jupyter held 30.0 GiB until 5 s ago" in reason.sentence


def test_a_ghost_names_who_held_as_much_an_hour_ago_from_the_history() -> None:
    """Longer ago than the snapshots at hand; the last one of the right size, and none that is on
    it now."""
    (ghost,) = [node(card({**IDLE, "memory_used_bytes": 30 * GIB}))]
    rows = [
        ("carl", 30 * GIB, AT - 7200), ("alice", 28 * GIB, AT - 3600), ("dora", GIB, AT - 60),
    ]  # fmt: skip
    uses = tuple(
        UsageInterval(UUID, pid, AT - 9000, user, "train.py", AT - 9000, last, size)
        for pid, (user, size, last) in enumerate(rows, start=50)
    )
    known = EndedProcesses({UUID: uses}, frozenset({(51, AT - 9000)}))
    (reason,) = explain([ghost], UUID, departures=known)
    assert "alice's train.py held 28.0 GiB until 1 h ago and has exited." in reason.sentence
    assert explain([ghost], UUID, departures=EndedProcesses({"GPU-other": uses}))[0].process is None


def test_what_a_driver_keeps_for_itself_or_for_each_process_is_no_ghost() -> None:
    clients = [replace(ALICE, pid=n, memory_bytes=3 * GIB) for n in range(1, 14)]
    assert codes(why(card(TRAINING, *clients, memory_used_bytes=42 * GIB))) == ["healthy"]
    assert codes(why(card(IDLE, memory_used_bytes=600 * MIB))) == ["healthy"]


def test_a_list_of_processes_that_cannot_be_read_supports_no_ghost() -> None:
    unlisted = {"processes": "no permission"}
    status = replace(card(IDLE, memory_used_bytes=38 * GIB), missing=unlisted)
    assert codes(why(status)) == ["unreadable"]
    assert codes(why(replace(card(IDLE), missing=unlisted))) == [
        "healthy",
        "unreadable",
    ]


def _growing(k: int) -> dict[str, object]:
    used = 60 * GIB + k * GIB // 2 + (k % 3) * 20 * MIB
    return {**TRAINING, "memory_used_bytes": used, "memory_free_bytes": TOTAL - used}


def test_memory_that_rises_steadily_leaks_with_the_time_that_is_left() -> None:
    reasons = explain(film(30, 10.0, _growing, ALICE), UUID)
    leak = of("memory_leak", reasons)
    assert "full in 22 min" in leak.sentence
    assert leak.process is None, "its own size did not grow, so it is not accused"


def test_the_process_that_grew_is_named() -> None:
    past = film(30, 10.0, _growing, ALICE)
    grown = [
        replace(
            snapshot,
            devices=(
                replace(
                    snapshot.devices[0],
                    processes=(replace(ALICE, memory_bytes=60 * GIB + k * GIB // 2),),
                ),
            ),
        )
        for k, snapshot in enumerate(past)
    ]
    assert of("memory_leak", explain(grown, UUID)).process == grown[-1].devices[0].processes[0]


@pytest.mark.parametrize(
    ("frame", "count", "step"),
    [
        (_growing, 5, 10.0),  # too few answers
        (_growing, 20, 2.0),  # too short
        (lambda k: {**TRAINING, "memory_used_bytes": (60 + 20 * (k > 14)) * GIB}, 30, 10.0),  # step
        (lambda k: {**TRAINING, "memory_used_bytes": (60 + k % 10) * GIB}, 30, 10.0),  # a saw
        (lambda k: {**TRAINING, "memory_used_bytes": (90 - k) * GIB}, 30, 10.0),  # falls
    ],
)
def test_a_step_a_saw_or_a_short_past_is_no_leak(
    frame: Callable[[int], dict[str, object]], count: int, step: float
) -> None:
    assert "memory_leak" not in codes(explain(film(count, step, frame, ALICE), UUID))


def test_a_program_that_loads_does_not_leak() -> None:
    fresh = replace(ALICE, started=AT - 300)
    assert "memory_leak" not in codes(explain(film(30, 10.0, _growing, fresh), UUID))


def test_a_desktop_is_a_fact_and_comes_first_where_little_is_left() -> None:
    desktop = Process(7, ProcessKind.GRAPHICS, name="Xorg", memory_bytes=GIB)
    assert codes(why(card(IDLE, desktop, memory_used_bytes=GIB))) == [
        "healthy",
        "graphics",
    ]
    large = replace(desktop, memory_bytes=20 * GIB)
    work = replace(ALICE, memory_bytes=110 * GIB)
    reasons = why(card(TRAINING, work, large, memory_used_bytes=130 * GIB))
    assert codes(reasons) == ["graphics", "healthy", "memory_full"]


def test_a_device_without_room_for_another_allocation_is_full_first() -> None:
    work = replace(ALICE, memory_bytes=139 * GIB)
    tight = card(TRAINING, work, memory_used_bytes=139 * GIB, memory_free_bytes=300 * MIB)
    assert codes(why(tight)) == ["memory_full", "healthy"]


def test_errors_of_the_memory_are_serious() -> None:
    (reason,) = why(card(TRAINING, ecc_uncorrected=2))
    assert reason.code == "ecc"
    assert reason.weight >= 80


# Use.


def test_a_device_that_is_held_and_idle_names_its_holder() -> None:
    held = {**IDLE, "memory_used_bytes": 30 * GIB}
    past = film(5, 0.5, lambda _: held, BOB)
    (reason,) = explain(past, UUID)
    assert (reason.code, reason.process) == ("idle_held", BOB)
    assert "for 2 s, bob's jupyter holds 30.0 GiB" in reason.sentence
    assert reason.confidence_label == "possible"
    small = replace(BOB, memory_bytes=10 * GIB)
    held["memory_used_bytes"] = 10 * GIB
    (reason,) = explain(film(20, 30.0, lambda _: held, small), UUID)
    assert (reason.code, reason.confidence_label) == ("idle_held", "certain")


def test_a_holder_that_has_just_started_is_named_and_not_blamed() -> None:
    held = {**IDLE, "memory_used_bytes": 40 * GIB}
    young = replace(BOB, memory_bytes=40 * GIB, started=AT - 10.0)
    (reason, *_) = explain(film(5, 0.5, lambda _: held, young), UUID)
    assert (reason.code, reason.process) == ("healthy", young)
    assert "bob's jupyter holds 40.0 GiB" in reason.sentence


def test_much_memory_on_a_device_that_is_idle_for_long_is_hoarded_unless_a_server_waits() -> None:
    held = {**IDLE, "memory_used_bytes": 30 * GIB}
    assert codes(explain(film(20, 30.0, lambda _: held, BOB), UUID)) == ["idle_memory"]
    server = replace(BOB, name="VLLM::EngineCore")
    assert codes(explain(film(20, 30.0, lambda _: held, server), UUID)) == ["idle_held"]


def test_one_look_a_pause_or_a_start_is_no_idleness() -> None:
    held = {**IDLE, "memory_used_bytes": 30 * GIB}
    assert codes(why(card(held, BOB))) == ["healthy"]
    paused = film(9, 5.0, lambda k: {**held, "utilization_percent": 98 if k < 8 else 0}, BOB)
    assert "idle_held" not in codes(explain(paused, UUID))
    fresh = replace(BOB, started=AT - 20)
    assert codes(explain(film(5, 1.0, lambda _: held, fresh), UUID)) == ["healthy"]


def test_a_device_that_is_busy_now_is_not_held_idle() -> None:
    assert "idle_held" not in codes(why(card(TRAINING, BOB)))


def test_a_gap_in_the_past_is_not_idleness() -> None:
    held = {**IDLE, "memory_used_bytes": 30 * GIB}
    assert codes(explain(film(2, 4000.0, lambda _: held, BOB), UUID)) == ["healthy"]


def test_bursts_and_a_busy_cpu_mean_that_it_waits_for_data() -> None:
    def bursts(k: int) -> dict[str, object]:
        return {**TRAINING, "utilization_percent": 95 if k % 3 == 0 else 3}

    past = [replace(s, host=Host(cpu_percent=98.0)) for s in film(7, 0.5, bursts, ALICE)]
    (reason,) = explain(past, UUID)
    assert reason.code == "starved"
    assert "between 3 % and 95 %" in reason.sentence
    assert "the node's CPU is 98 % busy" in reason.sentence
    assert reason.confidence_label == "likely"


def test_low_use_without_a_process_is_not_underfed() -> None:
    assert "starved" not in codes(why(card(IDLE, utilization_percent=10)))


def test_a_device_that_decodes_video_is_not_underfed() -> None:
    values = {**TRAINING, "utilization_percent": 20, "decoder_percent": 90}
    assert "starved" not in codes(why(card(values, ALICE)))


def test_always_busy_with_little_of_the_chip_is_shallow() -> None:
    (reason,) = why(card(TRAINING, sm_active_percent=12.0))
    assert (reason.code, reason.confidence_label) == ("low_occupancy", "certain")
    (reason,) = why(card(TRAINING, power_watts=150.0))
    assert (reason.code, reason.confidence_label) == ("low_occupancy", "possible")
    assert "low_occupancy" not in codes(why(card(TRAINING, sm_active_percent=85.0)))


def test_waiting_for_memory_is_not_shallow() -> None:
    values = {**TRAINING, "power_watts": 150.0, "memory_utilization_percent": 90}
    assert "low_occupancy" not in codes(why(card(values)))


def test_two_users_at_work_compete_and_neither_is_accused() -> None:
    other = replace(BOB, utilization_percent=40)
    reasons = why(card(TRAINING, ALICE, other, memory_used_bytes=90 * GIB))
    assert codes(reasons) == ["shared"]
    assert reasons[0].sentence == "2 users compete for it: alice (97 %) and bob (40 %)."
    assert reasons[0].process is None


def test_two_processes_of_one_user_do_not_compete() -> None:
    other = replace(BOB, user="alice", utilization_percent=40)
    assert "shared" not in codes(why(card(TRAINING, ALICE, other)))


# The node.


def test_heat_outranks_idleness_and_the_most_troubled_comes_first() -> None:
    held = card({**IDLE, "memory_used_bytes": 30 * GIB}, BOB)
    hot = card(TRAINING, number=1, throttle=("hw_thermal_slowdown",))
    seen = node(held, hot, card(IDLE, number=2))
    explained = explain_node([seen])
    assert list(explained) == ["GPU-0", "GPU-1", "GPU-2"]
    lamps = board_from_sample(seen, Rulebook()).devices
    assert worst_first(explained, lamps) == ["GPU-1", "GPU-0", "GPU-2"]
    assert worst_first({}, ()) == []


def test_a_hot_device_comes_before_one_with_a_little_unattributed_memory() -> None:
    """`andon why` explained 3.7 GiB first, and the hot one in a line under a green lamp."""
    strange = card({**IDLE, "memory_used_bytes": 4 * GIB}, number=0)
    warm = card(TRAINING, number=1, temperature_celsius=81)
    seen = node(strange, warm)
    explained = explain_node([seen])
    assert explained["GPU-0"][0].weight > explained["GPU-1"][0].weight
    assert worst_first(explained, board_from_sample(seen, Rulebook()).devices)[0] == "GPU-1"
