"""`/metrics`: exactly the kept names, nothing that was not read, and always well-formed."""

import pytest
from msgspec.structs import replace

from andon.errors import Invalid
from andon.exporter import Exposition, Service
from andon.exporter.catalogue import ALL, MetricKind
from andon.exporter.spreads import MOST_USERS, ServerCounts
from andon.model.device import Disk, Network, Snapshot
from andon.sampling.sampler import Costs
from andon.testing.mock import MockGpuBackend
from andon.version import __version__
from tests.support.exposition import Family, parse
from tests.support.fleet_readings import FLEET
from tests.support.snapshots import (
    AT,
    assert_golden,
    farm,
    faults,
    h200,
    no_gpu,
    simulated,
    uuid,
    work,
)

COSTS = Costs(100, 2, 0.1, 0.125, 0.5, 0.75, 0.006)
SERVICE = Service(1, 20, 3, 0.04)
COUNTS = ServerCounts(123_456, {"critical": 1, "warning": 0, "info": 2}, 3, fleet=FLEET)


def scrape(snapshot: Snapshot, prefix: str = "andon") -> dict[str, Family]:
    return parse(Exposition(prefix).render(snapshot, COSTS, snapshot.at + 0.25, SERVICE))


def values(family: Family, **labels: str) -> list[float]:
    wanted = set(labels.items())
    return [value for found, value in family.series.items() if wanted <= found]


def with_disk(snapshot: Snapshot) -> Snapshot:
    host = replace(snapshot.host, disk=(Disk("/", 3, 4),), network=(Network("eth0", 5, 6),))
    return replace(snapshot, host=host)


def test_the_golden_exposition() -> None:
    text = Exposition().render(with_disk(farm()), COSTS, AT + 0.25, SERVICE, COUNTS)
    parse(text)
    assert_golden("metrics.txt", text.replace(f'"{__version__}"', '"1.2.3"'))


def test_a_servers_counts_that_are_not_known_are_left_out() -> None:
    """Never 0 leases for a lease book that cannot be read."""
    text = Exposition().render(farm(), None, AT, None, ServerCounts(None, {"critical": 0}, None))
    found = parse(text)
    assert values(found["andon_alerts"], level="critical") == [0]
    assert not {"andon_store_bytes", "andon_leases"} & set(found)


def test_the_kept_names_stand_under_the_chosen_prefix_with_the_index_as_text() -> None:
    backend = MockGpuBackend().with_device(0, "x").with_temperature(75).with_utilization(85)
    backend.with_memory(10, 20).with_power(300.5, 700.0)
    found = scrape(backend.snapshot(), "lab")
    kept = {
        "lab_gpu_temperature_celsius": 75,
        "lab_gpu_utilization_percent": 85,
        "lab_gpu_memory_used_bytes": 10,
        "lab_gpu_power_watts": 300.5,
    }
    for name, value in kept.items():
        assert found[name].series == {frozenset({("device", "0"), ("uuid", "MOCK-0")}): value}


def test_new_names_are_in_base_units() -> None:
    found = scrape(replace(farm(), devices=(h200(0, fan_percent=41, energy_joules=1.5),)))
    assert values(found["andon_gpu_fan_ratio"]) == [0.41]
    assert values(found["andon_gpu_sm_clock_hertz"]) == [345e6]
    assert values(found["andon_gpu_energy_joules_total"]) == [1.5]
    assert values(found["andon_node_cpu_ratio"]) == [0.124]
    percent = [row.name for row in ALL if row.name.endswith("_percent")]
    assert percent == ["gpu_utilization_percent"]


def test_the_names_of_the_catalogue_follow_the_custom_of_the_format() -> None:
    names = [row.name for row in ALL]
    assert len(set(names)) == len(names)
    for row in ALL:
        assert row.name.endswith("_total") == (row.kind is MetricKind.COUNTER), row.name
        assert row.help.endswith("."), row.name
        assert "\n" not in row.help
        assert "\\" not in row.help


def test_a_value_that_is_unknown_is_not_there() -> None:
    found = scrape(replace(farm(), devices=(h200(0, temperature_celsius=None, throttle=None),)))
    assert "andon_gpu_temperature_celsius" not in found
    assert "andon_gpu_throttle" not in found
    assert "andon_gpu_fan_ratio" not in found
    assert values(found["andon_gpu_utilization_percent"]) == [0]


@pytest.mark.parametrize("index", [3, 4, 5], ids=["lost", "stale", "asleep"])
def test_a_device_that_does_not_answer_has_a_state_and_no_readings(index: int) -> None:
    status = farm().devices[index]
    found = scrape(replace(farm(), devices=(status,)))
    about = {name for name, family in found.items() if values(family, uuid=uuid(index))}
    assert about == {"andon_gpu_info", "andon_gpu_state", "andon_gpu_state_since_timestamp_seconds"}
    assert values(found["andon_gpu_state"], state=status.state.value) == [1]
    assert sum(found["andon_gpu_state"].series.values()) == 1


def test_a_device_that_is_gone_leaves_nothing_behind() -> None:
    exposition = Exposition()
    exposition.render(farm(), COSTS, AT)
    rest = replace(farm(), devices=farm().devices[1:])
    assert uuid(0) not in exposition.render(rest, COSTS, AT)


