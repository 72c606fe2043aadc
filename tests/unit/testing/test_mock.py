"""The mock says what it was told, stands where a backend stands, and knows nothing else."""

import pytest
from msgspec.structs import replace

from andon.api.compat.metrics import GpuMetrics
from andon.errors import Gone, Invalid, Unavailable
from andon.model import wire, wire_in
from andon.model.device import SAMPLE_VALUES, Process, ProcessKind, State
from andon.ports import Backend
from andon.testing.mock import MockGpuBackend
from andon.units import GIB


def told() -> MockGpuBackend:
    return (
        MockGpuBackend()
        .with_device(0, "x")
        .with_temperature(75)
        .with_utilization(85)
        .with_memory(20 * GIB, 80 * GIB)
        .with_power(350.0, 700.0)
        .with_process(4242, 19 * GIB, name="python", user="alice")
        .with_device(1, "y")
        .with_temperature(40)
    )


def test_metrics_are_what_was_told() -> None:
    first, second = told().collect_metrics()
    assert first == GpuMetrics(0, "x", 75, 85, 20 * GIB, 80 * GIB, 350.0, 700.0)
    assert (first.memory_percent(), first.power_percent()) == (25.0, 50.0)
    assert (second.device_id, second.name, second.temperature_celsius) == (1, "y", 40)


def test_what_was_not_told_is_unknown_with_a_reason() -> None:
    metrics = told().collect_metrics()[1]
    assert metrics.utilization_percent is None
    assert metrics.memory_percent() is None
    assert metrics.power_percent() is None
    status = told().snapshot().devices[1]
    absent = {name for name in SAMPLE_VALUES if getattr(status.sample, name) is None}
    assert absent == set(status.missing)


def test_power_without_a_limit_has_no_share() -> None:
    (metrics,) = MockGpuBackend().with_device(0, "x").with_power(90.0).collect_metrics()
    assert metrics.power_watts == 90.0
    assert metrics.power_percent() is None


def test_it_stands_where_a_backend_stands() -> None:
    backend: Backend = told()
    assert backend.glance() == backend.open()
    first, second = backend.open()
    (device,) = backend.describe(first)
    (reading,) = backend.read(first, 12.0, watched=False)
    assert (device.uuid, device.memory_total_bytes) == (reading.uuid, 80 * GIB)
    assert reading.sample is not None
    assert reading.sample.at == 12.0
    assert reading.processes == (Process(4242, name="python", user="alice", memory_bytes=19 * GIB),)
    assert second.index == 1
    assert backend.versions()
    backend.close()
    backend.close()


def test_a_snapshot_has_its_time_and_node_and_travels() -> None:
    snapshot = told().snapshot(at=100.0, node="lab")
    assert (snapshot.node, snapshot.at, snapshot.simulated) == ("lab", 100.0, False)
    assert snapshot.devices[0].memory_unattributed_bytes == GIB
    assert wire_in.snapshot_from_json(wire.snapshot_to_json(snapshot)) == snapshot


def test_a_lost_device_raises_gone_and_its_neighbour_answers() -> None:
    backend = told().lost("it fell off the bus", hint="reboot")
    healthy, lost = backend.open()
    assert backend.read(healthy, 0.0, watched=False)
    with pytest.raises(Gone, match="fell off"):
        backend.read(lost, 0.0, watched=False)
    status = backend.snapshot().devices[1]
    assert (status.state, status.reason, status.hint) == (
        State.LOST,
        "it fell off the bus",
        "reboot",
    )
    assert backend.collect_metrics()[1] == GpuMetrics(1, "y")


def test_a_fault_makes_the_whole_vendor_unavailable() -> None:
    backend = told().with_fault("no driver", hint="install it")
    (card, _) = backend.glance()
    for ask in (
        backend.open,
        lambda: backend.describe(card),
        lambda: backend.read(card, 0.0, True),
    ):
        with pytest.raises(Unavailable, match="no driver"):
            ask()
    snapshot = backend.snapshot()
    assert snapshot.devices == ()
    assert [(f.source, f.reason, f.hint) for f in snapshot.faults] == [
        ("mock", "no driver", "install it")
    ]


def test_a_value_can_change_between_rounds() -> None:
    backend = MockGpuBackend().with_device(0, "x").with_temperature(60)
    before = backend.snapshot()
    backend.with_temperature(95)
    assert [m.temperature_celsius for m in backend.collect_metrics()] == [95]
    assert before.devices[0].sample is not None
    assert before.devices[0].sample.temperature_celsius == 60


def test_any_reading_can_be_set_or_taken_away_with_a_reason() -> None:
    backend = (
        MockGpuBackend().with_device(0, "x").with_values(fan_percent=30, throttle=("gpu_idle",))
    )
    backend.with_process(1, kind=ProcessKind.GRAPHICS)
    backend.without("fan_percent", "no fan").without("processes", "no permission")
    (status,) = backend.snapshot().devices
    assert status.sample is not None
    assert status.sample.throttle == ("gpu_idle",)
    assert status.missing["fan_percent"] == "no fan"
    assert (status.missing["processes"], status.processes) == ("no permission", ())


def test_instances_belong_to_the_card_of_their_board() -> None:
    backend = MockGpuBackend().with_device(0, "board").with_device(1, "1g.10gb", parent=0)
    (card,) = backend.open()
    board, instance = backend.describe(card)
    assert (instance.parent, len(backend.read(card, 0.0, watched=False))) == (board.uuid, 2)


def test_an_instance_can_be_lost_alone() -> None:
    backend = MockGpuBackend().with_device(0, "board").with_device(1, "1g.10gb", parent=0).lost()
    board, instance = backend.read(backend.open()[0], 0.0, watched=False)
    assert (board.state, instance.state) == (State.OK, State.LOST)


def test_mistakes_in_a_test_are_told() -> None:
    with pytest.raises(Invalid, match="no device yet"):
        MockGpuBackend().with_temperature(3)
    with pytest.raises(Invalid, match="already"):
        MockGpuBackend().with_device(0, "x").with_device(0, "y")
    with pytest.raises(Invalid, match="charm"):
        MockGpuBackend().with_device(0, "x").with_values(charm=1)


def test_an_old_sample_is_not_this_rounds() -> None:
    stale = replace(told().snapshot().devices[0], state=State.STALE)
    metrics = GpuMetrics.from_status(stale)
    assert metrics.temperature_celsius is None
    assert metrics.memory_total_bytes == 80 * GIB
