"""`andon selftest`: readings that can be true pass, those that cannot are told with the numbers."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from andon.cli.commands.setup import selftest
from andon.cli.commands.setup.doctor import title_of
from andon.cli.main import run
from andon.cli.show.findings import render_findings
from andon.cli.show.text import painted
from andon.doctor.rules.findings import CheckResult, FindingName, Grade, in_order
from andon.doctor.rules.selftest.plausibility import judge
from andon.doctor.rules.selftest.trials import Sampling, SelftestTrial, histories_of
from andon.model.device import MemoryKind, Process, Snapshot, State
from andon.testing.mock import MockGpuBackend
from andon.units import GIB
from tests.support.snapshots import AT, busy, h200, mig_board

FINE = Sampling(5, 1.0, 0, 0, 0.002, 0.004)


def ticks(count: int = 6, devices: int = 2, **values: Any) -> list[Snapshot]:
    """A healthy node over some seconds: power and temperature move a little, energy follows."""
    return [replace(_tick(number, devices, values), at=AT + number) for number in range(count)]


def _tick(number: int, devices: int, values: dict[str, Any]) -> Snapshot:
    at = AT + number
    statuses = []
    for index in range(devices):
        status = h200(index, 10.0)
        assert status.sample is not None
        sample = replace(
            status.sample,
            at=at + 0.01,
            power_watts=100.0 + number,
            energy_joules=1000.0 + 101 * number,
        )
        sample = replace(
            sample, **{k: v[number] if isinstance(v, list) else v for k, v in values.items()}
        )
        statuses.append(replace(status, sample=sample))
    return Snapshot("node17", at, devices=tuple(statuses))


def changed(
    snapshots: list[Snapshot], change: Callable[[Any], Any], index: int = 0
) -> list[Snapshot]:
    """The same, with one device's status changed in every snapshot."""
    return [
        replace(s, devices=tuple(change(d) if n == index else d for n, d in enumerate(s.devices)))
        for s in snapshots
    ]


def failed(findings: Sequence[CheckResult]) -> set[FindingName]:
    return {f.check for f in findings if f.grade is Grade.FAILURE}


def grades(findings: Sequence[CheckResult]) -> dict[str, Grade]:
    return {str(finding.check): finding.grade for finding in findings}


def test_a_healthy_node_passes_every_check() -> None:
    findings = judge(ticks(), FINE)
    assert failed(findings) == set()
    assert {str(f.check) for f in findings} >= {
        str(t) for t in SelftestTrial if t.area != "load"
    } - {"no_device"}
    assert all(finding.grade is Grade.OK for finding in findings), findings


NAN = float("nan")


@pytest.mark.parametrize(
    ("trial", "values", "says"),
    [
        (SelftestTrial.SHARES, {"utilization_percent": 101}, "utilisation 101 %"),
        (SelftestTrial.SHARES, {"utilization_percent": -1}, "utilisation -1 %"),
        (SelftestTrial.SHARES, {"memory_utilization_percent": 255}, "memory utilisation 255"),
        (SelftestTrial.SHARES, {"encoder_percent": 4096}, "encoder 4096"),
        (SelftestTrial.SHARES, {"decoder_percent": -5}, "decoder -5"),
        (SelftestTrial.SHARES, {"sm_active_percent": 100.5}, "SM active 100.5"),
        (SelftestTrial.SHARES, {"tensor_active_percent": NAN}, "tensor cores active nan"),
        (SelftestTrial.TEMPERATURE, {"temperature_celsius": 0}, "temperature 0 °C"),
        (SelftestTrial.TEMPERATURE, {"temperature_celsius": 120}, "temperature 120"),
        (SelftestTrial.TEMPERATURE, {"temperature_celsius": 255}, "temperature 255"),
        (SelftestTrial.TEMPERATURE, {"memory_temperature_celsius": -40}, "memory temperature -40"),
        (SelftestTrial.POWER, {"power_watts": 1050.1, "energy_joules": None}, "power 1050.1 W"),
        (SelftestTrial.POWER, {"power_watts": -1.0, "energy_joules": None}, "power -1 W"),
        (SelftestTrial.POWER, {"power_watts": NAN, "energy_joules": None}, "power nan W"),
        (SelftestTrial.POWER, {"power_watts": float("inf"), "energy_joules": None}, "power inf W"),
        (
            SelftestTrial.ENERGY,
            {"energy_joules": [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]},
            "counter decreased",
        ),
        (
            SelftestTrial.ENERGY,
            {"energy_joules": [0.0, 1e4, 2e4, 3e4, 4e4, 5e4]},
            "50000 J in 5.0 s",
        ),
        (SelftestTrial.ENERGY, {"energy_joules": 5.0}, "0 J in 5.0 s"),
        (SelftestTrial.CLOCKS, {"sm_clock_mhz": 2179}, "SM clock 2179 MHz"),
        (SelftestTrial.CLOCKS, {"sm_clock_mhz": -1}, "SM clock -1"),
        (SelftestTrial.CLOCKS, {"memory_clock_mhz": 10**6}, "memory clock 1e+06"),
        (SelftestTrial.LINK, {"pcie_width": 32}, "PCIe width 32"),
        (SelftestTrial.LINK, {"pcie_generation": 6}, "PCIe generation 6"),
        (SelftestTrial.MEMORY, {"memory_used_bytes": -1}, "-1 bytes used"),
        (SelftestTrial.MEMORY, {"memory_used_bytes": 200 * GIB}, "bytes used of"),
        (SelftestTrial.MEMORY, {"memory_free_bytes": 0}, "used + free + reserved is"),
        (SelftestTrial.MEMORY, {"memory_reserved_bytes": 5 * GIB}, "103."),
    ],
)
def test_a_reading_that_cannot_be_true_is_told(
    trial: SelftestTrial, values: Any, says: str
) -> None:
    findings = judge(ticks(devices=1, **values), FINE)
    (found,) = [f for f in findings if f.grade is Grade.FAILURE]
    assert found.check is trial
    assert says in found.message
    assert found.message.startswith("GPU 0: ")
    assert found.fix


