"""Which vendors' cards this node has, as the kernel lists them; wakes no device."""

import os
import shutil
import sys
from pathlib import Path

from andon.model.device import Fault

KERNEL_DRIVERS = {"amd": ("amdgpu",), "intel": ("i915", "xe")}
_NVIDIA_SIGNS = (
    "proc/driver/nvidia",
    "sys/bus/pci/drivers/nvidia",
    "dev/nvidiactl",
    "dev/nvgpu",  # Jetson
    "dev/nvhost-ctrl-gpu",
    "dev/dxg",  # WSL
)
_UNREADABLE = {
    "darwin": (
        Fault(
            "macOS",
            "GPUs cannot be read on macOS: only the node's own values are shown",
            "andon reads GPUs on Linux, and NVIDIA GPUs on Windows",
        ),
    ),
    "win32": (
        Fault(
            "Windows",
            "AMD and Intel GPUs, containers and Slurm jobs can be read on Linux only",
            "NVIDIA GPUs, processes and the node's own values are shown",
        ),
    ),
}
_SMI_FOLDERS = ("/usr/lib/wsl/lib", "/usr/local/nvidia/bin")


def vendors(root: Path, platform: str = sys.platform) -> tuple[str, ...]:
    """The vendors to read. If no sign of any is found, NVIDIA's library is tried."""
    if platform == "darwin":
        return ()
    if platform == "win32":
        return ("nvidia",)
    found = signs(root)
    return found or ("nvidia",)


def signs(root: Path) -> tuple[str, ...]:
    """The vendors whose traces are found on this node."""
    others = tuple(name for name, drivers in KERNEL_DRIVERS.items() if _bound(root, drivers))
    if any((root / sign).exists() for sign in _NVIDIA_SIGNS):
        return ("nvidia", *others)
    return others


def unreadable(platform: str = sys.platform) -> tuple[Fault, ...]:
    """What cannot be read on this operating system, whatever the hardware."""
    return _UNREADABLE.get(platform, ())


def has_nvidia_smi() -> bool:
    """Whether nvidia-smi is on the path or in its usual folders."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SMI_FOLDERS))
    return shutil.which("nvidia-smi", path=path) is not None


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
