"""Who has the GPUs that Ray promised, which of them are really busy, and why others wait.

What is idle is an idle lease by another name: the same readings, and as many seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from andon.clusters.ray.rules.nodes import impossible
from andon.explain.conditions.sharing.idle_lease import SECONDS
from andon.fleet.rules.states import NodeRow
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.cluster import ClusterJob, ClusterNode
from andon.model.job.desk import JobReason
from andon.model.job.facts import JobState
from andon.model.place import cpu_words
from andon.model.utilisation import ZERO_READING
from andon.units import human_seconds

MARK: Final = "ray:"
MOST_NAMED: Final = 5


class HeldGpus(Struct, frozen=True):
    """The GPUs that a job's processes are on; how long all of them have been idle."""

    numbers: tuple[int, ...]
    idle_seconds: float | None = None

    @property
    def is_idle(self) -> bool:
        if self.idle_seconds is None:
            return False

        return self.idle_seconds >= SECONDS.default


class NodeReading(Struct, frozen=True):
    """What andon reads on a node."""

    utilization_percent: float | None = None
    memory_percent: float | None = None
    busy: int | None = None
    held: Mapping[str, HeldGpus] = field(default_factory=dict)
    """By the ids of jobs; of a program's tasks and actors, by their names."""


Readings = Mapping[str, NodeReading]
"""By the names of nodes."""
NOTHING_READ: Final[Readings] = {}


def reading_of(
    row: NodeRow,
    snapshot: Snapshot | None = None,
    idle: Mapping[str, float | None] = {},
    now: float = inf,
) -> NodeReading:
    """Returns what a hub says of a node; `idle`: how long each idle device has been so."""
    load, memory = row.utilization_percent, row.memory_percent
    if snapshot is None:
        return NodeReading(load, memory)
    on: dict[str, list[DeviceStatus]] = {}
    for status in snapshot.devices:
        jobs = {one.job for one in status.processes if one.job and one.job.startswith(MARK)}
        for name in sorted(jobs):
            on.setdefault(name.removeprefix(MARK), []).append(status)
    held = {
        name: HeldGpus(tuple(one.device.index for one in found), _idle(found, idle, name, now))
        for name, found in on.items()
    }
    read = [one.sample for one in snapshot.devices if one.answered and one.sample is not None]
    busy = [one.utilization_percent for one in read if one.utilization_percent is not None]
    return NodeReading(load, memory, sum(value > ZERO_READING for value in busy), held)


def _idle(
    found: Sequence[DeviceStatus], idle: Mapping[str, float | None], name: str, now: float
) -> float | None:
    """Returns for how long a job has left its devices idle: not longer than it has been there."""
    lasted = [idle.get(one.device.uuid) for one in found]
    known = [one for one in lasted if one is not None]
    own = [p.started for one in found for p in one.processes if p.job == MARK + name and p.started]
    return min(*known, now - min(own, default=-inf)) if len(known) == len(lasted) else None


def with_reading(node: ClusterNode, reading: NodeReading | None) -> ClusterNode:
    """Returns the node with what andon reads there, which is better than what Ray does."""
    if reading is None or reading.utilization_percent is None:
        return node
    return replace(
        node,
        utilization_percent=reading.utilization_percent,
        memory_percent=reading.memory_percent,
        busy=node.busy if reading.busy is None else reading.busy,
        read_by="Ray" if reading.busy is None and node.busy is not None else None,
        missing={},
    )


def with_users(
    node: ClusterNode, jobs: Sequence[ClusterJob], reading: NodeReading | None
) -> ClusterNode:
    """Returns the node with the jobs that have its GPUs, and what else of Ray is on them."""
    held = {} if reading is None else reading.held
    running = [j for j in jobs if j.state is JobState.RUNNING and j.gpus and j.where == node.name]
    words = [_held_words(job.id, held.get(job.id), job.gpus or 0) for job in running]
    known = {job.id for job in jobs}
    words += [_held_words(name, one) for name, one in held.items() if name not in known]
    return replace(node, who=", ".join(words[:6]))


def _held_words(name: str, held: HeldGpus | None, gpus: int = 0) -> str:
    """Returns `andon-zz81xk (GPU 2-3, idle 40 min)`, or with their number alone."""
    if held is None:
        return f"{name} ({gpus})"
    idle = f", idle {human_seconds(held.idle_seconds or 0.0)}" if held.is_idle else ""
    return f"{name} (GPU {cpu_words(held.numbers)}{idle})"


def promised_to(jobs: Iterable[ClusterJob]) -> list[ClusterJob]:
    """Returns the jobs that the reason of another names."""
    return [one for one in jobs if one.state is JobState.RUNNING and one.gpus][:MOST_NAMED]


def waiting_reason(
    job: ClusterJob,
    nodes: Sequence[ClusterNode],
    jobs: Iterable[ClusterJob],
    now: float,
    readings: Readings = NOTHING_READ,
) -> JobReason:
    """Returns why a job waits: what is promised, to whom, and who of them leaves it idle."""
    wanted = job.gpus or 0
    why = impossible(nodes, wanted, None)
    if why is not None:
        return JobReason(f"{why}: it will never start", "andon cancel it; ask for fewer GPUs")
    total = sum(node.gpus for node in nodes if node.usable)
    promised = sum(node.allocated for node in nodes)
    who = ", ".join(_promised(one, now, readings) for one in promised_to(jobs))
    text = f"{promised} of {total} GPUs are promised" + (f": {who}" if who else "")
    if promised + wanted <= total:
        free = max((node.free for node in nodes if node.usable), default=0)
        if wanted > free:
            text = f"no node has {wanted} free GPUs: the most is {free}; {text}"
        else:
            text = "Ray is starting it"
    return JobReason(text)


def _promised(job: ClusterJob, now: float, readings: Readings) -> str:
    """Returns `andon-zz81xk 2 (3 h, 0 % busy for 40 min)`."""
    lasted = human_seconds(max(0.0, now - (job.started or now)))
    reading = readings.get(job.where or "")
    held = None if reading is None else reading.held.get(job.id)
    idle = ""
    if held is not None and held.is_idle:
        idle = f", 0 % busy for {human_seconds(held.idle_seconds or 0.0)}"
    return f"{job.id} {job.gpus} ({lasted}{idle})"
