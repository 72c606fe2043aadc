"""Metrics with several series: how one part of a snapshot becomes labelled values."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from andon.errors import Invalid
from andon.model.alert import Level
from andon.model.device import Device, DeviceStatus, Process, ProcessKind, Sample, Snapshot, State
from andon.model.throttling import NVIDIA_REASONS
from andon.model.vendors import vendor_of
from andon.settings.kinds import WORD
from andon.version import __version__

if TYPE_CHECKING:  # what is exported does no I/O
    from andon.fleet.rules.states import NodeRow, NodeState
    from andon.sampling.sampler import Costs

# Labels and numbers in the exposition format.

# Surrogates cannot be encoded, and for some readers a NUL ends the text.
_HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
LONGEST_VALUE = 200


@lru_cache(maxsize=4096)
def label(name: str, value: str) -> str:
    """`name="value"`, escaped, whatever the value contains."""
    shown = _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", value[:LONGEST_VALUE])
    return f'{name}="{shown.translate(_ESCAPES)}"'


def labels(**values: str | None) -> str:
    """Several labels; an unknown one is left out, which means the same as empty."""
    return ",".join(label(name, value) for name, value in values.items() if value)


def number(value: float) -> str | None:
    """Returns a value as text; None if it is not a finite number."""
    if type(value) is int:  # most of them
        return str(value)
    if isinstance(value, bool):
        return str(int(value))
    if value - value != 0:  # infinite, or not a number
        return None
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))


def checked_prefix(prefix: str) -> str:
    """Returns the prefix of every metric's name; Invalid if the format does not allow it."""
    try:
        WORD.read(prefix)
    except ValueError as exc:
        raise Invalid(f"{prefix!r} is not a valid metric prefix", hint=WORD.expected) from exc
    return prefix


MOST_USERS = 16
MOST_PARTS = 64  # disks, interfaces, throttle reasons: more would be a bug
OTHERS = "(others)"
UNKNOWN_USER = "(unknown)"
_ALL_REASONS = tuple(reason.name for reason in NVIDIA_REASONS)

Points = Iterable[tuple[str, int]]
"""Labels and an integer each; a tuple if the same points repeat."""


class Service(Struct, frozen=True):
    """What serving has cost so far."""

    dropped: int = 0
    scrapes: int = 0
    failures: int = 0
    seconds: float = 0.0


class ExportCounts(Struct, frozen=True):
    """What one export has sent since the server started, in requests, and what waits."""

    name: str
    sent: int = 0
    refused: int = 0
    failures: int = 0
    dropped: int = 0
    """Since the queue was made."""
    waiting: int = 0


class FleetReadings(Struct, frozen=True):
    """The nodes of a hub, their devices by their labels, and how many of each were left out."""

    rows: "Sequence[NodeRow]"
    devices: Mapping[str, DeviceStatus]
    left_out: Mapping[str, int]


class ServerCounts(Struct, frozen=True):
    """Counts of a server's history, alerts, leases and exports; None if not known."""

    store_bytes: int | None = None
    alerts: Mapping[str, int] | None = None
    """Those that fire, by level."""
    leases: int | None = None
    refused: Mapping[str, int] | None = None
    """Reports of nodes that a hub refused, by kind."""
    exports: tuple[ExportCounts, ...] = ()
    fleet: FleetReadings | None = None

    @property
    def left_out(self) -> Mapping[str, int] | None:
        return None if self.fleet is None else self.fleet.left_out


class SelfReadings(Struct, frozen=True):
    """Readings about andon itself; costs, service and counts if known."""

    snapshot: Snapshot
    now: float
    costs: "Costs | None" = None
    service: Service | None = None
    counts: ServerCounts | None = None


class ExportedDevice(Struct, frozen=True):
    """A device as the exporter reads it; a GPU without the processes of its partitions."""

    status: DeviceStatus
    device: Device
    sample: Sample | None
    processes: tuple[Process, ...]
    versions: Mapping[str, str]

    @property
    def memory_unattributed_bytes(self) -> int | None:
        return self.status.memory_unattributed_bytes


def info(seen: ExportedDevice) -> Points:
    return _info(seen.device, _driver(seen.device.vendor, seen.versions))


def states(seen: ExportedDevice) -> Points:
    return _one_of(seen.status.state)


def hub_states(seen: "NodeRow | DeviceStatus") -> Points:
    return _one_of(seen.state)


def node_alerts(row: "NodeRow") -> Points:
    return [(label("level", one), row.alerts[one]) for one in Level if one in row.alerts]


def throttles(seen: ExportedDevice) -> Points:
    given = seen.sample.throttle if seen.sample else None
    if given is None:
        return ()
    return _throttled(given, vendor_of(seen.device.vendor).reports_all_reasons)


