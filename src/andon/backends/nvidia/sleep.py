"""Leaves sleeping cards asleep, and lets go of idle ones so that they can fall asleep.

An open NVML session keeps a laptop's card awake and its battery draining. What the kernel says of a
card under /sys can be read without waking it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from andon.model.device import Card

IDLE_SECONDS = 10.0
SUSPEND_SECONDS = 60.0  # how long a card that was let go of may take to fall asleep
LONGEST_SECONDS = 600.0
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def bound_cards(root: Path) -> list[Card]:
    """The cards that the nvidia kernel module drives, in PCI order, which is NVML's order."""
    folder = root / "sys/bus/pci/drivers/nvidia"
    try:
        found = sorted(p.name for p in folder.iterdir() if _ADDRESS.fullmatch(p.name))
    except OSError:
        return []
    return [Card(pci, index, pci, "NVIDIA GPU") for index, pci in enumerate(found)]


def is_suspended(root: Path, pci: str) -> bool:
    return _read(root, pci, "power/runtime_status") == "suspended"


def may_suspend(root: Path, pci: str) -> bool:
    """Whether the system lets this card sleep at all; servers' cards never do."""
    if _read(root, pci, "power/control") != "auto":
        return False
    try:
        power = (root / f"proc/driver/nvidia/gpus/{pci}/power").read_text()
    except OSError:
        return True
    return (
        "Runtime D3 status:" not in power or "Enabled" in power.split("Runtime D3 status:")[1][:40]
    )


def _read(root: Path, pci: str, name: str) -> str:
    try:
        return (root / "sys/bus/pci/drivers/nvidia" / pci / name).read_text().strip()
    except OSError:
        return ""


@dataclass(slots=True)
class Rest:
    """When one card that may suspend is left alone; `now` is an argument."""

    idle_since: float | None = None
    resting_since: float | None = None
    slept: bool = False
    tries: int = 0

    def saw(self, busy: bool, now: float) -> None:
        """After a reading."""
        if busy:
            self.idle_since, self.tries = None, 0
        elif self.idle_since is None:
            self.idle_since = now

    def tired(self, now: float) -> bool:
        """Idle for long enough to be let go of."""
        return self.idle_since is not None and now - self.idle_since >= IDLE_SECONDS

    def let_go(self, now: float) -> None:
        self.resting_since, self.slept = now, False

    def leave_alone(self, suspended: bool, now: float) -> bool:
        """Whether the card must not be touched now.

        One that has slept and is awake again was woken by somebody else's work. One that never fell
        asleep is looked at again after a while, each time a longer one.
        """
        if suspended:
            self.slept = True
            self.resting_since = self.resting_since if self.resting_since is not None else now
            return True
        if self.resting_since is None:
            return False
        patience = min(LONGEST_SECONDS, SUSPEND_SECONDS * 2.0 ** min(self.tries, 10))
        if not self.slept and now - self.resting_since < patience:
            return True
        self.tries = 0 if self.slept else self.tries + 1
        self.idle_since = self.resting_since = None
        self.slept = False
        return False
