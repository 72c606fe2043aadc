"""A whole record as a training run leaves it: two devices, one of them starved."""

import math

from andon.model.run.record import (
    GitState,
    ItemState,
    RunAlert,
    RunBegin,
    RunDevice,
    RunEnd,
    RunEvent,
    RunFacts,
    RunItem,
    RunLine,
    RunLogged,
    RunSeries,
    RunState,
)
from andon.units import GIB
from tests.support.run_records import BEGAN, begin

SECONDS = 720.0
POINTS = 240
DEVICES = (
    RunDevice("GPU-a", 0, "0", "NVIDIA H200", 141 * GIB, 700.0),
    RunDevice("GPU-b", 1, "1", "NVIDIA H200", 141 * GIB, 700.0),
)


def story() -> list[RunLine]:
    return [
        _begin(),
        RunFacts(BEGAN + 1, GitState("3f2a91c04d77e1", True), versions={"torch": "2.9.1"}),
        *(RunEvent(BEGAN + 40 + 170 * n, "epoch", {"number": n}) for n in range(4)),
        *(
            RunLogged(BEGAN + 40 + 10 * n, {"loss": 2.5 / (1 + n / 9)}, step=100.0 * n)
            for n in range(68)
        ),
        *(_item(n) for n in range(96)),
        RunAlert(
            BEGAN + 431, "thermal", "warning", "firing", "GPU 0 is at 84 °C, 3 °C below its limit",
            "0",
        ),
        _end(),
    ]  # fmt: skip


def _begin() -> RunBegin:
    return begin(
        name="train-7b",
        devices=DEVICES,
        command="python train.py --lr 3e-4 --data /data/web",
        working_directory="/home/ada/train",
        params={"lr": 3e-4, "batch": 16},
        tags=("paper",),
        waited_seconds=95.0,
    )


def _item(number: int) -> RunItem:
    on = "0" if number % 3 else "1"
    state = ItemState.FAILED if number == 50 else ItemState.OK
    return RunItem(BEGAN + 45 + 7 * number, state, number, f"chunk {number}", on, 1, 11.5)


def _end() -> RunEnd:
    return RunEnd(
        at=BEGAN + SECONDS,
        state=RunState.SUCCEEDED,
        duration_seconds=SECONDS,
        samples=721,
        summary={
            "GPU-a": _used(94.0, 0.05, 612.0, 118 * GIB, {"sw_power_cap": 0.41}),
            "GPU-b": _used(36.0, 0.55, 231.0, 44 * GIB, {}),
        },
        exit_code=0,
        message="finished successfully",
        node={"cpu_percent": {"min": 80.0, "mean": 97.6, "p95": 100.0, "max": 100.0}},
        series=_series(),
        last_values={"loss": 0.297},
    )


def _used(
    busy: float, idle: float, watts: float, peak: int, slowed: dict[str, float]
) -> dict[str, object]:
    return {
        "samples": 721,
        "idle_share": idle,
        "idle_spells": {
            "count": 480, "mean_seconds": 0.82, "longest_seconds": 38.0, "source": "driver",
        },
        "throttle_share": sum(slowed.values()),
        "throttle_by_cause": slowed,
        "peak_memory_bytes": peak,
        "memory_plateau": {"bytes": peak - GIB, "share": 0.93, "since_seconds": 46.0},
        "energy_joules": watts * SECONDS,
        "energy_source": "counter",
        "utilization_percent": _spread(0.0, busy, min(100.0, busy + 5), 100.0),
        "memory_used_bytes": _spread(GIB, peak * 0.95, peak, peak),
        "sm_active_percent": _spread(0.0, busy * 0.8, 90.0, 93.0),
        "temperature_celsius": _spread(34.0, 40 + watts / 16, 81.0, 84.0),
        "power_watts": _spread(80.0, watts, watts + 70, 699.0),
        "sm_clock_mhz": _spread(345.0, 1755.0, 1980.0, 1980.0),
    }  # fmt: skip


def _spread(low: float, mean: float, p95: float, high: float) -> dict[str, float]:
    return {"min": low, "mean": mean, "p95": p95, "max": high}


def _series() -> RunSeries:
    at = tuple(SECONDS / POINTS * n for n in range(POINTS))
    return RunSeries(at, {"GPU-a": _curves(at, 97.0, 117.0), "GPU-b": _curves(at, 38.0, 43.0)})


def _curves(at: tuple[float, ...], busy: float, held: float) -> dict[str, tuple[float | None, ...]]:
    """Idle for 38 s, then at work; a gap of ten seconds in which nothing was read."""
    wave = [busy + (100 - busy) * 0.6 * math.sin(t / 3) * math.cos(t / 17) for t in at]
    work = [min(100.0, max(0.0, w)) if t > 38 else 0.0 for t, w in zip(at, wave, strict=True)]
    warm = [1 - math.exp(-max(0.0, t - 38) / 90) for t in at]
    return {
        "utilization_percent": tuple(_gap(at, work)),
        "memory_used_bytes": tuple(
            _gap(at, [GIB * (1 + (held - 1) * min(1.0, max(0, t - 30) / 14)) for t in at])
        ),
        "temperature_celsius": tuple(_gap(at, [34 + 45 * busy / 100 * w for w in warm])),
        "power_watts": tuple(_gap(at, [80 + 5.6 * w for w in work])),
    }


def _gap(at: tuple[float, ...], values: list[float]) -> list[float | None]:
    return [None if 500 < t < 510 else value for t, value in zip(at, values, strict=True)]
