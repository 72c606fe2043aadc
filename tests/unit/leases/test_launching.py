"""The variables that make a program see its devices alone."""

from collections.abc import Mapping

from andon.leases.rules.environment import NO_DEVICE, environment
from andon.model.device import Device
from andon.sampling.rules.masks import visibility


def device(vendor: str, uuid: str, index: int, pci: str) -> Device:
    return Device(uuid, index, vendor, vendor, pci=pci)


NVIDIA = [device("nvidia", f"GPU-{n}", n, f"0000:0{n + 1}:00.0") for n in range(3)]
AMD = [device("amd", f"AMD-{n}abc", 3 + n, f"0000:1{n}:00.0") for n in range(2)]
OLD_AMD = [device("amd", f"amd@0000:1{n}:00.0", 3 + n, f"0000:1{n}:00.0") for n in range(2)]
INTEL = [device("intel", f"INTEL-{n}", 5 + n, f"0000:2{n}:00.0") for n in range(2)]


def sees(variables: Mapping[str, str], devices: list[Device] = INTEL) -> set[str]:
    """What a program sees under these variables."""
    found = visibility(devices, variables).visible
    return {device.uuid for device in devices if device.uuid in found}


def test_nvidia_devices_are_named_by_whole_uuids_in_pci_order() -> None:
    assert environment([NVIDIA[2], NVIDIA[0]], NVIDIA, "k7qm2") == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-2,GPU-0",
        "ANDON_LEASE": "k7qm2",
    }


def test_other_vendors_of_the_node_are_hidden() -> None:
    found = environment([AMD[1]], [*NVIDIA, *AMD, *INTEL])
    assert found["CUDA_VISIBLE_DEVICES"] == ""
    assert found["ROCR_VISIBLE_DEVICES"] == "GPU-1abc"
    assert found["HIP_VISIBLE_DEVICES"] == "0"  # counted among what ROCR leaves
    assert sees({"ZE_AFFINITY_MASK": found["ZE_AFFINITY_MASK"]}) == set()
    hidden = environment([NVIDIA[0]], [*NVIDIA, *AMD])
    assert hidden["ROCR_VISIBLE_DEVICES"] == hidden["HIP_VISIBLE_DEVICES"] == "-1"


def test_an_amd_card_without_a_number_of_its_own_is_named_by_its_place() -> None:
    found = environment([OLD_AMD[1], OLD_AMD[0]], OLD_AMD)
    assert found == {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0,1"}


def test_intel_devices_are_named_by_their_place() -> None:
    found = environment([INTEL[1]], INTEL)
    assert found == {"ZE_AFFINITY_MASK": "1", "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}
    assert sees(found) == {INTEL[1].uuid}


def test_no_device_is_none_of_any_vendor() -> None:
    everyone = [*NVIDIA, *AMD, *INTEL]
    assert sees({}, everyone) == {device.uuid for device in everyone}
    assert sees(NO_DEVICE, everyone) == set()


def test_no_device_at_all_is_an_empty_mask() -> None:
    assert environment([], [])["CUDA_VISIBLE_DEVICES"] == ""
