"""Everything that top knows at one instant, and the rows that its views make of it."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from andon.alerts.rules.lamps import LampBoard
from andon.cli.show.entries import NamedDevice, lit_entries
from andon.cli.show.process_rows import SORTS, HostUsage, ProcessFilter, ProcessRow, uses
from andon.cli.show.process_table import Branch, ParentLink, forest
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.reasons import Reason
from andon.model.alert import Alert
from andon.model.device import Process, ProcessKind, Snapshot
from andon.model.job.facts import JobView
from andon.model.lease_list import LeaseList
from andon.model.programs import program_of
from andon.model.run.record import RunRow
from andon.model.verdict import DeviceVerdict
from andon.tui.state import ProcessChoice, ProcessKey


class ProcessEnvironment(Struct, frozen=True):
    """The environment of one process: values of names on the list, others by name alone."""

    pid: int
    shown: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    reason: str | None = None


class Scene(Struct, frozen=True):
    """Everything known now. A list that is None has not been read; its note says why."""

    snapshot: Snapshot | None = None
    entries: tuple[NamedDevice, ...] = ()
    lamps: LampBoard | None = None
    alerts: tuple[Alert, ...] = ()
    leases: LeaseList | None = None
    runs: tuple[RunRow, ...] | None = None
    jobs: tuple[JobView, ...] | None = None
    notes: Mapping[str, str] = field(default_factory=dict)  # list -> why it is missing
    hosts: Mapping[int, HostUsage] = field(default_factory=dict)
    links: Mapping[int, ParentLink] = field(default_factory=dict)
    ancestors: Mapping[int, Process] = field(default_factory=dict)
    environment: ProcessEnvironment | None = None
    why: tuple[Reason, ...] = ()
    why_device: str | None = None  # the uuid that `why` explains
    me: str = ""
    source: str = ""
    replay: str | None = None  # "3:10 of 20:00" where a recording is played

    @property
    def at(self) -> float:
        return 0.0 if self.snapshot is None else self.snapshot.at

    @property
    def verdicts(self) -> dict[str, DeviceVerdict]:
        return {} if self.leases is None else {one.uuid: one for one in self.leases.devices}

    def entry(self, uuid: str | None) -> NamedDevice | None:
        return next((e for e in self.entries if e.status.device.uuid == uuid), None)


def with_snapshot(scene: Scene, snapshot: Snapshot, rulebook: Rulebook, lamps: LampBoard) -> Scene:
    """Returns the scene with a new snapshot, its devices named and their lamps lit."""
    found = tuple(lit_entries(snapshot, rulebook, lamps.devices))
    return replace(scene, snapshot=snapshot, entries=found, lamps=lamps)


class ProcessEntry(Struct, frozen=True):
    """A row of the processes table; an ancestor in the tree has no use of a device."""

    use: ProcessRow | None
    process: Process | None
    depth: int = 0

    @property
    def key(self) -> ProcessKey | None:
        if self.process is None:
            return None
        uuid = "" if self.use is None else self.use.entry.status.device.uuid
        return self.process.pid, self.process.started, uuid

    @property
    def label(self) -> str:
        return "" if self.use is None else self.use.entry.label


SORT_NAMES = ("memory", "gpu", "cpu", "host", "time", "pid", "user", "device", "command")
"""Every column that can be sorted by, in the order of the columns' importance."""
_TEXT_SORTS = frozenset(("user", "device", "command"))


class _LastRows:
    """Caches the rows of the last query: several parts of a picture need the same ones."""

    def __init__(self) -> None:
        self._inputs: tuple[object, ...] = ()
        self._choice = ProcessChoice()
        self._rows: list[ProcessEntry] = []

    def of(self, scene: Scene, choice: ProcessChoice) -> list[ProcessEntry]:
        inputs = (scene.snapshot, scene.hosts, scene.links, scene.ancestors)
        same = len(self._inputs) == len(inputs) and all(
            one is two for one, two in zip(self._inputs, inputs, strict=True)
        )
        if not same or choice != self._choice:
            self._rows = _process_entries(scene, choice)
            self._inputs, self._choice = inputs, choice
        return self._rows