@pytest.mark.parametrize(
    ("values"),
    [
        {"utilization_percent": 0},
        {"utilization_percent": 100},
        {"temperature_celsius": 119},
        {"temperature_celsius": 1},
        {"power_watts": [1050.0 - n for n in range(6)], "energy_joules": None},
        {"power_watts": [0.0, 0.1, 0, 0, 0, 0], "energy_joules": None},
        {"sm_clock_mhz": 2178},
        {"pcie_width": 1, "pcie_generation": 1},
        {"memory_reserved_bytes": 2 * GIB},
        {"fan_percent": 104},
    ],
)
def test_a_reading_at_the_edge_is_believed(values: Any) -> None:
    assert failed(judge(ticks(**values), FINE)) == set()


@pytest.mark.parametrize(
    ("trial", "names"),
    [
        ("shares", ("utilization_percent",)),
        ("memory", ("memory_used_bytes",)),
        ("temperature", ("temperature_celsius",)),
        ("power", ("power_watts",)),
        ("energy", ("energy_joules",)),
        ("clocks", ("sm_clock_mhz",)),
        ("link", ("pcie_width", "pcie_generation")),
    ],
)
def test_what_no_device_gives_is_not_checked_and_not_blamed(trial: str, names: Any) -> None:
    findings = judge(ticks(**dict.fromkeys(names, cast("Any", None))), FINE)
    assert grades(findings)[trial] is Grade.UNKNOWN
    assert failed(findings) == set()


def test_energy_that_was_read_once_says_how_to_check_it() -> None:
    once = changed(ticks(devices=1), lambda d: replace(
        d, sample=replace(d.sample, energy_joules=9.0, read_at={"energy_joules": AT})))  # fmt: skip
    (found,) = [f for f in judge(once, FINE) if f.check is SelftestTrial.ENERGY]
    assert found.grade is Grade.UNKNOWN
    assert "--seconds 70" in found.message


def test_a_busy_device_whose_readings_never_move_is_frozen() -> None:
    still: dict[str, Any] = {"utilization_percent": 87, "power_watts": 600.0, "energy_joules": None}
    assert failed(judge(ticks(**still), FINE)) == {SelftestTrial.MOVEMENT}
    assert failed(judge(ticks(3, **still), FINE)) == set(), "three looks are too few to say"
    idle = {**still, "utilization_percent": 0}
    assert failed(judge(ticks(**idle), FINE)) == set(), "an idle device may stand still"


def test_processes_hold_no_more_than_is_in_use() -> None:
    def held(*processes: Process) -> set[FindingName]:
        snapshots = changed(ticks(devices=1), lambda d: replace(d, processes=processes))
        return failed(judge(snapshots, FINE))

    assert held(Process(1, memory_bytes=10 * GIB)) == set()
    assert held(Process(1, memory_bytes=8 * GIB), Process(2, memory_bytes=8 * GIB)) == {
        SelftestTrial.PROCESSES
    }
    twice = Process(1, memory_bytes=9 * GIB)
    assert held(twice, replace(twice, kind=twice.kind)) == set(), "one process in two lists"
    assert held(Process(1, memory_bytes=None)) == set()


def test_unified_memory_is_the_systems_and_does_not_add_up() -> None:
    snapshots = changed(
        ticks(devices=1, memory_free_bytes=0),
        lambda d: replace(d, device=replace(d.device, memory_kind=MemoryKind.UNIFIED)),
    )
    assert failed(judge(snapshots, FINE)) == set()


def test_a_board_cut_into_instances_is_believed() -> None:
    snapshots = [
        replace(s, devices=tuple(
            replace(d, sample=replace(d.sample, at=s.at)) for d in mig_board(0) if d.sample))
        for s in ticks()
    ]  # fmt: skip
    assert failed(judge(snapshots, FINE)) == {SelftestTrial.MEMORY}, "this one does not add up"
    assert [history.label for history in histories_of(snapshots)] == ["GPU 0", "GPU 0:0", "GPU 0:1"]


# Devices and time.


