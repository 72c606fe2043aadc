"""Base of backends that read a kernel driver's files: which cards there are, and which sleep.

A card that the system has suspended is left alone: only its `power/runtime_status` is read, which
does not wake it. One that may be suspended and is idle is released for a while, because most other
files wake a card or delay its sleep. The first reading of a card is taken twice, a moment apart,
because some values are differences and `andon status` reads only once.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from andon.drivers.shared import pci
from andon.drivers.shared.drm import FIRST_READING, Descriptors
from andon.drivers.shared.rules.rest import RestState
from andon.drivers.shared.sysfs import SysfsValue, Tree
from andon.errors import Gone, Unavailable
from andon.model.device import (
    SAMPLE_VALUES,
    Card,
    Device,
    FaultCode,
    Process,
    Reading,
    Sample,
    State,
)
from andon.model.vendors import VendorRow

ASLEEP: Final = "suspended by the system; andon leaves it asleep"
RESTING: Final = "idle: andon released it so that the system can suspend it"
SLEEPING: Final = frozenset({"suspended", "suspending"})
MOMENT_SECONDS: Final = 0.1  # between the two readings: enough for counters in milliseconds


class CardFiles(Struct, frozen=True):
    """Where a card's files are, and which resources it shares with other cards."""

    tree: Tree  # the whole root
    device: Tree  # the card's own folder
    card: Card
    pci: str
    driver: str
    descriptors: Descriptors

    def nodes(self) -> list[str]:
        """Returns the names of its device files: `card0`, `renderD128`."""
        return [name for name in self.device.names("drm") if name.startswith(("card", "renderD"))]

    def read_link(self) -> Mapping[str, SysfsValue[Any]]:
        link = pci.link(self.tree, self.pci)
        return {"pcie_generation": link.generation, "pcie_width": link.width}


class AwakeCard(Protocol):
    """One card while it is awake. Used by one thread at a time."""

    def describe(self) -> Device:
        """Returns the card's facts, read again."""

    def read(self, at: float, now: float) -> Reading:
        """Returns one reading."""

    def is_busy(self) -> bool:
        """Whether the card was in use when it was last read."""


class ReadingDraft:
    """The values of one reading as they are read, with a reason for each missing one."""

    def __init__(self, at: float, otherwise: Mapping[str, str]) -> None:
        self._at, self._otherwise = at, otherwise
        self._values: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}
        self._read_at: dict[str, float] = {}

    def put(self, name: str, answer: SysfsValue[Any], read_at: float | None = None) -> None:
        if answer.value is None:
            self._reasons[name] = answer.reason
            return
        self._values[name] = answer.value
        if read_at is not None and read_at < self._at:
            self._read_at[name] = read_at

    def reading(self, uuid: str, processes: tuple[Process, ...], blind_spot: str | None) -> Reading:
        unknown = [name for name in SAMPLE_VALUES if name not in self._values]
        missing = {name: self._reason(name) for name in unknown}
        if blind_spot is not None:
            missing["processes"] = blind_spot
        sample = Sample(at=self._at, read_at=self._read_at, **self._values)
        return Reading(uuid, sample, missing, processes)

    def _reason(self, name: str) -> str:
        return self._reasons.get(name) or self._otherwise.get(name) or "not reported by this driver"


