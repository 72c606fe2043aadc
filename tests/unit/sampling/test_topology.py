"""How devices are linked, which of them are chosen together, and the CPUs next to them."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.cli.show.text import painted
from andon.cli.show.topology import render_topology
from andon.host.topology import on_cpus, read_place
from andon.jobs.rules.dispatch import QueuedJob, plan
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import choose, pick, rank
from andon.model.codec import read
from andon.model.device import Device, DeviceStatus, Snapshot
from andon.model.links import (
    LinkKind,
    group_links_text,
    link_between,
    linked_groups,
    topology_to_json,
    with_places,
)
from andon.model.place import SWITCH, DevicePlace, cpu_list, parse_cpus
from andon.model.shapes import to_json
from andon.model.wire import ANSWER, dumps, loads
from andon.work.rules.binding import binding
from tests.support.replaced import fails
from tests.support.sharing_parts import capacities_of, gpu, need


def pci(index: int) -> str:
    return f"0000:{index:02x}:00.0"


def at(index: int, place: DevicePlace, used_gib: float = 0.0) -> DeviceStatus:
    status = gpu(index, used_gib)
    return replace(status, device=replace(status.device, pci=pci(index), place=place))


def device(index: int, **place: Any) -> Device:
    return at(index, DevicePlace(**place)).device


ROOT, OTHER = ("pci0000:00", "0000:00:01.0"), ("pci0000:80", "0000:80:01.0")
Row = tuple[str, dict[str, Any], dict[str, Any], LinkKind, int]
LINKS: list[Row] = [
    ("one NVLink", {"nvlinks": {pci(1): 4}}, {}, LinkKind.NVLINK, 4),
    ("the other end knows it", {}, {"nvlinks": {pci(0): 2}}, LinkKind.NVLINK, 2),
    ("NVSwitch", {"nvlinks": {SWITCH: 18}}, {"nvlinks": {SWITCH: 16}}, LinkKind.NVLINK, 16),
    ("one at a switch", {"nvlinks": {SWITCH: 18}}, {}, LinkKind.UNKNOWN, 0),
    ("NVLink to a third", {"nvlinks": {pci(7): 4}}, {}, LinkKind.UNKNOWN, 0),
    ("by NVML, one card", {"ancestors": {pci(1): 0}}, {}, LinkKind.BOARD, 0),
    ("by NVML, a switch", {}, {"ancestors": {pci(0): 20}}, LinkKind.PCIE_SWITCH, 0),
    ("by NVML, a level of the future", {"ancestors": {pci(1): 45}}, {}, LinkKind.UNKNOWN, 0),
    ("NVML before the kernel", {"ancestors": {pci(1): 50}, "bridges": ROOT}, {"bridges": ROOT},
     LinkKind.SYSTEM, 0),
    ("a shared bridge", {"bridges": (*ROOT, "a")}, {"bridges": (*ROOT, "b")},
     LinkKind.PCIE_SWITCH, 0),
    ("a shared root", {"bridges": ROOT}, {"bridges": (ROOT[0], "0000:00:02.0")},
     LinkKind.HOST_BRIDGE, 0),
    ("two roots of a node", {"bridges": ROOT, "numa_node": 0}, {"bridges": OTHER, "numa_node": 0},
     LinkKind.NUMA_NODE, 0),
    ("two nodes", {"bridges": ROOT, "numa_node": 0}, {"bridges": OTHER, "numa_node": 1},
     LinkKind.SYSTEM, 0),
    ("nothing is known", {}, {}, LinkKind.UNKNOWN, 0),
]  # fmt: skip


def test_the_best_known_way_between_two_devices_is_their_link() -> None:
    wrong = []
    for name, first, second, kind, lanes in LINKS:
        one, other = device(0, **first), device(1, **second)
        forth, back = link_between(one, other), link_between(other, one)
        if (forth.kind, forth.lanes) != (kind, lanes) or forth != back:
            wrong.append((name, forth, back))
    assert wrong == []


def box() -> list[Device]:
    """Two switches of four at two sockets, NVLink between neighbours."""
    return [
        device(
            index,
            nvlinks={pci(index ^ 1): 4},
            numa_node=index // 4,
            cpus=f"{32 * (index // 4)}-{32 * (index // 4) + 31}",
            bridges=(f"pci{index // 4}", f"switch{index // 4}", f"port{index}"),
        )
        for index in range(8)
    ]


def test_groups_are_named_once_by_their_closest_link() -> None:
    found = [(group.kind, group.uuids) for group in linked_groups(box())]
    assert found == [
        *[(LinkKind.NVLINK, (f"GPU-{index}", f"GPU-{index + 1}")) for index in (0, 2, 4, 6)],
        (LinkKind.PCIE_SWITCH, ("GPU-0", "GPU-1", "GPU-2", "GPU-3")),
        (LinkKind.PCIE_SWITCH, ("GPU-4", "GPU-5", "GPU-6", "GPU-7")),
    ]
    assert group_links_text(box()[:2]) == "linked by NVLink (4 links)"
    assert group_links_text(box()[:4]) == "linked by a PCIe switch"
    assert group_links_text(box()) == "linked by the connection between NUMA nodes"
    assert group_links_text(box()[:1]) is None
    assert group_links_text([device(0), device(1)]) is None


def capacities(devices: list[Device], *used: float) -> list[DeviceCapacity]:
    amounts = [*used, *([0.0] * len(devices))]
    statuses = [at(one.index, one.place, amounts[n]) for n, one in enumerate(devices)]
    return list(capacities_of(statuses))


def indices(chosen: tuple[DeviceCapacity, ...]) -> list[int]:
    return sorted(one.status.device.index for one in chosen)


@pytest.mark.parametrize(
    ("free", "count", "weight", "chosen"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 2, 0.2, [0, 1]),
        ([0, 2, 4, 5, 6], 2, 0.2, [4, 5]),
        ([0, 2, 4, 5, 6], 2, 0.0, [0, 2]),  # links do not count
        ([0, 2, 3, 4, 5, 6, 7], 4, 0.2, [4, 5, 6, 7]),
        ([0, 1, 2, 4, 6], 3, 0.2, [0, 1, 2]),
        ([0, 4], 2, 0.2, [0, 4]),  # what there is
        ([3], 1, 0.2, [3]),
    ],
)
def test_linked_devices_are_chosen_together(
    free: list[int], count: int, weight: float, chosen: list[int]
) -> None:
    devices = [one for one in box() if one.index in free]
    spaces = capacities(devices)
    wanted = replace(need(count), eligible=frozenset(one.uuid for one in devices))
    found = choose(spaces, wanted, {}, {}, rank(), weight)
    assert indices(found.chosen) == chosen
    assert (found.linked is not None) == (weight > 0 and count > 1)


def test_a_job_gets_linked_devices_too() -> None:
    devices = [one for one in box() if one.index in (0, 2, 4, 5, 6)]
    wanted = replace(need(2), eligible=frozenset(one.uuid for one in devices))
    for weight, uuids in ((0.2, ("GPU-4", "GPU-5")), (0.0, ("GPU-0", "GPU-2"))):
        found = plan([QueuedJob(1, wanted)], capacities(devices), 0.0, link_weight=weight)
        assert [one.uuids for one in found.starts] == [uuids]


def test_a_weight_is_weighed_against_free_memory_and_never_against_a_preference() -> None:
    devices = [one for one in box() if one.index in (0, 1, 2, 4)]
    eligible = frozenset(one.uuid for one in devices)
    wanted = replace(need(2), eligible=eligible, balanced=False, even_if_used=True)
    half = capacities(devices, 70.0, 70.0)  # the linked pair is almost full
    assert indices(pick(half, wanted, order=rank(), link_weight=0.2)) == [2, 4]
    assert indices(pick(half, wanted, order=rank(), link_weight=1.0)) == [0, 1]
    order = rank(frozenset({"GPU-2", "GPU-4"}))
    assert indices(pick(capacities(devices), wanted, order=order, link_weight=1.0)) == [2, 4]


@given(
    st.lists(st.integers(0, 70), min_size=2, max_size=8),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from(["unknown", "all alike"]),
)
def test_where_links_say_nothing_the_choice_is_as_without_them(
    used: list[int], count: int, balanced: bool, links: str
) -> None:
    place = {"nvlinks": {SWITCH: 18}} if links == "all alike" else {}
    devices = [device(index, **place) for index in range(len(used))]
    spaces = capacities(devices, *map(float, used))
    wanted = replace(
        need(min(count, len(used))),
        eligible=frozenset(one.uuid for one in devices),
        balanced=balanced,
        even_if_used=True,
    )
    assert pick(spaces, wanted, link_weight=1.0) == pick(spaces, wanted)


@given(st.data())
def test_a_group_has_the_size_that_was_asked_for_whatever_the_links(data: st.DataObject) -> None:
    indexes = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True))
    used = data.draw(st.lists(st.integers(0, 5), min_size=8, max_size=8))
    devices = [one for one in box() if one.index in indexes]
    count = data.draw(st.integers(1, len(devices)))
    eligible = frozenset(one.uuid for one in devices)
    wanted = replace(need(count), eligible=eligible, even_if_used=True)
    weight = data.draw(st.floats(0, 1))
    chosen = pick(capacities(devices, *map(float, used)), wanted, link_weight=weight)
    assert len({one.uuid for one in chosen}) == count


@given(st.frozensets(st.integers(0, 500)))
def test_a_list_of_cpus_survives_its_text(cpus: frozenset[int]) -> None:
    assert parse_cpus(cpu_list(cpus)) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", []), ("3", [3]), ("0-2,8\n", [0, 1, 2, 8]), ("x,5-4,-2,1-2-3", []), ("0-99999999", [])],
)
def test_what_is_not_a_cpu_is_left_out(text: str, cpus: list[int]) -> None:
    assert sorted(parse_cpus(text)) == cpus


def test_a_command_is_bound_to_the_cpus_next_to_its_devices_that_it_may_use() -> None:
    devices = box()
    bound = binding(devices[:2], range(128))
    assert bound.cpus == frozenset(range(32))
    assert bound.reason == "bound to the CPUs 0-31, next to its devices, NUMA node 0"
    both = binding([devices[0], devices[4]], range(16, 40))
    assert (both.cpus, "NUMA node 0, 1" in both.reason) == (frozenset(range(16, 40)), True)
    assert both.reason.endswith("these are all that it may use")
    none = binding(devices[4:5], range(32))
    assert none.cpus is None
    assert none.reason == (
        "not bound: this process may use the CPUs 0-31, and those next to its devices are 32-63"
    )
    unknown = binding([device(3, missing={"cpus": "no reason"})], range(4))
    assert unknown.cpus is None
    assert unknown.reason == "not bound: the CPUs next to GPU 3 are unknown: no reason"


def test_a_place_survives_the_pipe_of_the_reader() -> None:
    place = replace(box()[0].place, ancestors={pci(3): 10}, source="nvml", missing={"x": "y"})
    assert read(DevicePlace, loads(dumps(to_json(place)), ANSWER)) == place


def kernel(root: Path, address: str, *bridges: str, node: str = "0", cpus: str = "0-31") -> None:
    folder = root / "sys/devices" / "/".join(bridges) / address
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{node}\n")
    (folder / "local_cpulist").write_text(f"{cpus}\n")
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / address).symlink_to(folder)


def test_the_kernel_tells_the_place_of_a_device(tmp_path: Path) -> None:
    kernel(tmp_path, pci(1), "pci0000:00", "0000:00:01.0", "0000:01:02.0")
    kernel(tmp_path, pci(2), "pci0000:00", "0000:00:02.0", node="-1", cpus="")
    found = read_place(tmp_path, pci(1))
    assert found == DevicePlace(
        0, "0-31", ("pci0000:00", "0000:00:01.0", "0000:01:02.0"), source="sysfs"
    )
    poor = read_place(tmp_path, pci(2))
    assert (poor.numa_node, poor.cpus) == (None, None)
    assert set(poor.missing) == {"numa_node", "cpus"}
    for absent in (pci(3), None, "../../etc"):
        nowhere = read_place(tmp_path, absent)
        assert nowhere.bridges == ()
        assert nowhere.missing["bridges"]


MATRIX = """\
n

       GPU 0  GPU 1  GPU 4  NUMA  CPUS