_LAST = _LastRows()


def process_entries(scene: Scene, choice: ProcessChoice) -> list[ProcessEntry]:
    """Returns the rows of the processes table: filtered, sorted, and as a tree if requested."""
    return _LAST.of(scene, choice)


def _process_entries(scene: Scene, choice: ProcessChoice) -> list[ProcessEntry]:
    if scene.snapshot is None:
        return []
    wanted = ProcessFilter(user=scene.me if choice.mine else choice.user)
    sort = choice.sort if choice.sort in SORTS else "memory"
    found = [use for use in uses(scene.snapshot, scene.hosts, wanted, sort) if _shown(use, choice)]
    if choice.sort not in SORTS:
        found.sort(key=lambda use: _sort_key(use, choice.sort))
    held = [use for use in found if use.process is not None]
    loose = [use for use in found if use.process is None and not choice.is_filtered]
    if choice.reverse:
        held.reverse()
    if choice.tree:
        return [*_tree(held, scene), *(ProcessEntry(use, None) for use in loose)]
    return [ProcessEntry(use, use.process) for use in (*held, *loose)]


def _shown(use: ProcessRow, choice: ProcessChoice) -> bool:
    process = use.process
    if choice.device is not None and use.entry.status.device.uuid != choice.device:
        return False
    if process is None:
        return True
    if choice.compute_only and process.kind is ProcessKind.GRAPHICS:
        return False
    return not choice.text or choice.text.lower() in searched(process).lower()


def searched(process: Process) -> str:
    """Returns all text of a process that a filter searches."""
    program = program_of(process.command, process.name)
    texts = (
        str(process.pid), process.user, process.name, program, process.command,
        process.container, process.job, process.lease,
    )  # fmt: skip
    return " ".join(word for word in texts if word)


def _sort_key(use: ProcessRow, sort: str) -> tuple[float, str]:
    process = use.process
    if sort == "host":
        return -(use.host.memory_bytes or 0), ""
    if sort == "device":
        return 0.0, _padded(use.entry.label)
    if process is None:
        return 0.0, ""
    if sort == "user":
        return 0.0, process.user or "~"
    return 0.0, (program_of(process.command, process.name) or "~").lower()


def _padded(label: str) -> str:
    """Returns a sort key: `6:1` after `6:0`, and 10 after 9."""
    return ":".join(part.rjust(6, "0") for part in label.split(":"))


def starts_descending(sort: str) -> bool:
    """Whether a column shows its largest value first; names and numbers sort upwards."""
    return sort not in _TEXT_SORTS and sort != "pid"


def _tree(held: Sequence[ProcessRow], scene: Scene) -> list[ProcessEntry]:
    by_pid: dict[int, list[ProcessRow]] = {}
    for use in held:
        if use.process is not None:
            by_pid.setdefault(use.process.pid, []).append(use)
    branches: Sequence[Branch] = forest(scene.links, by_pid)
    out: list[ProcessEntry] = []
    for branch in branches:
        own = by_pid.get(branch.pid, ())
        out += [ProcessEntry(use, use.process, branch.depth) for use in own]
        if not own:
            process = scene.ancestors.get(branch.pid, Process(branch.pid))
            out.append(ProcessEntry(None, process, branch.depth))
    return out


def place_of(rows: Sequence[ProcessEntry], key: ProcessKey | None) -> int | None:
    """Returns the row of a process; on any device if it has left this one."""
    if key is None:
        return None
    near = None
    for place, row in enumerate(rows):
        found = row.key
        if found == key:
            return place
        if near is None and found is not None and found[:2] == key[:2]:
            near = place
    return near