def test_partitions_are_named_by_their_board_and_share_no_process_with_it() -> None:
    board, *parts = farm().devices[6:9]
    board = replace(board, processes=parts[0].processes)
    found = scrape(replace(farm(), devices=(board, *parts)))
    used = found["andon_gpu_memory_used_bytes"]
    assert [len(values(used, device=name)) for name in ("6", "6:0", "6:1")] == [1, 1, 1]
    held = found["andon_gpu_user_memory_bytes"]
    assert [values(held, device=name, user="dora") for name in ("6", "6:0")] == [
        [],
        [parts[0].processes[0].memory_bytes],
    ]
    assert values(found["andon_gpu_info"], device="6:0", parent=uuid(6)) == [1]


def test_a_reason_that_holds_is_1_and_the_others_are_0() -> None:
    found = scrape(replace(farm(), devices=(h200(0, throttle=("sw_power_cap",)),)))
    throttle = found["andon_gpu_throttle"]
    assert values(throttle, reason="sw_power_cap") == [1]
    assert values(throttle, reason="hw_thermal_slowdown") == [0]
    assert sum(throttle.series.values()) == 1


def test_of_another_vendor_only_the_reasons_that_hold_are_told() -> None:
    status = h200(0, throttle=("current_limit",))
    other = replace(status, device=replace(status.device, vendor="amd"))
    throttle = scrape(replace(farm(), devices=(other,)))["andon_gpu_throttle"]
    assert list(throttle.series.values()) == [1]


def test_any_number_of_users_makes_a_bounded_number_of_series() -> None:
    crowd = [work(n + 1, f"user{n}", "python", n + 1) for n in range(200)]
    found = scrape(replace(farm(), devices=(replace(h200(0), processes=tuple(crowd)),)))
    memory = found["andon_gpu_user_memory_bytes"]
    assert len(memory.series) == MOST_USERS + 1
    assert values(memory, user="user199") == [200 * 2**30]
    total = sum(process.memory_bytes or 0 for process in crowd)
    assert sum(memory.series.values()) == total
    assert sum(found["andon_gpu_user_processes"].series.values()) == 200


def test_a_user_whose_memory_is_partly_unknown_has_no_sum() -> None:
    both = (work(1, "alice", "a", 4.0), work(2, "alice", "b", None), work(3, None, "c", 1.0))
    found = scrape(replace(farm(), devices=(replace(h200(0), processes=both),)))
    assert values(found["andon_gpu_user_memory_bytes"], user="alice") == []
    assert values(found["andon_gpu_user_memory_bytes"], user="(unknown)") == [2**30]
    assert values(found["andon_gpu_user_processes"], user="alice") == [2]


def test_neither_pids_nor_command_lines_nor_process_names_are_told() -> None:
    text = Exposition().render(farm(), COSTS, AT)
    for process in (p for status in farm().devices for p in status.processes):
        assert str(process.pid) not in text
        assert process.name is not None
        assert f'"{process.name}' not in text
    assert "train.py" not in text


def test_simulated_devices_say_so() -> None:
    found = scrape(simulated())
    assert values(found["andon_simulated"]) == [1]
    assert values(found["andon_gpu_info"], simulated="true") == [1]
    real = scrape(farm())
    assert values(real["andon_simulated"]) == [0]
    assert not values(real["andon_gpu_info"], simulated="true")


def test_a_node_without_devices_still_tells_of_itself() -> None:
    found = scrape(no_gpu())
    assert values(found["andon_devices"]) == [0]
    assert values(found["andon_source_failed"], source="nvidia") == [1]
    assert values(found["andon_node_memory_total_bytes"]) == [no_gpu().host.memory_total_bytes]


def test_a_vendor_that_fails_stands_beside_one_that_works() -> None:
    failed = scrape(faults())["andon_source_failed"]
    assert values(failed, source="amd") == [1]
    assert values(failed, source="nvidia") == [0]


def test_the_age_is_that_of_the_snapshot_and_never_below_nothing() -> None:
    text = Exposition().render(farm(), None, AT + 12.5)
    assert values(parse(text)["andon_snapshot_age_seconds"]) == [12.5]
    earlier = Exposition().render(farm(), None, AT - 5)
    assert values(parse(earlier)["andon_snapshot_age_seconds"]) == [0]


def test_costs_that_nobody_knows_are_not_there() -> None:
    assert "andon_snapshots_total" not in parse(Exposition().render(farm(), None, AT))
    assert values(scrape(farm())["andon_missed_snapshots_total"]) == [2]
    assert values(scrape(farm())["andon_scrape_failures_total"]) == [3]


@pytest.mark.parametrize("prefix", ["", "9x", "a b", "a-b", 'a"', "a:b", "ä"])
def test_a_prefix_that_cannot_begin_a_name_is_refused(prefix: str) -> None:
    with pytest.raises(Invalid):
        Exposition(prefix)


def test_labels_come_back_as_they_went_in() -> None:
    name = 'a "b" \\ c\nd {x="y"} é 训练'
    status = replace(h200(0), device=replace(h200(0).device, name=name))
    found = scrape(replace(farm(), devices=(status,)))
    assert values(found["andon_gpu_info"], name=name) == [1]