def processes(seen: ExportedDevice) -> Points:
    if "processes" in seen.status.missing:
        return ()
    compute = sum(process.kind is ProcessKind.COMPUTE for process in seen.processes)
    return zip(_KINDS, (compute, len(seen.processes) - compute), strict=True)


def user_processes(seen: ExportedDevice) -> Points:
    if not seen.processes:
        return ()
    return _largest(_by_user(seen.processes, lambda process: 1))


def user_memory(seen: ExportedDevice) -> Points:
    """Returns memory per user, without users who have a process of unknown size."""
    if not seen.processes:
        return ()
    unknown = {_user(p) for p in seen.processes if p.memory_bytes is None}
    held = _by_user(seen.processes, lambda process: process.memory_bytes or 0)
    return _largest({user: size for user, size in held.items() if user not in unknown})


def node(snapshot: Snapshot) -> Points:
    return ((labels(node=snapshot.node, version=__version__), 1),)


def versions(snapshot: Snapshot) -> Points:
    items = snapshot.versions.items()
    return _once((labels(component=name, version=text), 1) for name, text in items)


def faults(snapshot: Snapshot) -> Points:
    failed = {label("source", fault.source) for fault in snapshot.faults}
    known = {label("source", status.device.vendor) for status in snapshot.devices}
    return [(text, int(text in failed)) for text in sorted(failed | known)][:MOST_PARTS]


def counted(by: str, name: str) -> Callable[[SelfReadings], Points]:
    """Returns the function that reads a server's count by level or kind."""
    return lambda own: [
        (label(by, kind), count) for kind, count in (getattr(own.counts, name) or {}).items()
    ]


def exported(name: str) -> Callable[[SelfReadings], Points]:
    """Returns the function that reads one count of every export."""
    return lambda own: [
        (label("export", one.name), getattr(one, name))
        for one in (own.counts.exports if own.counts else ())
    ]


def disk_used(snapshot: Snapshot) -> Points:
    return _once((label("mount", d.mount), d.used_bytes) for d in snapshot.host.disk)


def disk_total(snapshot: Snapshot) -> Points:
    return _once((label("mount", d.mount), d.total_bytes) for d in snapshot.host.disk)


def received(snapshot: Snapshot) -> Points:
    return _once((label("interface", n.name), n.received_bytes) for n in snapshot.host.network)


def sent(snapshot: Snapshot) -> Points:
    return _once((label("interface", n.name), n.sent_bytes) for n in snapshot.host.network)


_KINDS = tuple(label("kind", kind.value) for kind in ProcessKind)


@lru_cache(maxsize=256)
def _info(device: Device, driver: str | None) -> tuple[tuple[str, int], ...]:
    text = labels(
        name=device.name,
        vendor=device.vendor,
        pci=device.pci,
        driver=driver,
        parent=device.parent,
        memory_kind=device.memory_kind.value,
        simulated="true" if device.vendor == "sim" else "false",
    )
    return ((text, 1),)


@lru_cache(maxsize=16)
def _one_of(state: "State | NodeState") -> tuple[tuple[str, int], ...]:
    every: Iterable[State | NodeState] = type(state)
    states = [one for one in every if one is not State.UNKNOWN or one is state]  # only a hub's
    return tuple((label("state", other.value), int(other is state)) for other in states)


@lru_cache(maxsize=256)
def _throttled(given: tuple[str, ...], reports_all: bool) -> tuple[tuple[str, int], ...]:
    named = dict.fromkeys(_ALL_REASONS if reports_all else (), 0) | dict.fromkeys(given, 1)
    return tuple(_once((label("reason", reason), on) for reason, on in named.items()))


def _driver(vendor: str, known: Mapping[str, str]) -> str | None:
    """Returns a vendor's driver; None if two are loaded, because it could be either."""
    found = [known[name] for name in vendor_of(vendor).version_labels if name in known]
    return found[0] if len(found) == 1 else None


def _user(process: Process) -> str:
    return label("user", process.user or UNKNOWN_USER)


def _by_user(found: Iterable[Process], size: Callable[[Process], int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for process in found:
        user = _user(process)
        sums[user] = sums.get(user, 0) + size(process)
    return sums


def _largest(sums: dict[str, int]) -> Points:
    """Returns the largest users by name and the rest as one, to bound the number of series."""
    if len(sums) <= MOST_USERS:
        return sums.items()
    ranked = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(size for _, size in ranked[MOST_USERS:])
    named = dict(ranked[:MOST_USERS])
    others = label("user", OTHERS)
    return (named | {others: named.get(others, 0) + rest}).items()


def _once(points: Points) -> Points:
    """Yields each series once: names that differ only in replaced characters get the same label."""
    return list(dict(points).items())[:MOST_PARTS]
