"""The table of vendors: one row is all that differs outside a vendor's backend."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.doctor.inspection import machine
from andon.doctor.rules import driver
from andon.doctor.rules.facts import MachineFacts, PciCard
from andon.drivers.shared import presence
from andon.leases.rules import environment
from andon.model import vendors
from andon.model.device import Device
from andon.model.vendors import MASKED, VENDORS, VendorRow, vendor_of
from andon.registry import BACKENDS, load
from andon.sampling.rules import masks
from tests.support.sources import sources

OWN = (
    "model/vendors.py",
    "drivers/",  # a vendor's own code
    "sampling/rules/masks.py",  # the rules of CUDA's and ROCm's runtimes
    "checks/session.py",  # what the process of a card sees
    "checks/child.py",
    "events/rules/kernel_log.py",  # the grammar of each driver's messages
)


def literals(words: list[str]) -> list[str]:
    pattern = re.compile("|".join(f'"{re.escape(word)}"' for word in words))
    return [
        f"{path}: {found}"
        for path, text in sources().items()
        if not path.startswith(OWN)
        for found in pattern.findall(text)
    ]


def test_no_other_module_lists_drivers_modules_pci_ids_or_masks() -> None:
    drivers = [name for row in VENDORS for name in row.modules if name != row.name]
    variables = [name for row in MASKED for name in row.environment]
    found = literals([*drivers, *(row.pci_id for row in VENDORS), *variables])
    assert set(found) <= {
        'doctor/rules/access.py: "NVIDIA_VISIBLE_DEVICES"',  # what a container was given
        'doctor/rules/devices.py: "CUDA_DEVICE_ORDER"',  # what a note of the masks is about
        'jobs/submitting.py: "CUDA_VISIBLE_DEVICES"',  # what is shown of a job
        'doctor/rules/findings.py: "nouveau"',  # the code of a finding
    }


def test_only_nvidia_is_ever_named_outside_the_table() -> None:
    """Its library is what doctor and the selftest know by name."""
    assert literals([row.name for row in VENDORS if row.name != "nvidia"]) == []


@pytest.mark.parametrize("row", VENDORS, ids=lambda row: row.name)
def test_every_row_has_a_backend_of_its_name(row: VendorRow) -> None:
    made = load(BACKENDS, row.name)
    assert made.__module__.startswith(f"andon.drivers.{row.name}")
    assert made.name == row.name  # type: ignore[attr-defined]
    assert all(name in BACKENDS for name in row.fallback_backends)


def test_a_backend_of_a_third_party_has_its_name_for_a_title() -> None:
    assert vendor_of("tpu") == VendorRow("tpu", "tpu")
    assert vendors.vendor_of_backend("nvidia_smi") is vendors.NVIDIA


@pytest.mark.parametrize("row", VENDORS, ids=lambda row: row.name)
def test_the_row_is_what_a_card_is_detected_diagnosed_and_leased_by(
    row: VendorRow, tmp_path: Path
) -> None:
    (kernel_driver, *_), address = row.drivers, "0000:19:00.0"
    (tmp_path / "sys/bus/pci/drivers" / kernel_driver / address).mkdir(parents=True)
    folder = tmp_path / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{row.pci_id}\n")
    (folder / "class").write_text(f"{row.pci_classes[0]}0000\n")

    assert presence.signs(tmp_path) == (row.name,)
    assert machine.read_cards(tmp_path) == (PciCard(address, row.name, None),)
    bound = replace(machine.read_cards(tmp_path)[0], driver=kernel_driver)
    found = [finding.message for finding in driver.judge(MachineFacts(cards=(bound,)))]
    assert f"{kernel_driver} drives {address}" in found
    devices = [Device(f"GPU-{n}", n, row.name, "G", pci=f"0000:2{n}:00.0") for n in range(2)]
    variables = environment.environment(devices[1:], devices)
    assert set(variables) >= {mask.name for mask in row.masks[:1]}
    shown = list(masks.visibility(devices, variables).visible)
    assert shown == (["GPU-1"] if row.masks else ["GPU-0", "GPU-1"])
