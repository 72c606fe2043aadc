"""The report of one nvidia-smi call."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from andon.drivers.nvidia_smi.texts import NOT_REPORTED, Unknown, Value, lost, pci_address, plain
from andon.model.device import MOST_DEVICES, ProcessKind

Place = tuple[int, int]
"""A MIG instance within its board: GPU instance and compute instance."""

_NO_HANDLE: Final = re.compile(
    r"unable to determine the device handle for gpu\s*"
    r"(?:([0-9]{1,4})(?=:\s|\s|$):?\s*)?"
    r"(?:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):?\s*)?(.*)",
    re.IGNORECASE,
)
_LISTED_BOARD: Final = re.compile(r"GPU [0-9]+: .*\(UUID: (GPU-[0-9A-Za-z-]+)\)")
_LISTED_PART: Final = re.compile(
    r"\s+MIG (\S+)\s+Device\s+([0-9]{1,4}): \(UUID: (MIG-[0-9A-Za-z/-]+)\)"
)


class SmiProcess(Struct, frozen=True):
    """One process of one board."""

    pid: int
    kind: ProcessKind
    memory_bytes: int | None
    place: Place | None = None


class MigInstance(Struct, frozen=True):
    """A MIG instance; the uuid is None if this version does not print it."""

    number: int
    place: Place
    uuid: str | None
    values: Mapping[str, Value]


class Gpu(Struct, frozen=True):
    """One board. `values` holds samples, sizes and limits by the model's names."""

    uuid: str | None
    pci: str | None
    name: str
    values: Mapping[str, Value]
    limits: Mapping[str, Value] = field(default_factory=dict)
    setup: Mapping[str, bool | Unknown] = field(default_factory=dict)
    uses: tuple[SmiProcess, ...] = ()
    uses_reason: str | None = None
    parts: tuple[MigInstance, ...] = ()
    lost: str | None = None

    def value(self, name: str) -> Value:
        return self.values.get(name, NOT_REPORTED)


class Unreachable(Struct, frozen=True):
    """A board that nvidia-smi could only identify: by its address, or by its index."""

    reason: str
    pci: str | None = None
    index: int | None = None


class SmiReport(Struct, frozen=True):
    """Everything that was reported."""

    gpus: tuple[Gpu, ...] = ()
    unreachable: tuple[Unreachable, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


class ListedInstance(Struct, frozen=True):
    """A MIG instance as `nvidia-smi -L` names it."""

    uuid: str
    profile: str


def parse_unreachable(text: str) -> tuple[Unreachable, ...]:
    """Parses lines about boards without a handle: they come before or instead of the rest."""
    found = [_NO_HANDLE.search(line) for line in text.splitlines()]
    return tuple(_unreachable(match) for match in found if match)[:MOST_DEVICES]


def _unreachable(match: re.Match[str]) -> Unreachable:
    number, address, message = match.groups()
    reason = (
        lost(message) or f"nvidia-smi cannot reach this GPU: {plain(message) or 'no reason given'}"
    )
    return Unreachable(reason, pci_address(address), int(number) if number else None)


def parse_list(text: str) -> dict[tuple[str, int], ListedInstance]:
    """Parses `nvidia-smi -L`: MIG instances by their board's uuid and their number on it."""
    listed: dict[tuple[str, int], ListedInstance] = {}
    board = None
    for line in text.splitlines():
        if found := _LISTED_BOARD.match(line):
            board = found[1]
        elif board and (found := _LISTED_PART.match(line)):
            listed[board, int(found[2])] = ListedInstance(found[3], found[1])
    return listed
