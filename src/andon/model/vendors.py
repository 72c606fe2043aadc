"""One row per vendor: everything that differs between vendors outside their backends.

A backend of a third party has no row: its name is its title, and it has no masks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

GIVEN_AWAY: Final = ("vfio-pci", "pci-stub", "xen-pciback")
"""Kernel drivers of cards that are reserved for virtual machines."""
DISPLAY, ACCELERATOR = "0x03", "0x12"  # PCI base classes


class MaskEntry(StrEnum):
    """What a variable that hides devices lists."""

    UUID = "uuid"  # the device's UUID as andon shows it
    RUNTIME_ID = "runtime_id"  # the vendor's own id if every device has one, else its position
    POSITION = "position"  # its place among the vendor's devices in PCI order
    RENUMBERED = "renumbered"  # its place among those that the variables before it left


class MaskVariable(Struct, frozen=True):
    """A variable that makes a runtime see only some of the vendor's devices."""

    name: str
    entry: MaskEntry
    hides_all: str  # the value that hides every device; an empty one hides none for some


class VendorRow(Struct, frozen=True):
    """One vendor. Its backend is `andon.drivers.NAME`, with the class `Name`."""

    name: str
    title: str  # as people write it
    pci_id: str = ""  # as in /sys: 0x10de
    pci_classes: tuple[str, ...] = (DISPLAY, ACCELERATOR)
    drivers: tuple[str, ...] = ()
    """Kernel drivers through which andon reads its cards."""
    older_drivers: tuple[str, ...] = ()
    """Kernel drivers of cards that andon cannot read."""
    rival_drivers: tuple[str, ...] = ()
    """Kernel drivers that keep the vendor's own from its cards."""
    chip_modules: tuple[str, ...] = ()
    """Kernel modules for GPUs that are part of a chip and not on the PCI bus."""
    companions: tuple[str, ...] = ()
    """Kernel modules that belong to its driver, and must have its version."""
    signs: tuple[str, ...] = ()
    """Files that show it is here, besides a card bound to one of its drivers."""
    off_bus_signs: tuple[str, ...] = ()
    """Files that show a GPU which is not on the PCI bus."""
    card_folder: str = ""
    """Where its driver lists its cards, besides the PCI bus."""
    fallback_backends: tuple[str, ...] = ()
    """Other backends that read the same devices, if the first cannot be opened."""
    on_windows: bool = False
    runtime: str = "number"
    """The runtime in which a program counts its devices."""
    clock: str = "clock"
    """What the clock of its processors is called."""
    masks: tuple[MaskVariable, ...] = ()
    """In the order in which the runtime applies them."""
    order: tuple[str, str] | None = None
    """The variable and the value that number devices in PCI order."""
    container_variable: str = ""
    """What asks a container runtime for its devices; it masks nothing."""
    runtime_id: tuple[str, str] | None = None
    """The prefix of such a UUID in andon, and in the mask."""
    version_labels: tuple[str, ...] = ()
    """The driver's version among those that the backend reports."""
    reports_all_reasons: bool = False
    """Whether throttle reasons that are not reported are known to be inactive."""
    logs_errors: bool = False
    """Whether andon reads its driver's errors from the kernel log."""
    device_files: str = "/dev/dri/*"
    """Which files a process that uses its devices has open, for fuser."""
    log_search: str = ""
    """What to search the kernel log for when a device fails."""
    install: Mapping[str, str] = field(default_factory=dict)
    """Distribution -> the command that installs its driver; empty if Linux includes it."""
    install_any: str = ""
    """The same for any other distribution."""

    @property
    def driver_names(self) -> tuple[str, ...]:
        """The drivers that may drive its cards, the usual one first."""
        return (*self.drivers, *self.older_drivers)

    @property
    def modules(self) -> tuple[str, ...]:
        """Every kernel module that concerns its devices."""
        return (*self.drivers, *self.rival_drivers, *self.chip_modules, *self.older_drivers)

    @property
    def environment(self) -> tuple[str, ...]:
        """Every variable that selects which of its devices are used."""
        order = (self.order[0],) if self.order else ()
        container = (self.container_variable,) if self.container_variable else ()
        return (*(mask.name for mask in self.masks), *order, *container)


_CUDA = MaskVariable("CUDA_VISIBLE_DEVICES", MaskEntry.UUID, hides_all="")
_CUDA_ORDER = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

