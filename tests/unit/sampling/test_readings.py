"""A value that no device can mean is unknown, with its reason; every honest one stays."""

import json
import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.model import wire_in
from andon.model.device import (
    SAMPLE_VALUES,
    Card,
    Device,
    DeviceStatus,
    Host,
    Limits,
    MemoryKind,
    Process,
    Reading,
    Sample,
    Snapshot,
    State,
)
from andon.sampling.rules.readings import (
    BOUNDS,
    LIMIT_BOUNDS,
    checked_device,
    checked_host,
    checked_processes,
    checked_snapshot,
    without,
    wrong_values,
)
from andon.sampling.rules.roster import Roster
from andon.units import GIB, symbol_of, unit_of
from tests.support.rows import rows

TOTAL = 80 * GIB
DEVICE = Device("GPU-a", 0, "nvidia", "H200", "0000:01:00.0", memory_total_bytes=TOTAL)
SENTINELS = (
    2**32 - 1,
    2**64 - 1,
    2**31 - 1,
    2**63 - 1,
    -1,
    -(2**31),
    math.nan,
    math.inf,
    -math.inf,
)
RECORDED = Path(__file__).parents[2] / "recorded" / "nvidia"


def test_every_number_of_a_sample_has_bounds() -> None:
    assert set(BOUNDS) == set(SAMPLE_VALUES) - {"throttle"}
    for name, bounds in BOUNDS.items():
        assert bounds.unit in (symbol_of(name), "errors"), name
    assert set(LIMIT_BOUNDS) == set(Limits.__struct_fields__)
    assert all(bounds.reason for bounds in (*BOUNDS.values(), *LIMIT_BOUNDS.values()))


HONEST = {  # a cold morning; a kilowatt for some weeks
    *((name, -1) for name in BOUNDS if unit_of(name) == "celsius"),
    ("energy_joules", 2**32 - 1), ("energy_joules", 2**31 - 1),
    *((n, v) for n in BOUNDS if unit_of(n) == "bytes_per_second" for v in (2**32 - 1, 2**31 - 1)),
}  # fmt: skip


@rows(("name", "value"), [(n, v) for n in BOUNDS for v in SENTINELS if (n, v) not in HONEST])
def test_a_sentinel_is_unknown_in_every_place(name: str, value: float) -> None:
    sample = Sample(1.0, **{name: value}, read_at={name: 0.5})  # type: ignore[arg-type]
    wrong = wrong_values(sample, DEVICE)
    assert set(wrong) == {name}
    assert wrong[name].startswith("the driver reported ")
    assert wrong[name].endswith("which is impossible")
    assert without(sample, wrong) == Sample(1.0)


@rows("total", [None, TOTAL])
@rows("value", [2**32 - 1, 2**31 - 1, 2**64 - 1, -1])
def test_memory_of_all_ones_is_unknown_whatever_the_device_has(
    total: int | None, value: int
) -> None:
    device = replace(DEVICE, memory_total_bytes=total)
    for name in ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"):
        assert name in wrong_values(Sample(1.0, **{name: value}), device)  # type: ignore[arg-type]


def test_the_reason_says_what_was_reported() -> None:
    sample = Sample(1.0, utilization_percent=2**32 - 1, memory_used_bytes=900_000_000_000)
    assert wrong_values(sample, DEVICE) == {
        "utilization_percent": "the driver reported 4294967295 %, which is impossible",
        "memory_used_bytes": "the driver reported 900000000000 bytes of 85899345920, "
        "which is impossible",
    }


