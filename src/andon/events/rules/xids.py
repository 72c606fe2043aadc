"""The meaning and severity of driver error reports, and what to do about them.

An Xid is the number of an error that the NVIDIA driver reports. NVIDIA documents each one; the
texts here are andon's own. The level says who has to act: the administrator now (critical), the
administrator at the next opportunity (warning), or only the owner of the program (info: the device
itself is most likely fine).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from andon.model.alert import Level
from andon.model.event import Event, EventKind

DOCUMENTATION: Final = "https://docs.nvidia.com/deploy/xid-errors/"

_RESET: Final = (
    "Stop the work on it, then reset it (sudo nvidia-smi --gpu-reset -i {gpu}) or reboot."
)
_REBOOT: Final = "Move the work elsewhere and reboot the node."
_REPLACE: Final = " If it recurs, have the card tested or replaced."
_APPLICATION: Final = (
    "Most likely a bug in the program; see its log. If other programs trigger it too, have the "
    "card tested."
)


class Xid(Struct, frozen=True):
    """The explanation of one Xid. `action` may refer to the device as `{gpu}`."""

    level: Level
    meaning: str
    action: str

    def advice(self, gpu: int | str) -> str:
        """Returns what to do, for this device."""
        return self.action.replace("{gpu}", str(gpu))


def _critical(meaning: str, action: str) -> Xid:
    return Xid(Level.CRITICAL, meaning, action)


def _warning(meaning: str, action: str) -> Xid:
    return Xid(Level.WARNING, meaning, action)


def _own(meaning: str, action: str = _APPLICATION) -> Xid:
    return Xid(Level.INFO, meaning, action)


def _engines(codes: Iterable[int], engine: str) -> dict[int, Xid]:
    found = _warning(
        f"the {engine} failed while a program used it",
        "Restart the program. If other programs fail in the same way, reset the device "
        "(sudo nvidia-smi --gpu-reset -i {gpu}) or update the driver.",
    )
    return dict.fromkeys(codes, found)


XIDS: Final[dict[int, Xid]] = {
    # The administrator has to act now.
    46: _critical("the GPU stopped processing", _RESET + _REPLACE),
    48: _critical(
        "an uncorrectable (double-bit) memory error; data was lost",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    54: _critical(
        "the card's auxiliary power is not connected",
        "Switch the machine off and check the card's power cables.",
    ),
    62: _critical("the GPU's internal controller halted", _RESET + _REPLACE),
    64: _critical(
        "faulty memory could not be retired; the spare rows may be used up",
        _RESET + " If it recurs, have the card replaced.",
    ),
    74: _critical(
        "an NVLink connection to another GPU or switch failed",
        "Check the links (nvidia-smi nvlink -e -i {gpu}) and the GPU at the other end. "
        + _RESET
        + _REPLACE,
    ),
    79: _critical(
        "the GPU has fallen off the bus; the system can no longer reach it",
        "Move the work elsewhere and reboot the node. If it recurs, check the card's seating, "
        "power and cooling, then have it replaced.",
    ),
    95: _critical(
        "an uncontained memory error; every program on the GPU may have wrong data",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    109: _critical("the GPU did not switch from one program to the next in time", _RESET),
    110: _critical(
        "a security fault inside the GPU", _REBOOT + " If it recurs, report it to NVIDIA."
    ),
    119: _critical(
        "the GPU's firmware (GSP) did not respond in time",
        _RESET + " If it recurs, update the driver; old drivers can run without this firmware.",
    ),
    120: _critical(
        "the GPU's firmware (GSP) failed",
        _RESET + " If it recurs, update the driver; old drivers can run without this firmware.",
    ),
    136: _critical("an NVLink connection could not be established", _RESET + _REPLACE),
    140: _critical(
        "an uncorrectable memory error without recovery",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    143: _critical("the GPU could not be initialised", _REBOOT + _REPLACE),
    158: _critical("the GPU timed out and will not recover", _REBOOT + _REPLACE),
    171: _critical(
        "an uncorrectable error in the GPU's memory (DRAM)",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    172: _critical(
        "an uncorrectable error in the GPU's on-chip memory (SRAM)",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    # At the next opportunity.
    63: _warning(
        "faulty memory was found and will be retired at the next reset",
        "Reset the device when its work has finished: sudo nvidia-smi --gpu-reset -i {gpu}.",
    ),
    92: _warning(
        "unusually many corrected memory errors",
        "Nothing is lost yet. Watch it, and have the card tested at the next opportunity.",
    ),
    94: _warning(
        "a contained memory error that affects only one program",
        "Restart that program. Reset the device when its work has finished: "
        "sudo nvidia-smi --gpu-reset -i {gpu}." + _REPLACE,
    ),
    **_engines((39, 40, 41, 70, 71, 72, 75, 76, 77, 85), "copy engine"),
    **_engines((47, 65, 68, 73, 82, 83, 84, 86, 88, 89), "video engine"),
    # Only the program is affected.
    8: _own("the GPU waited too long for a program's work"),
    11: _own("a program sent the GPU invalid commands"),
    13: _own("a program did something the GPU rejected, such as reading beyond an array"),
    25: _own("a program sent the GPU illegal commands"),
    31: _own("a program accessed memory that is not its own (a page fault)"),
    32: _own("a program sent the GPU corrupted commands"),
    43: _own("a program's work on the GPU failed and was stopped; others continue"),
    45: _own("a program's work was cleaned up after an earlier error, or because it was stopped"),
    69: _own("a program sent the GPU's graphics engine an unknown command"),
    80: _own("data was corrupted on its way to the GPU"),
}

_RECOVERY: Final = (
    # The word after "to" in the driver's message, and what it means. The worst comes first.
    ("reboot", _critical("the driver asks for a reboot of the node", _REBOOT)),
    (
        "drain",
        _critical(
            "the driver asks to stop the work on it, then to reset it",
            "Start no new work on it. " + _RESET,
        ),
    ),
    ("reset", _critical("the driver asks for a reset of the GPU", _RESET)),
    ("none", _own("the driver no longer asks for anything; it has recovered", "Nothing to do.")),
)
_RECOVERY_UNREAD: Final = _warning(
    "the driver changed the recovery action it asks for",
    "See what it asks for: nvidia-smi -q -i {gpu} | grep -i recovery",
)
_UNKNOWN: Final = _warning(
    "the driver reported an error that andon does not know",
    f"Look the number up in NVIDIA's list of Xids ({DOCUMENTATION}).",
)
_UNNAMED: Final = _warning(
    "the driver reported an error without saying which",
    "See what it wrote to the kernel log: sudo dmesg | grep -i xid",
)
_RESET_BEGUN: Final = _warning(
    "it hung and the driver is resetting it; what ran on it is lost",
    "Restart the programs. If it recurs, check sudo dmesg | grep -i amdgpu, and try a newer kernel "
    "or firmware.",
)
_RESET_FAILED: Final = _critical("it hung and the driver could not reset it", _REBOOT)
RECOVERY_ACTION: Final = 154


def explain_event(event: Event) -> Xid:
    """Returns the explanation of a device's report."""
    if event.kind is EventKind.RESET:
        return _RESET_BEGUN if event.code is None else _RESET_FAILED
    return explain(event.code, event.detail)


def explain(code: int | None, detail: str = "") -> Xid:
    """Returns the explanation of an Xid; `detail` is the driver's text with it, if known."""
    if code is None:
        return _UNNAMED
    if code == RECOVERY_ACTION:
        return _recovery(detail)
    return XIDS.get(code, _UNKNOWN)


def _recovery(detail: str) -> Xid:
    """Returns the explanation of the recovery action that the message asks for: "… changed from 0x0
    (None) to 0x2 (Node Reboot Required)"."""
    action = detail.lower().rpartition(" to ")[2]
    return next((xid for word, xid in _RECOVERY if word in action), _RECOVERY_UNREAD)