@pytest.mark.parametrize("state", [State.STALE, State.LOST])
def test_a_device_that_falls_silent_is_told(state: State) -> None:
    snapshots = ticks()
    snapshots[3:] = changed(snapshots[3:], lambda d: replace(d, state=state, reason="hung"), 1)
    (found,) = [f for f in judge(snapshots, FINE) if f.grade is Grade.FAILURE]
    assert found.message == f"GPU 1 was {state.text} in 3 of 6 samples: hung"


def test_a_sleeping_device_is_left_alone_and_not_blamed() -> None:
    asleep = changed(ticks(), lambda d: replace(d, state=State.ASLEEP, sample=None))
    assert failed(judge(asleep, FINE)) == set()
    alone = changed(ticks(devices=1), lambda d: replace(d, state=State.ASLEEP, sample=None))
    (found,) = judge(alone, FINE)
    assert found.grade is Grade.UNKNOWN


def test_no_device_is_one_failure_with_the_reason() -> None:
    backend = MockGpuBackend().with_fault("the driver is not loaded", "sudo modprobe nvidia")
    (found,) = judge([backend.snapshot(AT + n) for n in range(3)], FINE)
    assert found.check is SelftestTrial.NO_DEVICE
    assert "the driver is not loaded" in found.message


def test_a_device_that_comes_or_goes_is_told() -> None:
    snapshots = ticks()
    fewer = [*snapshots[:-1], replace(snapshots[-1], devices=snapshots[-1].devices[:1])]
    assert failed(judge(fewer, FINE)) == {SelftestTrial.IDENTITY}


def test_two_devices_of_one_uuid_are_told() -> None:
    double = [replace(s, devices=(s.devices[0], s.devices[0])) for s in ticks(devices=1)]
    assert SelftestTrial.IDENTITY in failed(judge(double, FINE))


def test_time_that_stands_still_is_told() -> None:
    snapshots = ticks()
    assert SelftestTrial.TIME in failed(judge([snapshots[0]] * 4, FINE))
    old = changed(snapshots, lambda d: replace(d, sample=replace(d.sample, at=AT)))
    assert SelftestTrial.TIME in failed(judge(old, FINE))
    off = changed(snapshots, lambda d: replace(d, sample=replace(d.sample, at=d.sample.at - 60)))
    (found,) = [f for f in judge(off, FINE) if f.grade is Grade.FAILURE]
    assert "60.0 s off" in found.message


@pytest.mark.parametrize(
    ("sampling", "trial", "grade"),
    [
        (replace(FINE, missed=1), "snapshots", Grade.FAILURE),
        (replace(FINE, dropped=2), "snapshots", Grade.FAILURE),
        (FINE, "snapshots", Grade.OK),
        (FINE, "cost", Grade.OK),
        (replace(FINE, sampler_cpu_seconds=0.6), "cost", Grade.WARNING),
        (Sampling(), "cost", Grade.OK),
    ],
)
def test_the_sampling_itself_is_judged(sampling: Sampling, trial: str, grade: Grade) -> None:
    assert grades(judge(ticks(), sampling))[trial] is grade


def test_many_devices_with_one_trouble_are_counted() -> None:
    findings = judge(ticks(devices=8, temperature_celsius=255), FINE)
    told = [f.message for f in findings if f.check is SelftestTrial.TEMPERATURE]
    assert len(told) == 5
    assert told[-1] == "temperature: and 4 more devices"


def test_a_mock_device_passes() -> None:
    def tick(number: int) -> Snapshot:
        backend = MockGpuBackend().with_device(0, "x").with_temperature(40 + number)
        return backend.with_utilization(85).with_memory(GIB, 8 * GIB).snapshot(AT + number)

    findings = judge([tick(number) for number in range(5)], FINE)
    assert failed(findings) == set()
    assert grades(findings)["power"] is Grade.UNKNOWN


# The command.


def test_simulated_devices_are_plausible(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["selftest", "--simulate", "3", "--seconds", "0.5", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == "andon.selftest/1"
    assert value["grade"] in ("ok", "warning")
    assert "SIMULATED" in value["findings"][0]["message"] + value["findings"][1]["message"]


def test_a_device_that_overheats_in_the_simulation_is_still_plausible(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "hot")
    assert run(["selftest", "--simulate", "2", "--seconds", "0.5"]) == 0
    assert "temperature" in capsys.readouterr().out


def test_a_lost_device_fails_the_test(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_SIMULATE_FAULTS", "lost:1@0")
    assert run(["selftest", "--simulate", "2", "--seconds", "0.5"]) == 1
    assert "GPU 1 was lost" in capsys.readouterr().out


def test_golden_results_look_as_drawn(golden: Callable[[str, str], None]) -> None:
    hot = changed(ticks(), lambda d: replace(d, sample=replace(d.sample, temperature_celsius=255)))
    findings = in_order(judge(hot, replace(FINE, missed=1)))
    text = painted(render_findings(findings, title_of("selftest", "node17"), 80))
    golden("doctor-selftest.txt", text)


def test_the_schema_is_its_own() -> None:
    assert selftest.SCHEMA == "andon.selftest/1"
    assert busy(0, 50, 1.0).answered
