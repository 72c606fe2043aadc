"""The kept AndonSystem and its four kinds: at once, by the plain thresholds."""

import pytest

import andon
from andon import (
    AlertConfig,
    AndonSystem,
    GpuIdle,
    MemoryPressure,
    MockGpuBackend,
    PowerLimit,
    ThermalThrottling,
)
from andon.api.compat.metrics import GpuMetrics
from tests.support.rows import rows


def metrics(**values: float | None) -> list[GpuMetrics]:
    return [GpuMetrics(0, "NVIDIA H200", **values)]  # type: ignore[arg-type]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_defaults_are_80_90_95_and_300() -> None:
    config = AndonSystem().config
    assert config == AlertConfig(80, 90, 95, 300)


@rows(
    ("values", "expected"),
    [
        ({"temperature_celsius": 80}, [ThermalThrottling(0, 80, 80)]),
        ({"temperature_celsius": 79}, []),
        ({"memory_used_bytes": 90, "memory_total_bytes": 100}, [MemoryPressure(0, 90, 90)]),
        ({"memory_used_bytes": 89, "memory_total_bytes": 100}, []),
        ({"power_watts": 665, "power_limit_watts": 700}, [PowerLimit(0, 95, 95)]),
        ({"power_watts": 664, "power_limit_watts": 700}, []),
        ({"utilization_percent": 0}, []),
        ({}, []),
    ],
)
def test_a_value_at_its_threshold_raises_and_one_below_does_not(
    values: dict[str, float], expected: list[object]
) -> None:
    assert AndonSystem().check(metrics(**values)) == expected


def test_other_thresholds_count_where_they_are_given() -> None:
    system = AndonSystem.with_config(AlertConfig(thermal_threshold=60, memory_threshold=50))
    backend = MockGpuBackend().with_device(3, "x").with_temperature(61).with_memory(6, 10)
    found = system.check(backend.collect_metrics())
    assert found == [ThermalThrottling(3, 61, 60), MemoryPressure(3, 60, 50)]


def test_idleness_counts_the_time_between_its_own_checks() -> None:
    clock = Clock()
    system = AndonSystem(clock=clock)
    for _ in range(5):
        assert system.check(metrics(utilization_percent=0)) == []
        clock.now += 60
    assert system.check(metrics(utilization_percent=0)) == [GpuIdle(0, 300)]
    clock.now += 60
    assert system.check(metrics(utilization_percent=0)) == [GpuIdle(0, 360)]


def test_work_begins_the_count_again() -> None:
    clock = Clock()
    system = AndonSystem(clock=clock)
    for busy in (0, 3, 0):
        system.check(metrics(utilization_percent=busy))
        clock.now += 299
    assert system.check(metrics(utilization_percent=0)) == []


def test_time_in_which_nothing_could_be_read_is_not_idle() -> None:
    clock = Clock()
    system = AndonSystem(clock=clock)
    for busy in (0, None, 0):
        assert system.check(metrics(utilization_percent=busy)) == []
        clock.now += 400
    assert system.check(metrics(utilization_percent=0)) == [GpuIdle(0, 400)]


def test_heat_outranks_everything_and_idleness_nothing() -> None:
    clock = Clock()
    system = AndonSystem(clock=clock)
    every = metrics(
        temperature_celsius=81, utilization_percent=0, memory_used_bytes=100,
        memory_total_bytes=100, power_watts=700, power_limit_watts=700,
    )  # fmt: skip
    system.check(every)
    clock.now += 300
    kinds = [type(alert) for alert in system.check(every)]
    assert kinds == [ThermalThrottling, MemoryPressure, PowerLimit, GpuIdle]


@rows(
    ("alert", "severity"),
    [
        (ThermalThrottling(0, 80, 80), 60),
        (ThermalThrottling(0, 85, 80), 80),
        (ThermalThrottling(0, 127, 80), 100),
        (MemoryPressure(0, 90, 90), 30),
        (MemoryPressure(0, 100, 90), 50),
        (MemoryPressure(0, 100, 100), 50),
        (PowerLimit(0, 95, 95), 20),
        (PowerLimit(0, 103, 95), 30),
        (GpuIdle(0, 1e9), 10),
    ],
)
def test_the_severity_lies_between_0_and_100(alert: andon.GpuIdle, severity: int) -> None:
    assert alert.severity() == severity


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (ThermalThrottling(3, 86, 80), ("GPU 3", "86 °C", "80 °C", "cooling")),
        (MemoryPressure(3, 97.2, 90), ("GPU 3", "97 %", "90 %", "allocation")),
        (PowerLimit(3, 99, 95), ("GPU 3", "99 %", "95 %", "full load")),
        (GpuIdle(3, 720), ("GPU 3", "12 min", "release it")),
    ],
)
def test_the_message_names_device_value_threshold_and_what_to_do(
    alert: andon.GpuIdle, words: tuple[str, ...]
) -> None:
    assert [word for word in words if word not in alert.message()] == []


def test_every_alert_has_the_level_of_its_rule() -> None:
    levels = [
        alert.level
        for alert in (
            ThermalThrottling(0, 94, 80), ThermalThrottling(0, 95, 80), MemoryPressure(0, 99, 90),
            PowerLimit(0, 100, 95), GpuIdle(0, 900),
        )
    ]  # fmt: skip
    assert levels == ["warning", "critical", "info", "info", "info"]
