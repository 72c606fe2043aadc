"""How the driver runs a card: its modes, and how long it took to start."""

from collections.abc import Callable
from typing import Any, Final

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.nvml import Handle
from andon.drivers.nvidia.tiers import EARLY_SECONDS
from andon.drivers.nvidia.trouble import survivable
from andon.model.device import Setup

ECC_SECONDS: Final = 3600.0
"""0.5 ms on an H200, for what only a reboot changes; the persistence mode takes 0.1 ms."""


class SetupReader:
    """Reads the modes of a card whenever it is described: once a minute, ECC once an hour."""

    def __init__(self, handle: Handle, start_seconds: float) -> None:
        self._handle, self._start_seconds = handle, start_seconds
        self._missing: dict[str, str] = {}
        self._ecc: tuple[bool | None, bool | None] = (None, None)
        self._ecc_due: float | None = None

    def read(self, now: float) -> Setup:
        persistence = self._asked(nvml.persistence, "persistence")
        if self._ecc_due is None or now + EARLY_SECONDS >= self._ecc_due:
            self._ecc_due = now + ECC_SECONDS
            self._ecc = self._asked(nvml.ecc_modes, "ecc", "ecc_pending") or (None, None)
        return Setup(persistence, *self._ecc, self._start_seconds, dict(self._missing))

    def _asked(self, read: Callable[[Handle], Any], *names: str) -> Any:
        for name in names:
            self._missing.pop(name, None)
        try:
            return read(self._handle)
        except nvml.Error as error:
            self._missing |= dict.fromkeys(names, survivable(error).reason)
            return None
