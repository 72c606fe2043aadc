"""One answer to what a device is called and which device a name means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Gone, Invalid
from andon.model.device import Device, DeviceStatus, State
from andon.model.naming import (
    device_labels,
    device_named,
    devices_named,
    label_in,
    may_mean,
    mistake_in,
    recorded_named,
    title,
    titles,
)
from tests.support.rows import rows


def board(index: int, uuid: str, pci: str | None = None, cuda: int | None = None) -> DeviceStatus:
    device = Device(uuid, index, "nvidia", "NVIDIA H100", pci=pci)
    return DeviceStatus(device, State.OK, 0.0, cuda_index=cuda)


def part(uuid: str, of: DeviceStatus) -> DeviceStatus:
    parent = of.device
    device = replace(parent, uuid=uuid, parent=parent.uuid, name="NVIDIA H100 MIG 3g.40gb")
    return DeviceStatus(device, State.OK, 0.0)


SIX = board(6, "GPU-6f00aaaa", "00000000:C1:00.0")
NODE = (
    board(0, "GPU-1a2b3c4d", "00000000:1A:00.0", cuda=1),
    board(1, "GPU-1a2b9999", "00000000:1B:00.0", cuda=0),
    board(2, "AMD-77", "0001:1a:00.0"),
    SIX,
    part("MIG-aaaa1111", SIX),
    part("MIG-bbbb2222", SIX),
)


@rows(
    ("name", "uuid"),
    [
        ("0", "GPU-1a2b3c4d"),
        ("6", "GPU-6f00aaaa"),
        ("6:0", "MIG-aaaa1111"),
        ("6:1", "MIG-bbbb2222"),
        ("GPU-1a2b3c4d", "GPU-1a2b3c4d"),
        ("gpu-1A2B3", "GPU-1a2b3c4d"),
        ("MIG-b", "MIG-bbbb2222"),
        ("amd-77", "AMD-77"),
        ("1b:00.0", "GPU-1a2b9999"),
        ("0000:1B:00.0", "GPU-1a2b9999"),
        ("00000000:1b:00.0", "GPU-1a2b9999"),
        ("0001:1A:00.0", "AMD-77"),
        ("c1:00.0", "GPU-6f00aaaa"),
        ("cuda:0", "GPU-1a2b9999"),
        ("CUDA:1", "GPU-1a2b3c4d"),
    ],
)
def test_each_form_of_a_name_means_one_device(name: str, uuid: str) -> None:
    assert device_named(name, NODE).device.uuid == uuid


@rows(
    "name", ["7", "6:2", "06", "GPU", "MI", "1c:00.0", "1b:00", "cuda:7", "", " 0", "0002:1b:00.0"]
)
def test_a_name_of_nothing_is_gone_and_lists_the_devices_here(name: str) -> None:
    with pytest.raises(Gone) as caught:
        device_named(name, NODE)
    assert caught.value.hint == "the devices here: 0, 1, 2, 6, 6:0, 6:1"


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("GPU-", ["GPU 0", "GPU 1", "GPU 6"]),
        ("gpu-1a2b", ["GPU 0", "GPU 1"]),
        ("MIG-", ["GPU 6:0", "GPU 6:1"]),
        ("1a:00.0", ["GPU 0", "GPU 2"]),
    ],
)
def test_an_ambiguous_name_is_refused_with_the_candidates(name: str, candidates: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        device_named(name, NODE)
    assert [one.partition(": ")[0] for one in caught.value.mistakes] == candidates
    assert "matches several devices" in caught.value.reason
    assert all("H100" in line for line in caught.value.mistakes)
    with pytest.raises(Invalid):
        devices_named(name, NODE)
    assert "matches several" in (mistake_in(name, NODE) or "")


def test_a_whole_uuid_that_begins_another_is_not_ambiguous() -> None:
    node = (board(0, "GPU-1"), board(1, "GPU-10"), board(2, "GPU-11"))
    assert device_named("GPU-1", node).device.index == 0
    assert mistake_in("GPU-1", node) is None


def test_a_board_includes_its_partitions_and_a_partition_only_itself() -> None:
    assert devices_named("6", NODE) == {"GPU-6f00aaaa", "MIG-aaaa1111", "MIG-bbbb2222"}
    assert devices_named("6:1", NODE) == {"MIG-bbbb2222"}
    parts = (board(3, "SIM-3"), part("SIM-3-0", board(3, "SIM-3")))
    assert device_named("SIM-", parts).device.uuid == "SIM-3", "the board stands for its partitions"


def test_a_hidden_device_has_no_cuda_number() -> None:
    hidden = replace(NODE[0], visible=False)
    with pytest.raises(Gone):
        device_named("cuda:1", (hidden, *NODE[1:]))


def test_a_simulated_device_has_its_index_as_cuda_number() -> None:
    simulated = [
        replace(one, device=replace(one.device, vendor="sim"), cuda_index=None)
        for one in (board(0, "SIM-0"), board(1, "SIM-1"))
    ]
    assert device_named("cuda:1", simulated).device.uuid == "SIM-1"
    with pytest.raises(Gone, match="there is no device 'cuda:2'"):
        device_named("cuda:2", simulated)


def test_where_cuda_numbers_are_not_known_the_message_says_so() -> None:
    unknown = [board(0, "GPU-a"), board(1, "GPU-b")]
    with pytest.raises(Gone, match="not known which device CUDA calls") as refused:
        device_named("cuda:0", unknown)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in refused.value.hint


def test_two_partitions_are_called_apart() -> None:
    assert titles(NODE)["MIG-aaaa1111"] == "GPU 6:0"
    assert titles(NODE)["MIG-bbbb2222"] == "GPU 6:1"


def test_a_removed_partition_is_called_by_its_uuid() -> None:
    devices = [status.device for status in NODE]
    assert recorded_named("MIG-b", devices).uuid == "MIG-bbbb2222"
    assert recorded_named("6", devices).uuid == "GPU-6f00aaaa"
    with pytest.raises(Gone):
        recorded_named("6:0", devices)


def test_an_index_that_two_cards_of_the_past_had_is_ambiguous() -> None:
    old, new = board(3, "GPU-old1").device, board(3, "GPU-new1").device
    with pytest.raises(Invalid, match="several"):
        recorded_named("3", [old, new])
    assert recorded_named("GPU-old1", [old, new]) == old


@given(st.sampled_from(NODE))
def test_every_name_of_a_device_means_that_device(status: DeviceStatus) -> None:
    device, label = status.device, device_labels(NODE)[status.device.uuid]
    for name in (label, device.uuid, device.uuid.upper()):
        assert device_named(name, NODE) is status
        assert may_mean(name, device.uuid, label, device.pci)
    assert label_in(title(label)) == label_in(title(label, device.name)) == label


@pytest.mark.parametrize(
    ("name", "fits"),
    [("6:0", True), ("6", True), ("6:1", False), ("MIG-aa", True), ("GPU-", False), ("0", False)],
)
def test_one_device_alone_is_matched_like_one_of_many(name: str, fits: bool) -> None:
    assert may_mean(name, "MIG-aaaa1111", "6:0") is fits
    assert label_in("node hal") == label_in("") == ""