@rows(
    "sample",
    [
        Sample(1.0, utilization_percent=101),
        Sample(1.0, utilization_percent=255),
        Sample(1.0, memory_used_bytes=TOTAL + 2 * GIB),
        Sample(1.0, memory_used_bytes=TOTAL * 9 // 10, memory_free_bytes=TOTAL * 9 // 10),
        Sample(1.0, temperature_celsius=-60),
        Sample(1.0, temperature_celsius=255),
        Sample(1.0, power_watts=65535.0),
        Sample(1.0, fan_percent=255),
        Sample(1.0, performance_state=32),
    ],
)
def test_what_cannot_be_is_unknown(sample: Sample) -> None:
    assert wrong_values(sample, DEVICE)


@rows(
    "sample",
    [
        Sample(1.0),
        Sample(1.0, utilization_percent=100, memory_utilization_percent=0),
        Sample(1.0, power_watts=900.0, power_limit_watts=700.0),
        Sample(1.0, fan_percent=150),
        Sample(1.0, temperature_celsius=-5, memory_temperature_celsius=110),
        Sample(1.0, memory_used_bytes=TOTAL, memory_free_bytes=0),
        Sample(1.0, memory_used_bytes=TOTAL // 2, memory_free_bytes=TOTAL // 2),
        Sample(1.0, sm_active_percent=100.4, tensor_active_percent=0.0),
        Sample(1.0, memory_clock_mhz=21_000, sm_clock_mhz=3_200),
        Sample(1.0, energy_joules=4.1e10),
    ],
)  # fmt: skip
def test_what_is_merely_odd_stays(sample: Sample) -> None:
    assert wrong_values(sample, DEVICE) == {}


def test_memory_that_is_the_systems_may_add_up_to_anything() -> None:
    device = replace(DEVICE, memory_kind=MemoryKind.UNIFIED)
    sample = Sample(1.0, memory_used_bytes=TOTAL * 9 // 10, memory_free_bytes=TOTAL * 9 // 10)
    assert wrong_values(sample, device) == {}


def test_recorded_hardware_is_believed_whole() -> None:
    files = [json.loads(path.read_text()) for path in RECORDED.glob("*.json")]
    recorded = [said for file in files for said in (file.get("snapshot") or {}).values()]
    assert recorded
    for said in recorded:
        snapshot = wire_in.snapshot_from_json(said)
        assert checked_snapshot(snapshot) == snapshot


def test_a_process_keeps_what_can_be_of_it() -> None:
    good = Process(1, memory_bytes=GIB, utilization_percent=100)
    bad = Process(2, memory_bytes=2**64 - 1, utilization_percent=50)
    worse = Process(3, memory_bytes=5, utilization_percent=2**32 - 1)
    processes = (good, bad, worse)
    kept, odd = checked_processes(processes, DEVICE)
    assert odd == {
        "processes.memory_bytes": "the driver reported 18446744073709551615 bytes of 85899345920 "
        "for process 2, which is impossible",
        "processes.utilization_percent": "the driver reported 4294967295 % for process 3, "
        "which is impossible",
    }
    assert kept == (good, replace(bad, memory_bytes=None), replace(worse, utilization_percent=None))
    assert checked_processes((good,), DEVICE) == ((good,), {})


@rows("value", SENTINELS)
def test_a_devices_own_limits_are_checked_too(value: float) -> None:
    limits = Limits(slowdown_celsius=value, power_default_watts=value, sm_clock_mhz=1980)  # type: ignore[arg-type]
    device, reasons = checked_device(replace(DEVICE, memory_total_bytes=value, limits=limits))
    assert device.limits == Limits(sm_clock_mhz=1980)
    assert device.memory_total_bytes is None
    assert set(reasons) == {
        "limits.slowdown_celsius", "limits.power_default_watts", "memory_total_bytes",
    }  # fmt: skip
    assert checked_device(DEVICE) == (DEVICE, {})


def test_a_recorded_host_is_checked() -> None:
    wrong = checked_host(Host(250.0, 9, 8, -1.0, disk_read_bytes_per_second=2**64 - 1))
    assert replace(wrong, missing={}) == Host(None, None, 8, None)
    assert wrong.missing["cpu_percent"] == "the node reported 250 %, which is impossible"
    assert set(wrong.missing) == {
        "cpu_percent", "memory_used_bytes", "load_1m", "disk_read_bytes_per_second",
    }  # fmt: skip
    assert checked_host(Host(99.0, 7, 8, 3.0)) == Host(99.0, 7, 8, 3.0)


# Where every vendor's samples pass.


def roster(device: Device, *readings: Reading) -> tuple[Roster, DeviceStatus]:
    made, card = Roster("nvidia", 1.0), Card("c", 0, "0000:01:00.0")
    made.opened([card], 0.0, 0.0)
    made.described("c", [device], 0.0)
    for reading in readings:
        made.answered("c", [reading], 1.0)
    return made, made.statuses({})[0]


def test_the_roster_shows_and_counts_what_cannot_be() -> None:
    sample = Sample(1.0, utilization_percent=2**32 - 1, temperature_celsius=40)
    reading = Reading("GPU-a", sample, {"fan_percent": "none"}, (Process(7, memory_bytes=-1),))
    made, status = roster(replace(DEVICE, memory_total_bytes=0), reading, reading)
    assert status.state is State.OK
    assert status.sample == Sample(1.0, temperature_celsius=40)
    assert status.processes == (Process(7),)
    assert status.device.memory_total_bytes is None
    assert set(status.missing) == {
        "fan_percent", "utilization_percent", "memory_total_bytes", "processes.memory_bytes",
    }  # fmt: skip
    assert made.impossible == 3, "a sample counts each time, a list that did not change once"


def test_what_is_sound_stays_the_same_object() -> None:
    """Texts are made once for each object."""
    processes, missing = (Process(7),), {"fan_percent": "none"}
    sample = Sample(1.0, utilization_percent=5)
    made, status = roster(DEVICE, Reading("GPU-a", sample, missing, processes))
    assert status.sample is sample
    assert status.processes is processes
    assert status.missing is missing
    assert made.impossible == 0


numbers = st.none() | st.integers() | st.floats()


@given(st.fixed_dictionaries(dict.fromkeys(BOUNDS, numbers)), st.none() | st.integers())
def test_nothing_that_cannot_be_gets_through(
    values: dict[str, float | None], total: int | None
) -> None:
    status = DeviceStatus(
        replace(DEVICE, memory_total_bytes=total),
        State.OK,
        1.0,
        sample=Sample(1.0, **values),  # type: ignore[arg-type]
    )
    (kept,) = checked_snapshot(Snapshot("n", 1.0, devices=(status,))).devices
    assert kept.sample is not None
    for name, bounds in BOUNDS.items():
        value = getattr(kept.sample, name)
        assert value is None or bounds.low <= value <= bounds.high
        assert value is not None or values[name] is None or name in kept.missing
    assert kept.memory_percent is None or 0 <= kept.memory_percent <= 101
    assert checked_snapshot(Snapshot("n", 1.0, devices=(kept,))).devices == (kept,)
