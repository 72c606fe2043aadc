"""nvidia-smi as a backend: one call reads all devices, so they count as one card."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from andon.drivers.nvidia_smi import cards as boards
from andon.drivers.nvidia_smi import document, trouble
from andon.drivers.nvidia_smi.cards import BY_ADDRESS, VENDOR, SmiCard, SystemMemory
from andon.drivers.nvidia_smi.command import NoAnswer, SmiCommand, find
from andon.drivers.nvidia_smi.report import (
    ListedInstance,
    SmiReport,
    parse_list,
    parse_unreachable,
)
from andon.drivers.nvidia_smi.texts import pci_address
from andon.drivers.nvidia_smi.trouble import Unreadable
from andon.drivers.shared import pci
from andon.drivers.shared.sysfs import Tree
from andon.errors import AndonError
from andon.model.device import Card, Device, Reading, State

CARD: Final = Card("nvidia-smi", 0, name="NVIDIA GPUs")
ASLEEP: Final = "suspended by the system; andon leaves it asleep"


class NvidiaSmi:
    """Implements ports.Backend with the command.

    The command is killed before the engine abandons a silent reader (after ten seconds), which
    would leave it running. If every card is suspended it is not called; if only some are, calling
    it wakes them, because it cannot exclude one.
    """

    name = "nvidia_smi"

    def __init__(
        self, root: str = "/", command: str = "nvidia-smi", timeout_seconds: float = 8.0
    ) -> None:
        self._root, self._name = Path(root), command
        self._timeout_seconds = timeout_seconds
        self._command: SmiCommand | None = None
        self._listed: dict[tuple[str, int], ListedInstance] = {}
        self._layout: frozenset[object] = frozenset()
        self._versions: Mapping[str, str] = {}
        self._boards: list[SmiCard] = []
        self._gone: dict[str, Device] = {}
        self._slots: dict[str, pci.PcieSlot] = {}

    def glance(self) -> Sequence[Card]:
        """Returns the cards bound to the nvidia kernel module; WSL lists none."""
        try:
            names = sorted(path.name for path in self._drivers().iterdir())
        except OSError:
            return []
        found = [name for name in names if pci_address(name)]
        return [Card(pci, index, pci, "NVIDIA GPU") for index, pci in enumerate(found)]

    def open(self) -> Sequence[Card]:
        command = self._opened()
        if not self._all_asleep():
            self._take(self._query(command), command)
        return [CARD]

    def describe(self, card: Card) -> Sequence[Device]:
        """The devices of the latest report. A missing MIG instance was removed on purpose."""
        self._gone = {uuid: d for uuid, d in self._gone.items() if d.parent is None}
        self._layout = frozenset()
        return self._devices() or self._sleepers()

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        if self._all_asleep():
            devices = self._devices() or self._sleepers()
            return [Reading(d.uuid, state=State.ASLEEP, reason=ASLEEP) for d in devices]
        try:
            command = self._opened()
            self._take(self._query(command), command)
        except (NoAnswer, Unreadable) as silent:
            return self._stale(silent)
        fresh = boards.readings(self._boards, self._memory(), at)
        return fresh + boards.missing_readings(self._gone.values())

    def versions(self) -> Mapping[str, str]:
        return self._versions

    def close(self) -> None:
        """Does nothing: no file or process stays open between calls."""

    # Calling the command.

    def _opened(self) -> SmiCommand:
        """Returns the command, with its full timeout."""
        if self._command is None:
            self._command = SmiCommand(find(self._name, self._root))
        self._command.allow(self._timeout_seconds)
        return self._command

    def _query(self, command: SmiCommand) -> SmiReport:
        output = command.run("-q", "-x")
        report = document.parse(output.text) or SmiReport()
        unreachable = parse_unreachable(document.around(output.everything))
        if not report.gpus and not unreachable:
            known = trouble.failure(output.code, output.everything)
            raise known or trouble.misunderstood(output.code, output.everything)
        return replace(report, unreachable=unreachable)

    def _take(self, report: SmiReport, command: SmiCommand) -> None:
        """Stores the latest report."""
        self._versions = report.versions or self._versions
        self._name_parts(report, command)
        before = {device.uuid: device for device in self._devices()}
        self._boards = boards.recognise(
            report, before.values(), self._listed, self._memory(), self._slots_of(report)
        )
        now = {device.uuid for device in self._current()}
        reached = {board.gpu.pci for board in self._boards if not board.gpu.lost}
        self._gone = {
            uuid: device
            for uuid, device in before.items()
            # One that was known only by its address has a uuid now.
            if uuid not in now and not (uuid.startswith(BY_ADDRESS) and device.pci in reached)
        }

    def _name_parts(self, report: SmiReport, command: SmiCommand) -> None:
        """Reads the names of MIG instances when they change: the XML only numbers them."""
        layout = frozenset(
            (gpu.uuid, part.number, part.place) for gpu in report.gpus for part in gpu.parts
        )
        if layout and layout != self._layout:
            self._listed = parse_list(command.run("-L").text)
        self._layout = layout

    # Known devices.

    def _current(self) -> list[Device]:
        found = [[board.device, *(device for _, device in board.parts)] for board in self._boards]
        return [device for board in found for device in board]

    def _devices(self) -> list[Device]:
        return [*self._current(), *self._gone.values()]

    def _stale(self, silent: AndonError) -> list[Reading]:
        if not self._devices():
            raise silent
        return [
            Reading(device.uuid, state=State.STALE, reason=silent.reason, hint=silent.hint)
            for device in self._devices()
        ]

    # From the operating system.

    def _drivers(self) -> Path:
        return self._root / "sys/bus/pci/drivers/nvidia"

    def _all_asleep(self) -> bool:
        cards = self.glance()
        return bool(cards) and all(self._is_suspended(card.key) for card in cards)

    def _is_suspended(self, address: str) -> bool:
        status = Tree(self._drivers()).text(f"{address}/power/runtime_status")
        return status.value == "suspended"

    def _sleepers(self) -> list[Device]:
        return [
            Device(f"{BY_ADDRESS}{c.pci}", c.index, VENDOR, c.name or "NVIDIA GPU", c.pci)
            for c in self.glance()
        ]

    def _slots_of(self, report: SmiReport) -> Mapping[str, pci.PcieSlot]:
        """Returns the slots, read once for each card: a slot does not change."""
        for gpu in report.gpus:
            if gpu.pci and gpu.pci not in self._slots:
                self._slots[gpu.pci] = pci.slot(Tree(self._root), gpu.pci)
        return self._slots

    def _memory(self) -> SystemMemory:
        try:
            return boards.parse_meminfo((self._root / "proc/meminfo").read_text())
        except (OSError, UnicodeDecodeError):
            return SystemMemory()