class CachedValues:
    """Values that are too expensive for every sample, with the time they were read at."""

    def __init__(self, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._due: float | None = None
        self._at = 0.0
        self._answers: Mapping[str, SysfsValue[Any]] = {}

    def fill(
        self,
        gathered: ReadingDraft,
        at: float,
        now: float,
        read: Callable[[], Mapping[str, SysfsValue[Any]]],
    ) -> None:
        if self._due is None or now >= self._due - 0.1:  # intervals are never exact
            self._answers, self._at, self._due = read(), at, now + self._every_seconds
        for name, answer in self._answers.items():
            gathered.put(name, answer, self._at)


class KernelBackend:
    """Implements ports.Backend over sysfs; a vendor adds its row and its board."""

    name: str
    vendor: VendorRow

    def __init__(
        self,
        root: str = "/",
        tree: Tree | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tree, self._clock, self._sleep = tree or Tree(root), clock, sleep
        self._descriptors = Descriptors(self._tree)
        self._boards: dict[str, AwakeCard] = {}
        self._known: dict[str, Device] = {}
        self._rests: dict[str, RestState] = {}
        self._bound: dict[str, str] = {}
        self._read_before: set[str] = set()

    def board(self, place: CardFiles) -> AwakeCard:
        """Returns the vendor's implementation of a card."""
        raise NotImplementedError

    def glance(self) -> Sequence[Card]:
        self._bound = dict(pci.bound(self._tree, self.vendor.drivers))
        return [
            Card(address, index, address, self._title) for index, address in enumerate(self._bound)
        ]

    def open(self) -> Sequence[Card]:
        cards = self.glance()
        if not cards:
            names = self.vendor.drivers
            raise Unavailable(
                f"no device uses the {' or '.join(names)} driver",
                hint=f"if one is installed, load its driver: sudo modprobe {', or '.join(names)}",
                cause=FaultCode.NO_DRIVER,
            )
        return cards

    @property
    def _title(self) -> str:
        """The title of a card before its name is known."""
        return f"{self.vendor.title} GPU"

    def versions(self) -> Mapping[str, str]:
        """The versions: in-tree drivers have the kernel's version, others report their own."""
        kernel = self._tree.text("proc/sys/kernel/osrelease").value
        found = {}
        for driver in dict.fromkeys(self._bound.values()):
            version = self._tree.text(f"sys/module/{driver}/version").value or kernel
            if version:
                found[driver] = version
        return found

    def describe(self, card: Card) -> Sequence[Device]:
        if self._is_left_alone(card):
            return [self._sleeper(card)]
        self._known[card.key] = self._board(card).describe()
        return [self._known[card.key]]

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        if self._is_left_alone(card):
            suspended = self._runtime_status(card) in SLEEPING
            reason = ASLEEP if suspended else RESTING
            return [Reading(self._sleeper(card).uuid, state=State.ASLEEP, reason=reason)]
        board, now = self._board(card), self._clock()
        reading = board.read(at, now)
        if card.key not in self._read_before:
            self._read_before.add(card.key)
            reading = self._read_again(card, board, reading, at)
        self._rest_if_idle(card, board, now)
        return [reading]

    def close(self) -> None:
        """Does nothing: no file stays open."""
        self._boards, self._read_before = {}, set()

    def _read_again(self, card: Card, board: AwakeCard, first: Reading, at: float) -> Reading:
        """Reads a card again for values that are differences, unless it fell asleep meanwhile."""
        if not _needs_two_readings(first):
            return first
        self._sleep(MOMENT_SECONDS)
        if self._runtime_status(card) in SLEEPING:
            return first
        return board.read(at, self._clock())

    def _board(self, card: Card) -> AwakeCard:
        if card.key not in self._boards:
            device = self._tree.below(pci.folder(card.key))
            driver = self._bound.get(card.key, self.vendor.drivers[0])
            place = CardFiles(self._tree, device, card, card.key, driver, self._descriptors)
            self._boards[card.key] = self.board(place)
        return self._boards[card.key]

    # Sleep.

    def _runtime_status(self, card: Card) -> str:
        """Returns the kernel's power state of the card; empty if there is none."""
        folder = pci.folder(card.key)
        status = self._tree.text(f"{folder}/power/runtime_status")
        if status.absent and not self._tree.exists(folder):
            self._boards.pop(card.key, None)
            self._read_before.discard(card.key)
            raise Gone(
                "the kernel no longer lists this device",
                hint="find the cause: sudo dmesg | grep -i -e pcie -e drm",
            )
        return status.value or ""

    def _is_left_alone(self, card: Card) -> bool:
        rest = self._rests.setdefault(card.key, RestState())
        return rest.leave_alone(self._runtime_status(card) in SLEEPING, self._clock())

    def _rest_if_idle(self, card: Card, board: AwakeCard, now: float) -> None:
        rest = self._rests[card.key]
        rest.saw(board.is_busy(), now)
        if rest.idle_long_enough(now):
            if self._may_suspend(card):
                rest.release(now)
            else:
                rest.saw(True, now)  # checked again after the next idle period

    def _may_suspend(self, card: Card) -> bool:
        """Whether the system would suspend the card: that is allowed, and no screen is on."""
        device = self._tree.below(pci.folder(card.key))
        if device.text("power/control").value != "auto":
            return False
        screens = [
            f"drm/{node}/{name}/enabled"
            for node in device.names("drm")
            for name in device.names(f"drm/{node}")
            if name.startswith(f"{node}-")
        ]
        return all(device.text(screen).value != "enabled" for screen in screens)

    def _sleeper(self, card: Card) -> Device:
        """Returns the device as known from when it was awake, else only by its address."""
        known = self._known.get(card.key)
        return known or Device(
            f"{self.name}@{card.key}", card.index, self.name, card.name or self._title, card.pci
        )


def _needs_two_readings(reading: Reading) -> bool:
    shares = [process.utilization_percent for process in reading.processes]
    return FIRST_READING in reading.missing.values() or None in shares
