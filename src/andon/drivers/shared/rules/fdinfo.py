"""Parses the kernel's data on a client of a DRM device, from /proc/<pid>/fdinfo/<fd>.

The keys are those of the kernel's drm-usage-stats document. A client is identified by its device
and its id, and often has several descriptors; its counters may decrease for a moment.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from andon.model.device import ProcessKind

COMPUTE_ENGINES: Final = frozenset({"compute", "ccs"})
GRAPHICS_ENGINES: Final = frozenset({"gfx", "render", "rcs"})
LONGEST_CHARACTERS: Final = 65536
_UNITS: Final = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_AMOUNT = re.compile(r"([0-9]{1,20})(?:\s+([A-Za-z]+))?", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class DrmEngine(Struct, frozen=True):
    """How long a client kept an engine busy: in time, or in cycles of a total."""

    busy_nanoseconds: int | None = None
    cycles: int | None = None
    total_cycles: int | None = None
    capacity: int = 1  # how many such engines there are


class Region(Struct, frozen=True):
    """A client's use of one kind of memory; older kernels have only `memory_bytes`."""

    resident_bytes: int | None = None
    total_bytes: int | None = None
    memory_bytes: int | None = None

    @property
    def held_bytes(self) -> int:
        """The memory in use now."""
        known = (self.resident_bytes, self.memory_bytes, self.total_bytes)
        return next((value for value in known if value is not None), 0)


class DrmClient(Struct, frozen=True):
    """One open file of a device."""

    driver: str
    pci: str | None
    id: int
    engines: Mapping[str, DrmEngine] = field(default_factory=dict)
    regions: Mapping[str, Region] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str | None, int]:
        return self.pci, self.id


def parse(text: str) -> DrmClient | None:
    """Returns the client in a text; None if there is none in it."""
    plain: dict[str, str] = {}
    engines: dict[str, dict[str, int]] = {}
    regions: dict[str, dict[str, int]] = {}
    for line in text[:LONGEST_CHARACTERS].splitlines():
        key, colon, value = line.partition(":")
        if not colon or not key.startswith("drm-"):
            continue
        key, value = key[4:].strip(), value.strip()
        plain[key] = value
        amount = _amount(value)
        if amount is not None and not _take(key, amount, engines, _ENGINE_KEYS):
            _take(key, amount, regions, _REGION_KEYS)
    number, address = _amount(plain.get("client-id", "")), plain.get("pdev", "").lower()
    if number is None or not plain.get("driver"):
        return None
    return DrmClient(
        driver=plain["driver"],
        pci=address if _ADDRESS.fullmatch(address) else None,
        id=number,
        engines={name: _engine(parts) for name, parts in engines.items()},
        regions={name: Region(**parts) for name, parts in regions.items()},
    )


# The longer prefix comes first: `engine-capacity-` is not an engine called `capacity-…`.
_ENGINE_KEYS: Final = (
    ("engine-capacity-", "capacity"),
    ("engine-", "busy_nanoseconds"),
    ("total-cycles-", "total_cycles"),
    ("cycles-", "cycles"),
)
_REGION_KEYS: Final = (
    ("resident-", "resident_bytes"),
    ("total-", "total_bytes"),
    ("memory-", "memory_bytes"),
)


def _take(
    key: str, amount: int, into: dict[str, dict[str, int]], keys: tuple[tuple[str, str], ...]
) -> bool:
    """Adds an amount if the key is one of these; returns whether it was. Unknown keys of newer
    kernels are left out."""
    for prefix, part in keys:
        if key.startswith(prefix) and len(key) > len(prefix):
            into.setdefault(key[len(prefix) :], {})[part] = amount
            return True
    return False


def _engine(parts: Mapping[str, int]) -> DrmEngine:
    """Returns the engine; a capacity of zero is not allowed, and would divide by zero."""
    return DrmEngine(**{**parts, "capacity": max(1, parts.get("capacity", 1))})


def _amount(value: str) -> int | None:
    """Parses `12`, `12 ns`, `12 KiB`: in bytes if the unit is one of memory."""
    match = _AMOUNT.fullmatch(value)
    if match is None:
        return None
    return int(match[1]) * _UNITS.get(match[2] or "", 1)


def later(before: DrmClient | None, after: DrmClient) -> DrmClient:
    """Returns the newer of two readings of a client, with no counter lower than before."""
    if before is None or before.key != after.key:
        return after
    engines = {
        name: _larger(before.engines.get(name, DrmEngine()), engine)
        for name, engine in {**before.engines, **after.engines}.items()
    }
    return replace(after, engines=engines)


def _larger(before: DrmEngine, after: DrmEngine) -> DrmEngine:
    return replace(
        after,
        busy_nanoseconds=_most(before.busy_nanoseconds, after.busy_nanoseconds),
        cycles=_most(before.cycles, after.cycles),
        total_cycles=_most(before.total_cycles, after.total_cycles),
    )


def _most(before: int | None, after: int | None) -> int | None:
    return max((value for value in (before, after) if value is not None), default=None)


def shares(before: DrmClient, after: DrmClient, seconds: float) -> dict[str, float]:
    """Returns the share (0 to 1) of each engine that the client used between two readings."""
    found = {}
    for name, engine in after.engines.items():
        share = _share(before.engines.get(name, DrmEngine()), engine, seconds)
        if share is not None:
            found[name] = share
    return found


def _share(before: DrmEngine, after: DrmEngine, seconds: float) -> float | None:
    if after.busy_nanoseconds is not None and seconds > 0:
        # An engine that was not listed had been idle: some drivers leave zeros out.
        used = after.busy_nanoseconds - (before.busy_nanoseconds or 0)
        return _part(used, seconds * 1e9 * after.capacity)
    if None in (after.cycles, after.total_cycles, before.cycles, before.total_cycles):
        return None
    passed = (after.total_cycles or 0) - (before.total_cycles or 0)
    return _part((after.cycles or 0) - (before.cycles or 0), passed * after.capacity)


def _part(used: float, whole: float) -> float | None:
    return min(1.0, max(0.0, used / whole)) if whole > 0 else None


def together(every: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the shares of several clients, added up by engine and limited to 1."""
    total: dict[str, float] = {}
    for one in every:
        for name, share in one.items():
            total[name] = min(1.0, total.get(name, 0.0) + share)
    return total


def kind(client: DrmClient) -> ProcessKind:
    """Returns what the client does, by the engines on which it spent more time."""
    engines = client.engines.items()
    spent = {name: engine.busy_nanoseconds or engine.cycles or 0 for name, engine in engines}
    compute = sum(time for name, time in spent.items() if name in COMPUTE_ENGINES)
    graphics = sum(time for name, time in spent.items() if name in GRAPHICS_ENGINES)
    return ProcessKind.COMPUTE if compute > graphics else ProcessKind.GRAPHICS
