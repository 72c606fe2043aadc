"""Renders a snapshot as Prometheus text; unknown values are left out."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from andon.exporter.catalogue import (
    COSTS,
    DEVICE,
    HUB_GPU,
    HUB_NODE,
    ITSELF,
    NODE,
    SERVER,
    SERVICE,
    ExportWhen,
    Metric,
)
from andon.exporter.spreads import (
    ExportedDevice,
    SelfReadings,
    ServerCounts,
    Service,
    checked_prefix,
    labels,
    number,
)
from andon.model.device import DeviceStatus, Snapshot
from andon.model.naming import device_labels
from andon.sampling.sampler import Costs

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Starts = tuple[str, ...]
"""For each device metric, the start of its line: built once per device, used at every scrape."""
Headed = tuple[Metric, str, str]
"""A metric with its full name and its HELP and TYPE lines."""


class _Place(Struct, frozen=True):
    """A device or node in this scrape, with the starts of its lines."""

    seen: object
    answered: bool
    starts: Starts


class Exposition:
    """Renders any number of snapshots; may be used from several threads."""

    def __init__(self, prefix: str = "andon") -> None:
        self.prefix = checked_prefix(prefix)
        self._device, self._node = self._headed(DEVICE), self._headed(NODE)
        self._itself = self._headed(ITSELF)
        self._costs, self._service = self._headed(COSTS), self._headed(SERVICE)
        self._server = self._headed(SERVER)
        self._nodes, self._gpus = self._headed(HUB_NODE), self._headed(HUB_GPU)
        self._prepared: dict[str, Starts] = {}
        self._latest: tuple[Snapshot | None, str] = (None, "")

    def render(
        self,
        snapshot: Snapshot,
        costs: Costs | None,
        now: float,
        service: Service | None = None,
        counts: ServerCounts | None = None,
    ) -> str:
        """Returns the whole text; `costs`, `service` and `counts` are left out if None."""
        out = [self._about(snapshot)]
        own = SelfReadings(snapshot, now, costs, service, counts)
        _plain(self._itself, own, out)
        _plain(self._costs if costs else (), own, out)
        _plain(self._service if service else (), own, out)
        _plain(self._server if counts else (), own, out)
        if counts and (fleet := counts.fleet):
            nodes = ((labels(node=row.name), row, row.heard) for row in fleet.rows)
            gpus = ((text, one, one.answered) for text, one in fleet.devices.items())
            for rows, found in ((self._nodes, nodes), (self._gpus, gpus)):
                places = [_Place(seen, heard, _starts(rows, text)) for text, seen, heard in found]
                _placed(rows, places, out)
        return "".join(out)

    def _about(self, snapshot: Snapshot) -> str:
        """Returns the text of devices and node; cached until the next snapshot."""
        known, text = self._latest
        if known is not snapshot:
            out: list[str] = []
            _placed(self._device, self._places(snapshot), out)
            _plain(self._node, snapshot, out)
            text = "".join(out)
            self._latest = snapshot, text
        return text

    def _headed(self, rows: Iterable[Metric]) -> tuple[Headed, ...]:
        names = [(row, f"{self.prefix}_{row.name}") for row in rows]
        return tuple(
            (row, name, f"# HELP {name} {row.help}\n# TYPE {name} {row.kind}\n")
            for row, name in names
        )

    def _places(self, snapshot: Snapshot) -> list[_Place]:
        """Returns every device once, by its label and uuid; removed devices are forgotten."""
        prepared: dict[str, Starts] = {}
        places: dict[str, _Place] = {}
        for status, name, seen in _named(snapshot):
            text = labels(device=name, uuid=status.device.uuid)
            starts = prepared[text] = self._prepared.get(text) or _starts(self._device, text)
            places.setdefault(text, _Place(seen, status.answered, starts))
        self._prepared = prepared
        return list(places.values())


def _starts(rows: Iterable[Headed], text: str) -> Starts:
    return tuple(f"{metric}{{{text}{',' if row.spread else '} '}" for row, metric, _ in rows)


def _placed(rows: Iterable[Headed], places: Sequence[_Place], out: list[str]) -> None:
    answered = [place for place in places if place.answered]
    for at, (row, _, head) in enumerate(rows):
        shown = places if row.when is ExportWhen.ALWAYS else answered
        _under(head, _device_lines(row, at, shown), out)


def _under(head: str, lines: list[str], out: list[str]) -> None:
    if lines:
        out.append(head)
        out += lines


def _plain(rows: Iterable[Headed], subject: object, out: list[str]) -> None:
    for row, name, head in rows:
        _under(head, _lines(row, subject, name), out)


def _device_lines(row: Metric, at: int, places: Sequence[_Place]) -> list[str]:
    read, scale = row.read, row.scale
    if read is None:
        return [line for place in places for line in _several(row, place.seen, place.starts[at])]
    lines: list[str] = []
    for place in places:
        value = read(place.seen)
        if value is None:
            continue
        if scale is not None:
            value = scale(value)
        shown = value if type(value) is int else number(value)  # most are: saves a call
        if shown is not None:
            lines.append(f"{place.starts[at]}{shown}\n")
    return lines


def _lines(row: Metric, subject: object, name: str) -> list[str]:
    """Returns the series of one row for a subject without labels of its own."""
    if row.read is None:
        return _several(row, subject, f"{name}{{")
    value = row.read(subject)
    shown = None if value is None else number(row.scale(value) if row.scale else value)
    return [] if shown is None else [f"{name} {shown}\n"]


def _several(row: Metric, subject: object, start: str) -> list[str]:
    points = row.spread(subject) if row.spread is not None else ()
    if type(points) is tuple:  # states and reasons repeat: cached
        return [_text(start, points)] if points else []
    return [f"{start}{text}}} {value}\n" for text, value in points]


@lru_cache(maxsize=1024)
def _text(start: str, points: tuple[tuple[str, int], ...]) -> str:
    return "".join([f"{start}{text}}} {value}\n" for text, value in points])


def _named(snapshot: Snapshot) -> list[tuple[DeviceStatus, str, ExportedDevice]]:
    """Each device with its label: its index, or `3:0` for a partition, as on screen."""
    boards = {s.device.uuid for s in snapshot.devices if s.device.parent is None}
    names = device_labels(snapshot.devices)
    below: dict[str, set[int]] = {}
    for status in snapshot.devices:
        if status.device.parent in boards:
            below.setdefault(status.device.parent, set()).update(p.pid for p in status.processes)
    return [
        (s, names[s.device.uuid], _seen(s, below.get(s.device.uuid), snapshot))
        for s in snapshot.devices
    ]


def _seen(status: DeviceStatus, below: set[int] | None, snapshot: Snapshot) -> ExportedDevice:
    processes = status.processes
    if below:  # its partitions have these: no process counts twice
        processes = tuple(process for process in processes if process.pid not in below)
    return ExportedDevice(status, status.device, status.sample, processes, snapshot.versions)