NVIDIA: Final = VendorRow(
    "nvidia",
    "NVIDIA",
    pci_id="0x10de",
    drivers=("nvidia",),
    rival_drivers=("nouveau",),
    chip_modules=("nvgpu",),  # Jetson
    companions=("nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"),
    signs=(
        "proc/driver/nvidia",
        "sys/bus/pci/drivers/nvidia",
        "dev/nvidiactl",
    ),
    off_bus_signs=("dev/nvgpu", "dev/nvhost-ctrl-gpu", "dev/dxg"),  # Jetson, and WSL
    card_folder="proc/driver/nvidia/gpus",
    fallback_backends=("nvidia_smi",),
    on_windows=True,
    masks=(_CUDA,),
    order=_CUDA_ORDER,
    container_variable="NVIDIA_VISIBLE_DEVICES",
    version_labels=("driver",),
    reports_all_reasons=True,
    logs_errors=True,
    device_files="/dev/nvidia*",
    log_search="-e xid -e nvrm",
    install={
        "ubuntu": "sudo ubuntu-drivers install",
        "debian": "sudo apt install nvidia-driver firmware-misc-nonfree",
        "fedora": "sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda",
        "rhel": "sudo dnf install nvidia-driver-cuda kmod-nvidia-open-dkms",
        "arch": "sudo pacman -S nvidia-open",
        "suse": "sudo zypper install nvidia-open-driver-G06-signed-kmp-default",
    },
    install_any="lspci -nn -d 10de: # then get its driver from https://www.nvidia.com/drivers",
    runtime="cuda",
    clock="SM clock",
)
AMD: Final = VendorRow(
    "amd",
    "AMD",
    pci_id="0x1002",
    drivers=("amdgpu",),
    older_drivers=("radeon",),
    masks=(
        MaskVariable("ROCR_VISIBLE_DEVICES", MaskEntry.RUNTIME_ID, hides_all="-1"),
        MaskVariable("HIP_VISIBLE_DEVICES", MaskEntry.RENUMBERED, hides_all="-1"),
    ),
    runtime_id=("AMD-", "GPU-"),
    version_labels=("amdgpu",),
    logs_errors=True,
    device_files="/dev/dri/* /dev/kfd",
    log_search="-e amdgpu",
    runtime="hip",
    clock="core clock",
)
INTEL: Final = VendorRow(
    "intel",
    "Intel",
    pci_id="0x8086",
    pci_classes=(DISPLAY,),  # its accelerators are not GPUs
    drivers=("i915", "xe"),
    masks=(
        # An empty mask hides nothing; a number without a device hides all.
        MaskVariable("ZE_AFFINITY_MASK", MaskEntry.POSITION, hides_all="9999"),
    ),
    order=("ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1"),  # else discrete cards come first
    version_labels=("xe", "i915"),
    log_search="-e i915 -e xe",
)
SIMULATED: Final = VendorRow(
    "sim",
    "simulated",
    masks=(_CUDA,),
    order=_CUDA_ORDER,
    reports_all_reasons=True,
    runtime="cuda",
    clock="SM clock",
)

VENDORS: Final = (NVIDIA, AMD, INTEL)
"""The vendors whose hardware andon reads."""
MASKED: Final = (*VENDORS, SIMULATED)
"""Those whose devices can be hidden from a process."""
_ROWS = {vendor.name: vendor for vendor in (*VENDORS, SIMULATED)}
_ROWS_BY_BACKEND = _ROWS | {name: row for row in VENDORS for name in row.fallback_backends}


def vendor_of(name: str) -> VendorRow:
    """Returns the row of a device's vendor; for a third party's, a row with only a name."""
    return _ROWS.get(name) or VendorRow(name, name)


def vendor_of_backend(name: str) -> VendorRow:
    """Returns the vendor that a backend reads: nvidia_smi reads NVIDIA's devices too."""
    return _ROWS_BY_BACKEND.get(name) or VendorRow(name, name)


def titles(vendors: tuple[VendorRow, ...] = VENDORS, last: str = "and") -> str:
    """`NVIDIA, AMD and Intel`."""
    named = [vendor.title for vendor in vendors]
    if len(named) < 2:
        return "".join(named)
    return f"{', '.join(named[:-1])} {last} {named[-1]}"
