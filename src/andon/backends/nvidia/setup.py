"""How the driver runs a card: its modes, and how long it took to start."""

from collections.abc import Callable
from typing import TypeVar

from andon.backends.nvidia import nvml
from andon.backends.nvidia.nvml import Handle
from andon.backends.nvidia.trouble import survivable
from andon.model.device import Setup

T = TypeVar("T")


def read_setup(handle: Handle, start_seconds: float) -> Setup:
    """Two calls: at the start, and whenever the card is described again."""
    missing: dict[str, str] = {}
    persistence = _asked(nvml.persistence, handle, missing, "persistence")
    modes = _asked(nvml.ecc_modes, handle, missing, "ecc", "ecc_pending")
    now, pending = (None, None) if modes is None else modes
    return Setup(persistence, now, pending, start_seconds, missing)


def _asked(
    read: Callable[[Handle], T], handle: Handle, missing: dict[str, str], *names: str
) -> T | None:
    try:
        return read(handle)
    except nvml.Error as error:
        missing |= dict.fromkeys(names, survivable(error).reason)
        return None
