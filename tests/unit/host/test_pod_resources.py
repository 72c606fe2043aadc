"""Which pod has which device: the kubelet's list, read by hand and put on devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.rules.pod_resources import PodHolder, holders_of, listed_containers, with_pods
from andon.model.device import Device, DeviceStatus, Process, State
from tests.support.kubelet_socket import answer_of

TRAINER = PodHolder("ml", "trainer-0", "main", ("GPU-1", "GPU-2"))
SHARED = PodHolder("team", "notebook-7", "jupyter", ("GPU-2::3", "GPU-2::4"))
BY_ADDRESS = PodHolder("team", "render", "main", ("0000:C1:00.0",))
DEVICES = [
    Device("GPU-1", 0, "sim", "one"),
    Device("GPU-2", 1, "sim", "two"),
    Device("GPU-3", 2, "sim", "three", pci="0000:c1:00.0"),
]
UID = "k8s:0b0e3d7c-1b9c-4a44-9d53-000000000001/3f2a9c1b04de"


def test_the_list_is_read_past_what_is_not_wanted() -> None:
    without = PodHolder("kube-system", "proxy", "main", ())
    long = PodHolder("n" * 63, "p" * 253, "c" * 63, tuple(f"GPU-{n}" for n in range(40)))
    held = [TRAINER, SHARED, long]
    assert listed_containers(answer_of([*held, without])) == held
    assert listed_containers(b"") == []


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_cut_list_is_refused_or_shorter(cut: int) -> None:
    with pytest.raises(ValueError, match=r"cut|kind"):
        listed_containers(answer_of([TRAINER])[:-cut])


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_a_refusal(answer: bytes) -> None:
    try:
        found = listed_containers(answer)
    except ValueError:
        return
    assert all(one.place.isprintable() for one in found)


def test_devices_are_found_by_uuid_share_and_address() -> None:
    assert holders_of(DEVICES, [TRAINER, SHARED, BY_ADDRESS]) == {
        "GPU-1": (TRAINER,),
        "GPU-2": (TRAINER, SHARED),
        "GPU-3": (BY_ADDRESS,),
    }
    assert holders_of(DEVICES, [PodHolder("x", "y", "z", ("GPU-9",))]) == {}


def test_a_device_has_its_pods_and_a_process_the_name_of_the_only_one() -> None:
    processes = (Process(1, container=UID), Process(2, container="docker:other"), Process(3))
    rows = [DeviceStatus(one, State.OK, 0.0, processes=processes) for one in DEVICES]
    places = {"GPU-1": ("ml/trainer-0/main",), "GPU-2": ("ml/trainer-0/main", "team/x/y")}
    alone, shared, free = with_pods(rows, places)
    assert alone.pods == ("ml/trainer-0/main",)
    assert [one.container for one in alone.processes] == [
        "k8s:ml/trainer-0/main", "docker:other", None,
    ]  # fmt: skip
    assert shared.pods == places["GPU-2"]
    assert shared.processes == processes
    assert free is rows[2]
