"""NVIDIA's devices as a backend: opens NVML once, reads each card, lets idle laptops sleep."""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.card import NvidiaCard
from andon.drivers.nvidia.events import EventListener, Report
from andon.drivers.nvidia.links import with_links
from andon.drivers.nvidia.trouble import as_error, trouble
from andon.drivers.shared.rules.rest import RestState
from andon.drivers.shared.sysfs import Tree
from andon.errors import AndonError, Unavailable
from andon.model.device import Card, Device, FaultCode, Reading, State
from andon.model.place import DevicePlace

# Which NVIDIA cards sleep and which may, read without waking one.
#
# An open NVML session keeps a laptop's card awake and drains its battery. The kernel's files
# under /sys can be read without waking a card.

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def bound_cards(root: Path) -> list[Card]:
    """Returns the cards bound to the nvidia kernel module, in PCI order, which is NVML's order."""
    folder = root / "sys/bus/pci/drivers/nvidia"
    try:
        found = sorted(p.name for p in folder.iterdir() if _ADDRESS.fullmatch(p.name))
    except OSError:
        return []
    return [Card(pci, index, pci, "NVIDIA GPU") for index, pci in enumerate(found)]


def is_suspended(root: Path, pci: str) -> bool:
    return _device(root, pci).text("power/runtime_status").value == "suspended"


def may_suspend(root: Path, pci: str) -> bool:
    """Whether the system lets this card sleep at all; cards in servers never do."""
    if _device(root, pci).text("power/control").value != "auto":
        return False
    power = Tree(root).text(f"proc/driver/nvidia/gpus/{pci}/power").value or ""
    return (
        "Runtime D3 status:" not in power or "Enabled" in power.split("Runtime D3 status:")[1][:40]
    )


def _device(root: Path, pci: str) -> Tree:
    return Tree(root).below(f"sys/bus/pci/drivers/nvidia/{pci}")


T = TypeVar("T")

ASLEEP = "suspended by the system; andon leaves it asleep"
RESTING = "idle: andon released it so that the system can suspend it"


