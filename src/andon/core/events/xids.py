"""What a driver's own report means, how bad it is, and what to do about it, in plain words.

An Xid is a number with which the driver reports an error. NVIDIA publishes what each one means;
the words here are andon's own, and the levels answer one question: who has to act? The device's
keeper now (critical), the keeper at the next occasion (warning), or the owner of the program alone
(information: the device itself is most likely fine).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from andon.model.alert import Event, EventKind, Level

DOCUMENTATION: Final = "https://docs.nvidia.com/deploy/xid-errors/"

_RESET: Final = (
    "End the work on it, then reset it (sudo nvidia-smi --gpu-reset -i {gpu}) or reboot."
)
_REBOOT: Final = "Move the work away and reboot the node."
_REPLACE: Final = " If it comes back, have the card tested or replaced."
_APPLICATION: Final = (
    "Most likely a fault of the program, whose own log says more. If other programs meet it too, "
    "have the card tested."
)


@dataclass(frozen=True, slots=True)
class Xid:
    """One number, explained. `action` may name the device as `{gpu}`."""

    level: Level
    meaning: str
    action: str

    def advice(self, gpu: int | str) -> str:
        """What to do, for this device."""
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
        "Start the program again. If other programs fail in the same way, reset the device "
        "(sudo nvidia-smi --gpu-reset -i {gpu}) or update the driver.",
    )
    return dict.fromkeys(codes, found)


XIDS: Final[dict[int, Xid]] = {
    # The device's keeper has to act now.
    46: _critical("the GPU stopped processing", _RESET + _REPLACE),
    48: _critical(
        "an uncorrectable (double-bit) memory error, data was lost",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    54: _critical(
        "the card's auxiliary power is not connected",
        "Switch the machine off and check the card's power cables.",
    ),
    62: _critical("the GPU's internal controller halted", _RESET + _REPLACE),
    64: _critical(
        "faulty memory could not be taken out of use, the spare rows may be used up",
        _RESET + " If it comes back, the card has to be replaced.",
    ),
    74: _critical(
        "an NVLink connection to another GPU or switch failed",
        "Look at the links (nvidia-smi nvlink -e -i {gpu}) and at the GPU on the other end. "
        + _RESET
        + _REPLACE,
    ),
    79: _critical(
        "the GPU has fallen off the bus, the system cannot reach it any more",
        "Move the work away and reboot the node. If it comes back, check the card's seat, its "
        "power and its cooling, then have it replaced.",
    ),
    95: _critical(
        "an uncontained memory error, every program on the GPU may have wrong data",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    109: _critical("the GPU did not switch from one program to the next in time", _RESET),
    110: _critical(
        "a security fault inside the GPU", _REBOOT + " If it comes back, report it to NVIDIA."
    ),
    119: _critical(
        "the GPU's firmware (GSP) did not answer in time",
        _RESET + " If it comes back, update the driver; old ones can run without this firmware.",
    ),
    120: _critical(
        "the GPU's firmware (GSP) failed",
        _RESET + " If it comes back, update the driver; old ones can run without this firmware.",
    ),
    136: _critical("an NVLink connection could not be established", _RESET + _REPLACE),
    140: _critical(
        "an uncorrectable memory error that could not be recovered from",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    143: _critical("the GPU could not be initialised", _REBOOT + _REPLACE),
    158: _critical("the GPU did not answer in time and gave up for good", _REBOOT + _REPLACE),
    171: _critical(
        "an uncorrectable error in the GPU's memory (DRAM)",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    172: _critical(
        "an uncorrectable error in the GPU's on-chip memory (SRAM)",
        "Results since then may be wrong. " + _RESET + _REPLACE,
    ),
    # At the next occasion.
    63: _warning(
        "faulty memory was found and is taken out of use at the next reset",
        "Reset the device when its work has ended: sudo nvidia-smi --gpu-reset -i {gpu}.",
    ),
    92: _warning(
        "unusually many corrected memory errors",
        "Nothing is lost yet. Watch it, and have the card tested at the next occasion.",
    ),
    94: _warning(
        "a contained memory error that affects only the program that met it",
        "That program has to start again. Reset the device when its work has ended: "
        "sudo nvidia-smi --gpu-reset -i {gpu}." + _REPLACE,
    ),
    **_engines((39, 40, 41, 70, 71, 72, 75, 76, 77, 85), "copy engine"),
    **_engines((47, 65, 68, 73, 82, 83, 84, 86, 88, 89), "video engine"),
    # The program's own affair.
    8: _own("the GPU waited too long for a program's work"),
    11: _own("a program sent the GPU commands that it cannot follow"),
    13: _own("a program did something that the GPU refused, such as reading beyond an array"),
    25: _own("a program sent the GPU illegal commands"),
    31: _own("a program used memory that is not its own (a page fault)"),
    32: _own("a program sent the GPU commands that it cannot read"),
    43: _own("a program's work on the GPU failed and was stopped; others go on"),
    45: _own("a program's work was cleaned away after an earlier error, or because it was ended"),
    69: _own("a program gave the GPU's graphics engine a command that it does not have"),
    80: _own("data on its way to the GPU was damaged"),
}

_RECOVERY: Final = (
    # What stands behind "to" in the driver's words, and what it means. The worst comes first.
    ("reboot", _critical("the driver asks for a reboot of the node", _REBOOT)),
    (
        "drain",
        _critical(
            "the driver asks to end the work on it, then to reset it",
            "Give it no new work. " + _RESET,
        ),
    ),
    ("reset", _critical("the driver asks for a reset of the GPU", _RESET)),
    ("none", _own("the driver no longer asks for anything, it has recovered", "Nothing to do.")),
)
_RECOVERY_UNREAD: Final = _warning(
    "the driver changed what it asks to be done with the GPU",
    "Read what it asks for: nvidia-smi -q -i {gpu} | grep -i recovery",
)
_UNKNOWN: Final = _warning(
    "the driver reported an error that andon has no words for",
    f"Look the number up in NVIDIA's list of Xids ({DOCUMENTATION}).",
)
_UNNAMED: Final = _warning(
    "the driver reported an error and did not say which",
    "See what it wrote to the kernel's log: sudo dmesg | grep -i xid",
)
_RESET_BEGUN: Final = _warning(
    "it hung and the driver resets it, what ran on it is lost",
    "Start the programs again. If it comes back: sudo dmesg | grep -i amdgpu, and a newer kernel "
    "or firmware.",
)
_RESET_FAILED: Final = _critical(
    "it hung and the driver could not reset it", "Move the work away and reboot the node."
)
RECOVERY_ACTION: Final = 154


def explain_event(event: Event) -> Xid:
    """What a device's report means."""
    if event.kind is EventKind.RESET:
        return _RESET_BEGUN if event.code is None else _RESET_FAILED
    return explain(event.code, event.detail)


def explain(code: int | None, detail: str = "") -> Xid:
    """What an Xid means; `detail` is what the driver wrote beside it, where that is known."""
    if code is None:
        return _UNNAMED
    if code == RECOVERY_ACTION:
        return _recovery(detail)
    return XIDS.get(code, _UNKNOWN)


def _recovery(detail: str) -> Xid:
    """By what it asks for now: "… changed from 0x0 (None) to 0x2 (Node Reboot Required)"."""
    wanted = detail.lower().rpartition(" to ")[2]
    return next((xid for word, xid in _RECOVERY if word in wanted), _RECOVERY_UNREAD)
