"""Hot, thermally throttled and unattributed mean the same in alerts, `why`, colours and PromQL."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.cli.main import run
from andon.cli.show import cells
from andon.cli.show.entries import entries, lit_entries
from andon.cli.show.text import styled
from andon.explain.conditions.catalogue import DEFAULTS
from andon.explain.conditions.heat.limits import HeatThrottling, heat_throttling, hot_from
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.explain.evidence.blame import unattributed_bytes
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.why import explain
from andon.model.device import DeviceStatus, Limits, MemoryKind, Process, Snapshot
from andon.model.thresholds import Thresholds
from andon.model.throttling import REASONS
from andon.units import GIB
from tests.support.fake_node import FakeNode
from tests.support.rows import rows
from tests.support.snapshots import AT, farm, h200

HEAT = {"heat", "memory_heat"}
TEXTS = st.sets(st.sampled_from([reason.name for reason in REASONS]), max_size=4).map(tuple)


def device(vendor: str = "nvidia", slowdown: int | None = 87, **values: object) -> DeviceStatus:
    status = h200(0, 0.0, **values)
    limits = Limits(slowdown_celsius=slowdown)
    return replace(status, device=replace(status.device, vendor=vendor, limits=limits))


def node(status: DeviceStatus) -> Snapshot:
    return replace(farm(), devices=(status,))


def alerts(status: DeviceStatus, figures: Thresholds = DEFAULTS) -> set[str]:
    """The rules that hold for a device in one sample."""
    seen = Observation(node(status))
    state = step(EMPTY, seen, Moment(AT, 1000.0), Rulebook(figures)).state
    return set(state.episodes.get(status.device.uuid, {}))


def reasons(status: DeviceStatus, figures: Thresholds = DEFAULTS) -> set[str]:
    found = explain([node(status)], status.device.uuid, Rulebook(figures))
    return {reason.code for reason in found}


def colour(status: DeviceStatus, figures: Thresholds = DEFAULTS) -> str:
    (entry,) = lit_entries(node(status), Rulebook(figures))
    return cells.heat_style(entry)


# Thermally throttled.


def test_amds_temperature_limit_on_a_cool_card_is_neither_alert_nor_reason() -> None:
    """AMD's driver sets it on healthy cards too; the alert used to fire for ever."""
    cool = device("amd", None, throttle=("temperature_limit",), temperature_celsius=55)
    assert alerts(cool) == set()
    assert not reasons(cool) & HEAT
    assert cells.lamp(lit_entries(node(cool))[0]).plain == "●"


def test_amds_temperature_limit_on_a_hot_card_is_both() -> None:
    """`why` used to say nothing about it."""
    hot = device("amd", 100, throttle=("temperature_limit",), temperature_celsius=96)
    assert "throttle_thermal" in alerts(hot)
    assert "heat" in reasons(hot)


def test_an_old_driver_at_the_slowdown_temperature_is_heat_for_both() -> None:
    """The alert used to call it a slowdown without a reason."""
    old = device(throttle=("hw_slowdown",), temperature_celsius=88)
    assert "throttle_thermal" in alerts(old)
    assert "throttle_hardware" not in alerts(old)
    assert "heat" in reasons(old)
    assert "hardware_slowdown" not in reasons(old)


@given(
    TEXTS, st.none() | st.integers(20, 120), st.none() | st.integers(60, 110), st.integers(50, 100)
)
@example((), 90, None, 91)  # its threshold is above the one that notifies
def test_alert_why_and_definition_agree(
    throttle: tuple[str, ...], celsius: int | None, slowdown: int | None, threshold: int
) -> None:
    figures = thresholds(thermal_celsius=threshold)
    status = device("amd", slowdown, throttle=throttle, temperature_celsius=celsius)
    throttled = heat_throttling(throttle, celsius, slowdown, figures)
    assert ("throttle_thermal" in alerts(status, figures)) == bool(throttled)
    assert bool(reasons(status, figures) & HEAT) == bool(throttled)
    hot = celsius is not None and celsius >= hot_from(slowdown, figures)
    assert ("thermal" in alerts(status, figures)) == hot
    assert (colour(status, figures) != "") == hot
    if hot and not throttled:
        assert "hot" in reasons(status, figures)


def test_who_slows_it_down_is_said_by_the_reason() -> None:
    def by(*names: str, celsius: int = 50) -> HeatThrottling:
        return heat_throttling(names, celsius, 90, DEFAULTS)

    assert by() is HeatThrottling.NONE
    assert by("sw_thermal_slowdown") is HeatThrottling.DRIVER
    assert by("hw_thermal_slowdown", "sw_thermal_slowdown") is HeatThrottling.HARDWARE
    assert by("hw_slowdown", celsius=91) is HeatThrottling.HARDWARE
    assert by("hw_slowdown", "hw_power_brake_slowdown", celsius=91) is HeatThrottling.NONE


