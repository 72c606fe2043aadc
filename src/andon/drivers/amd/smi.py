"""The only importer of AMD's library: the few values that amdgpu's files do not contain.

Nothing here raises, and nothing here is required: if the package or its libamd_smi.so is missing,
or a call fails, the answer is None and the files' values are used.
"""

import contextlib
import io
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

WAIT_SECONDS: Final = 0.5  # for a call about another card
_MICRO: Final = 1e-6
_UNFILLED: Final = 0xFFFF_FFFF_FFFF_FFFF  # the driver presets every byte of its table
_ENERGY_KEYS: Final = ("energy_accumulator", "power")  # since 6.3, and before
_LIBRARY_ERRORS: Final = (Exception, SystemExit)
"""Its own errors derive directly from Exception; without its .so, the import raises KeyError."""


class Smi:
    """AMD's library: opened at the first call, and only while `may_open` allows it because no
    card may sleep.

    An open library may hold the cards' device nodes and keep them awake; opening it can wake
    every card. So it is closed as soon as `may_open` returns False.
    """

    def __init__(self, may_open: Callable[[], bool], wait_seconds: float = WAIT_SECONDS) -> None:
        self._may_open, self._wait_seconds = may_open, wait_seconds
        self._lock = threading.Lock()
        self._is_hung = False  # a call hangs: an earlier wait timed out
        self._failed = False
        self._library: Any = None
        self._handles: dict[str, Any] = {}

    @property
    def own_pid(self) -> int | None:
        """The pid of this process, if the open library makes it appear as a user of the cards."""
        return None if self._library is None else os.getpid()

    def energy_joules(self, pci: str) -> float | None:
        """Energy since the driver was loaded."""
        return self._ask(pci, _energy)

    def uncorrected(self, pci: str) -> int | None:
        """Returns the errors of all parts of the card that count them; None if no part does."""
        return self._ask(pci, _uncorrected)

    def market_name(self, pci: str) -> str | None:
        return self._ask(pci, _market_name)

    def close(self) -> None:
        """Releases the cards. May be called twice; a later call may open the library again."""
        with self._turn() as mine:
            if mine:
                self._shut()

    def _ask(self, pci: str, question: Callable[[Any, Any], T | None]) -> T | None:
        with self._turn() as mine:
            if not mine or not self._is_open() or pci not in self._handles:
                return None
            try:
                return question(self._library, self._handles[pci])
            except _LIBRARY_ERRORS:
                return None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[bool]:
        """Yields for one call at a time; a call that hangs must block only its own card."""
        mine = self._lock.acquire(timeout=0 if self._is_hung else self._wait_seconds)
        self._is_hung = not mine
        try:
            yield mine
        finally:
            if mine:
                self._is_hung = False
                self._lock.release()

    def _is_open(self) -> bool:
        if not self._may_open():
            self._shut()
            return False
        if self._library is None and not self._failed:
            self._open()
        return self._library is not None

    def _open(self) -> None:
        """Opens the library; a failure is not retried: a failed import leaves modules behind."""
        self._failed = True
        try:
            library = load()
            library.amdsmi_init()
        except _LIBRARY_ERRORS:
            return
        self._library, self._failed = library, False
        with contextlib.suppress(*_LIBRARY_ERRORS):
            self._handles = dict(_by_address(library))

    def _shut(self) -> None:
        library, self._library, self._handles = self._library, None, {}
        if library is not None:
            with contextlib.suppress(*_LIBRARY_ERRORS):
                library.amdsmi_shut_down()


def load() -> Any:
    """Imports the library; what it prints if its .so is missing is discarded."""
    with contextlib.redirect_stdout(io.StringIO()):
        import amdsmi  # type: ignore[import-not-found, import-untyped, unused-ignore]
    return amdsmi


def _by_address(library: Any) -> Iterator[tuple[str, Any]]:
    """Yields handles by address in the kernel's format; a handle without an address is left out."""
    for handle in library.amdsmi_get_processor_handles():
        with contextlib.suppress(*_LIBRARY_ERRORS):
            yield str(library.amdsmi_get_gpu_device_bdf(handle)).lower(), handle


def _energy(library: Any, handle: Any) -> float | None:
    """Returns the energy: a count times its resolution in microjoules."""
    values: Mapping[str, Any] = library.amdsmi_get_energy_count(handle)
    counts = [values[key] for key in _ENERGY_KEYS if key in values]
    unit = values["counter_resolution"]
    if not counts or not _is_count(counts[0]) or not isinstance(unit, int | float):
        return None
    joules = counts[0] * unit * _MICRO
    # A running card has used some energy: zero means that there is no counter.
    return round(joules, 3) if math.isfinite(joules) and joules > 0 else None


def _uncorrected(library: Any, handle: Any) -> int | None:
    count = library.amdsmi_get_gpu_total_ecc_count(handle)["uncorrectable_count"]
    if not _is_count(count):
        return None
    if count == 0 and not _counts_errors(library, handle):
        return None  # the sum of no counters would look like a card without errors
    return int(count)


def _counts_errors(library: Any, handle: Any) -> bool:
    parts: Sequence[Mapping[str, Any]] = library.amdsmi_get_gpu_ras_block_features_enabled(handle)
    return any(part["status"] == "ENABLED" for part in parts)


def _market_name(library: Any, handle: Any) -> str | None:
    """The name; None for `N/A` or the device id, which mean that the library knows no name."""
    name = library.amdsmi_get_gpu_asic_info(handle)["market_name"]
    if not isinstance(name, str):
        return None
    name = name.strip()
    return None if name in ("", "N/A") or name.lower().startswith("0x") else name


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _UNFILLED