class Nvidia:
    """Implements ports.Backend through NVML."""

    name = "nvidia"

    def __init__(self, root: str = "/", clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = Path(root), clock
        self._lock = threading.Lock()
        self._started = False
        self._calls = 0
        self._session = 0
        self._start_seconds = 0.0
        self._boards: dict[str, tuple[int, NvidiaCard]] = {}
        self._known: dict[str, Device] = {}
        self._rests: dict[str, RestState] = {}
        self._versions: Mapping[str, str] = {}
        self._report: Report | None = None
        self._listener: EventListener | None = None
        self._pairs: set[frozenset[str]] = set()  # of cards whose common ancestor is known

    def announce(self, report: Report) -> None:
        self._report = report

    def glance(self) -> Sequence[Card]:
        return bound_cards(self._root)

    def open(self) -> Sequence[Card]:
        cards = bound_cards(self._root)
        sleepers = [c.pci for c in cards if c.pci and may_suspend(self._root, c.pci)]
        self._rests = {pci: RestState() for pci in sleepers}
        if cards and all(c.pci and is_suspended(self._root, c.pci) for c in cards):
            return cards
        with self._in_session():
            self._versions = _translated(nvml.versions, starting=True)
            count = _translated(nvml.count, starting=True)
        if count == 0:
            raise Unavailable(
                "the NVIDIA driver is running but finds no GPU",
                hint="inside a container, start it with --gpus all; else check lspci and dmesg",
                cause=FaultCode.NO_DEVICE,
            )
        # In a container the kernel lists every card of the host, and NVML only the assigned ones.
        if len(cards) == count:
            return cards
        return [Card(f"index {index}", index, name="NVIDIA GPU") for index in range(count)]

    def versions(self) -> Mapping[str, str]:
        return self._versions

    def describe(self, card: Card) -> Sequence[Device]:
        if self._is_left_alone(card):
            return [self._sleeping_device(card)]
        with self._in_session():
            devices = _translated(lambda: self._board(card).devices(self._clock()))
        self._known[card.key] = devices[0]
        return devices

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        if self._is_left_alone(card):
            return [self._sleeping(card)]
        self._enter()  # not `with`: a generator costs as much as several calls, at every sample
        try:
            board = self._board(card)
            readings = board.read(at, self._clock(), watched)
        except nvml.Error as error:
            raise as_error(error.value, trouble(error.value)) from error
        finally:
            self._leave()
        if self._rests:
            self._rest_if_idle(card, board)
        return readings

    def account(self, card: Card, energy: bool) -> Mapping[str, Sequence[tuple[float, float]]]:
        if self._is_left_alone(card):
            return {}
        with self._in_session():
            return _translated(lambda: self._board(card).account(energy))

    def linked(self, card: Card, place: DevicePlace) -> DevicePlace:
        """Adds links to other open cards; each pair is read once, hanging cards are left out."""
        if self._is_left_alone(card):
            return replace(place, missing={**place.missing, "nvlinks": ASLEEP})
        with self._in_session():
            board = _translated(lambda: self._board(card))
            pairs = {frozenset((card.key, key)): one for key, (_, one) in self._boards.items()}
            new = {pair: one for pair, one in pairs.items() if pair not in self._pairs}
            others = [one for one in new.values() if one is not board]
            found = _translated(lambda: with_links(board, others, place))
            self._pairs |= new.keys()
            return found

    def close(self) -> None:
        with self._lock:
            self._stop()

    # The session with NVML.

    @contextlib.contextmanager
    def _in_session(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            if not self._started:
                self._start()
            self._calls += 1

    def _leave(self) -> None:
        with self._lock:
            self._calls -= 1

    def _start(self) -> None:
        began = self._clock()
        try:
            _translated(lambda: nvml.start(wake_all=not self._rests), starting=True)
        except AndonError as error:
            raise self._with_versions(error) from error
        self._started = True
        self._session += 1
        self._start_seconds = self._clock() - began
        if self._report is not None:
            self._listener = EventListener(self._report, resting=bool(self._rests))

    def _with_versions(self, error: AndonError) -> AndonError:
        """Adds the version that is loaded in the kernel to the error of a mismatch."""
        if error.cause != FaultCode.VERSION_MISMATCH:
            return error
        with contextlib.suppress(OSError, IndexError):
            fields = (self._root / "proc/driver/nvidia/version").read_text().splitlines()[0].split()
            loaded = next(word for word in fields if word[0].isdigit() and "." in word)
            reason = f"{error.reason} (the kernel has {loaded})"
            return type(error)(reason, error.hint, cause=error.cause)
        return error

    def _stop(self) -> None:
        if self._started:
            self._started = False
            if self._listener is not None:
                self._listener.stop()
            for _, board in self._boards.values():
                board.close()
            self._boards = {}
            with contextlib.suppress(nvml.Error):
                nvml.stop()

    def _board(self, card: Card) -> NvidiaCard:
        """Returns the open card; a new NVML session invalidates old handles."""
        session, board = self._boards.get(card.key, (0, None))
        if board is None or session != self._session:
            began = self._clock()
            handle = self._handle(card)  # where cards may sleep, this is what starts the driver
            start_seconds = round(self._start_seconds + self._clock() - began, 1)
            board = NvidiaCard(handle, card.index, self._root, start_seconds)
            self._boards[card.key] = (self._session, board)
            self._known[card.key] = board.device
            if self._listener is not None:
                self._listener.add(handle, board.device.uuid)
        return board

    def _handle(self, card: Card) -> nvml.Handle:
        return nvml.handle_by_pci(card.pci) if card.pci else nvml.handle_by_index(card.index)

    # Sleep.

    def _is_left_alone(self, card: Card) -> bool:
        rest = self._rests.get(card.pci or "")
        if rest is None or card.pci is None:
            return False
        return rest.leave_alone(is_suspended(self._root, card.pci), self._clock())

    def _rest_if_idle(self, card: Card, board: NvidiaCard) -> None:
        rest = self._rests.get(card.pci or "")
        if rest is None:
            return
        now = self._clock()
        rest.saw(board.is_busy(), now)
        with self._lock:
            if not self._calls and all(r.idle_long_enough(now) for r in self._rests.values()):
                self._stop()
                for each in self._rests.values():
                    each.release(now)

    def _sleeping(self, card: Card) -> Reading:
        suspended = card.pci is not None and is_suspended(self._root, card.pci)
        device = self._sleeping_device(card)
        return Reading(device.uuid, state=State.ASLEEP, reason=ASLEEP if suspended else RESTING)

    def _sleeping_device(self, card: Card) -> Device:
        """Returns the device as known from when it was awake, else only by its address."""
        known = self._known.get(card.key)
        return known or Device(
            f"nvidia@{card.pci}", card.index, "nvidia", card.name or "NVIDIA GPU", card.pci
        )


def _translated(call: Callable[[], T], starting: bool = False) -> T:
    """Turns an NVML error into one of andon's errors."""
    try:
        return call()
    except nvml.Error as error:
        found = trouble(error.value, starting)
        raise as_error(error.value, found) from error