GPU 0      X    NV4    SYS     0  0-31
GPU 1    NV4      X    SYS     0  0-31
GPU 4    SYS    SYS      X     1  32-63

NV#   NVLink, and how many links
SYS   the connection between NUMA nodes

NVLink: GPU 0, 1
NUMA node 0: GPU 0, 1
NUMA node 1: GPU 4
"""


def test_the_matrix_has_a_legend_and_the_groups_in_words() -> None:
    statuses = [at(one.index, one.place) for one in box()]
    shown = Snapshot("n", 1.0, devices=tuple(statuses[index] for index in (0, 1, 4)))
    assert painted(render_topology(shown, 80)) == MATRIX
    found = topology_to_json(shown)
    assert (found["schema"], len(found["links"])) == ("andon.topology/1", 6)
    assert found["links"][0] == {"from": "GPU-0", "to": "GPU-1", "kind": "nvlink", "lanes": 4}
    unplaced = replace(shown, devices=tuple(gpu(index) for index in (0, 1, 4, 5)))
    again = with_places(unplaced, loads(dumps(found), ANSWER))
    assert [one.device.place for one in again.devices[:3]] == [
        one.device.place for one in shown.devices
    ]
    assert again.devices[3] == unplaced.devices[3], "a device that came later has no place yet"
    whole = painted(render_topology(Snapshot("n", 1.0, devices=tuple(statuses)), 80))
    assert max(map(len, whole.splitlines())) <= 80
    assert "…" not in whole
    narrow = painted(render_topology(shown, 36))
    assert narrow.splitlines()[2:10] == [
        "       GPU 0  GPU 1", "GPU 0      X    NV4", "GPU 1    NV4      X", "GPU 4    SYS    SYS",
        "", "       GPU 4  NUMA  CPUS", "GPU 0    SYS     0  0-31", "GPU 1    SYS     0  0-31",
    ]  # fmt: skip


def test_what_is_unknown_is_said_with_its_reason() -> None:
    lost = Snapshot("n", 1.0, devices=(gpu(0), gpu(1)))
    text = painted(render_topology(lost, 80))
    assert "unknown for GPU 0, 1: not asked for" in text
    assert "?     unknown" in text


def test_nodes_are_named_in_their_order() -> None:
    devices = [device(i, numa_node=node, cpus="0-3") for i, node in enumerate((10, 2))]
    assert "NUMA node 2, 10" in binding(devices, {0, 1, 2, 3, 4}).reason


def test_cpus_that_are_gone_leave_a_command_unbound() -> None:
    before = os.sched_getaffinity(0)
    with on_cpus({65_000}):
        assert os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before


def test_what_was_started_is_not_lost_when_the_own_cpus_are_gone() -> None:
    before = os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patched:
        fails(patched, os, "sched_setaffinity", OSError(22, "Invalid argument"))
        with on_cpus(before):
            started = "a process"
    assert started == "a process"