# Hot.


@pytest.mark.parametrize(("celsius", "hot"), [(74, False), (75, True), (79, True)])
def test_the_setting_decides_what_is_hot_everywhere(celsius: int, hot: bool) -> None:
    """Colours and `why` used to say 80 °C whatever the settings said."""
    figures = thresholds(thermal_celsius=75)
    status = device(slowdown=None, temperature_celsius=celsius)
    assert ("thermal" in alerts(status, figures)) == hot
    assert ("hot" in reasons(status, figures)) == hot
    assert (colour(status, figures) == "yellow") == hot


def test_near_its_own_limit_it_is_yellow_at_the_limit_red_and_a_problem() -> None:
    near = device(slowdown=84, temperature_celsius=79)
    assert colour(near) == "yellow"
    assert colour(device(slowdown=84, temperature_celsius=84)) == "bold red"
    assert explain([node(near)], near.device.uuid)[0].code == "hot"
    assert "thermal" in alerts(near)


def test_full_and_capped_follow_the_settings_too() -> None:
    figures = thresholds(memory_percent=50, power_percent=60)
    status = replace(
        h200(0, 80, power_watts=450.0, utilization_percent=99),
        processes=(Process(1, memory_bytes=80 * GIB, utilization_percent=99),),
    )
    assert {"memory", "power"} <= alerts(status, figures)
    assert "memory_full" in reasons(status, figures)
    (entry,) = lit_entries(node(status), Rulebook(figures))
    assert "bold" in {style for _, style in cells.memory(entry, 0, True, 0).spans}
    assert "bold" in {style for _, style in cells.power(entry).spans}
    assert not {"memory", "power"} & alerts(status)


# Unattributed memory.


def crowd(size: int, each: int = GIB // 8) -> Iterable[Process]:
    return (Process(100 + n, memory_bytes=each) for n in range(size))


def test_many_processes_may_use_more_without_it_being_unattributed() -> None:
    """`status` used to call it unaccounted where `why` and the lease book did not."""
    status = replace(h200(0, 11), processes=tuple(crowd(32)))  # 4 GiB held, 7 GiB not
    assert unattributed_bytes(status) == 0
    assert cells.unexplained(entries(node(status))[0]) is None
    assert "unattributed_memory" not in reasons(status)


def test_an_alert_about_it_needs_what_everyone_else_calls_unattributed() -> None:
    """The alert used to fire for the contexts of eighty processes."""
    status = replace(h200(0, 26), processes=tuple(crowd(80)))  # 10 GiB held, 16 GiB not
    assert unattributed_bytes(status) == 0
    figures = thresholds(unattributed_percent=5)
    assert "unattributed_memory" not in alerts(status, figures)
    alone = replace(h200(0, 16), processes=())
    assert "unattributed_memory" in alerts(alone, figures)


@rows("used_gib", [0.2, 0.5, 2.0, 2.9, 20.0])
@rows("kind", MemoryKind)
def test_status_and_why_agree(used_gib: float, kind: MemoryKind) -> None:
    status = h200(0, used_gib)
    status = replace(status, device=replace(status.device, memory_kind=kind))
    found = unattributed_bytes(status)
    assert (cells.unexplained(entries(node(status))[0]) is not None) == bool(found)
    assert ("unattributed_memory" in reasons(status)) == bool(found)


# The commands.


@pytest.mark.parametrize("command", [["status"], ["watch", "--count", "1"]], ids=lambda c: c[0])
@pytest.mark.parametrize(("threshold", "yellow"), [("75", True), ("90", False)])
def test_the_colours_of_a_command_follow_its_settings(
    command: list[str],
    threshold: str,
    yellow: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    warm = node(device(slowdown=None, temperature_celsius=76))
    there = FakeNode(warm)
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    monkeypatch.setenv("ANDON_ALERTS_THERMAL_CELSIUS", threshold)
    run([*command, "--color", "always"], there)
    assert (styled("76 °C", "yellow").paint(color=True) in capsys.readouterr().out) == yellow


def test_why_says_hot_from_the_threshold_of_its_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warm = node(device(slowdown=None, temperature_celsius=76))
    there = FakeNode(warm, warm)
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    for threshold, hot in (("75", True), ("80", False)):
        monkeypatch.setenv("ANDON_ALERTS_THERMAL_CELSIUS", threshold)
        run(["why", "--seconds", "0"], there)
        assert ("GPU 0 is too hot: 76 °C" in capsys.readouterr().out) == hot
