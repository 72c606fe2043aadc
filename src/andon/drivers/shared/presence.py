"""Which vendors' cards this node has, as the kernel lists them; wakes no device."""

import os
import sys
from pathlib import Path

from andon.model.device import Fault
from andon.model.vendors import NVIDIA, VENDORS, VendorRow, titles

_ON_WINDOWS = tuple(vendor for vendor in VENDORS if vendor.on_windows)
_ON_LINUX_ONLY = tuple(vendor for vendor in VENDORS if not vendor.on_windows)
_UNREADABLE = {
    "darwin": (
        Fault(
            "macOS",
            "GPUs cannot be read on macOS: only the node's own values are shown",
            f"andon reads GPUs on Linux, and {titles(_ON_WINDOWS)} GPUs on Windows",
        ),
    ),
    "win32": (
        Fault(
            "Windows",
            f"{titles(_ON_LINUX_ONLY)} GPUs, containers and Slurm jobs can be read on Linux only",
            f"{titles(_ON_WINDOWS)} GPUs, processes and the node's own values are shown",
        ),
    ),
}
_SMI = ("nvidia-smi", "nvidia-smi.exe")
_SMI_FOLDERS = ("/usr/lib/wsl/lib", "/usr/local/nvidia/bin")


def vendors(root: Path, platform: str = sys.platform) -> tuple[str, ...]:
    """Returns the vendors to read. If no sign of any is found, NVIDIA's library is tried."""
    if platform == "darwin":
        return ()
    if platform == "win32":
        return tuple(vendor.name for vendor in _ON_WINDOWS)
    return signs(root) or (NVIDIA.name,)


def signs(root: Path) -> tuple[str, ...]:
    """Returns the vendors whose traces are found on this node."""
    return tuple(vendor.name for vendor in VENDORS if _is_present(root, vendor))


def unreadable(platform: str = sys.platform) -> tuple[Fault, ...]:
    """Returns what cannot be read on this operating system, with any hardware."""
    return _UNREADABLE.get(platform, ())


def has_nvidia_smi() -> bool:
    """Whether nvidia-smi is on the path or in its usual folders."""
    paths = (Path(folder, name) for folder in (*os.get_exec_path(), *_SMI_FOLDERS) for name in _SMI)
    return any(os.access(path, os.X_OK) and path.is_file() for path in paths)


def _is_present(root: Path, vendor: VendorRow) -> bool:
    signs = (*vendor.signs, *vendor.off_bus_signs)
    return any((root / sign).exists() for sign in signs) or _bound(root, vendor.drivers)


def _bound(root: Path, drivers: tuple[str, ...]) -> bool:
    folders = (root / "sys/bus/pci/drivers" / driver for driver in drivers)
    return any(":" in entry.name for folder in folders for entry in _entries(folder))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


if __name__ == "__main__":  # `make run` checks whether there is a GPU here
    sys.exit(0 if signs(Path("/")) else 3)
