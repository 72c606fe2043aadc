"""Any node: devices in any state, with any readings and processes, over some samples."""

from hypothesis import strategies as st

from andon.model.device import (
    SAMPLE_VALUES,
    Device,
    DeviceStatus,
    Fault,
    Host,
    Limits,
    MemoryKind,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)
from andon.units import GIB

AT = 1_763_170_867.0
THROTTLES = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost",
    "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
    "display_clock_setting", "a_new_one",
)  # fmt: skip


def maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


percent = st.sampled_from([0, 1, 2, 3, 7, 35, 50, 79, 96, 100]) | st.integers(0, 100)
celsius = st.sampled_from([30, 49, 50, 70, 80, 88, 95, 97, 106]) | st.integers(0, 120)
size = st.sampled_from([0, GIB // 3, GIB, 5 * GIB, 38 * GIB, 76 * GIB, 80 * GIB])
watts = st.sampled_from([0.0, 70.5, 300.0, 420.0, 699.4, 700.0])
mhz = st.sampled_from([0, 345, 1200, 1755, 1980])
name = st.sampled_from(["alice", "bob2", "训练🚀", "{x}", "python3.11", "pt"])


def sample(at: float) -> st.SearchStrategy[Sample]:
    values: dict[str, st.SearchStrategy[object]] = {
        "memory_used_bytes": size, "memory_free_bytes": size, "memory_reserved_bytes": size,
        "temperature_celsius": celsius, "memory_temperature_celsius": celsius,
        "power_watts": watts, "power_limit_watts": watts, "energy_joules": watts,
        "sm_clock_mhz": mhz, "memory_clock_mhz": mhz,
        "throttle": st.lists(st.sampled_from(THROTTLES), max_size=3, unique=True).map(tuple),
        "pcie_generation": st.integers(1, 6), "pcie_width": st.sampled_from([1, 4, 8, 16]),
        "ecc_uncorrected": st.integers(0, 3), "performance_state": st.integers(0, 12),
    }  # fmt: skip
    made = {n: maybe(values.get(n, percent)) for n in SAMPLE_VALUES}
    read_at = st.dictionaries(st.sampled_from(SAMPLE_VALUES), st.just(at - 3.0), max_size=2)
    return st.builds(Sample, at=st.just(at), read_at=read_at, **made)


processes = st.lists(
    st.builds(
        Process,
        pid=st.integers(1, 5),
        kind=st.sampled_from(ProcessKind),
        started=maybe(st.sampled_from([AT - 7200.0, AT - 9.0, AT + 50.0])),
        name=maybe(name), user=maybe(name), command=maybe(name),
        memory_bytes=maybe(size), utilization_percent=maybe(percent),
        container=maybe(name), job=maybe(name), lease=maybe(name),
    ),
    max_size=3,
    unique_by=lambda p: p.pid,
).map(tuple)  # fmt: skip

limits = st.builds(
    Limits,
    slowdown_celsius=maybe(st.sampled_from([89, 97])),
    power_default_watts=maybe(watts),
    pcie_generation=maybe(st.integers(1, 6)),
    pcie_width=maybe(st.sampled_from([1, 8, 16])),
    sm_clock_mhz=maybe(mhz),
)


@st.composite
def device(draw: st.DrawFn, number: int) -> Device:
    return Device(
        uuid=f"GPU-{number}",
        index=number,
        vendor=draw(st.sampled_from(["nvidia", "amd"])),
        name=draw(st.sampled_from(["H200", "A100"])),
        parent=draw(st.sampled_from([None, None, None, "GPU-0"])) if number else None,
        memory_kind=draw(st.sampled_from([MemoryKind.DEVICE, MemoryKind.UNIFIED])),
        memory_total_bytes=draw(st.sampled_from([None, 80 * GIB, 80 * GIB])),
        limits=draw(limits),
    )


@st.composite
def status(draw: st.DrawFn, of: Device, at: float) -> DeviceStatus:
    missing = st.dictionaries(
        st.sampled_from((*SAMPLE_VALUES, "processes")), st.just("driver 470 is too old"), max_size=3
    )
    return DeviceStatus(
        device=of,
        state=draw(st.sampled_from([State.OK] * 7 + list(State))),
        since=at - draw(st.sampled_from([0.0, 12.0, 90_000.0, -5.0])),
        reason=draw(st.sampled_from([None, "driver call stuck for 12 s", "version mismatch"])),
        hint=draw(st.sampled_from([None, "reboot the node"])),
        sample=draw(maybe(sample(at))),  # type: ignore[arg-type]
        missing=draw(missing),
        processes=draw(processes),
    )


@st.composite
def nodes(draw: st.DrawFn) -> list[Snapshot]:
    cards = [draw(device(number)) for number in range(draw(st.sampled_from([0, 1, 1, 2, 3])))]
    step = draw(st.sampled_from([0.5, 20.0, 200.0]))
    fault = Fault("amd", draw(st.sampled_from(["no permission", "not loaded", "x7"])), "")
    host = Host(cpu_percent=draw(st.sampled_from([None, 12.0, 97.0])))
    out = []
    for number in range(draw(st.sampled_from([1, 1, 2, 4, 7]))):
        at = AT + number * step
        present = [card for card in cards if draw(st.integers(0, 9))]
        seen = tuple(draw(status(card, at)) for card in present)
        out.append(Snapshot("n", at, host=host, devices=seen, faults=(fault,)))
    return out
