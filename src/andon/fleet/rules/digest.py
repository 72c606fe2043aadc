"""The digest of a node: the few values by which a hub lists it, made and checked field by field."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from andon.errors import Invalid
from andon.fleet.rules.gpu_states import MOST, GpuStateText, gpu_states
from andon.model.check import CardResult, CheckFigures, CheckVerdict, figures_of
from andon.model.codec import Count, Id, Name, Number, Text, Time, Whole, Wrong, read
from andon.model.device import DeviceStatus, ProcessKind, Snapshot
from andon.model.job.facts import JobView
from andon.model.lamp import DeviceLamp
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.naming import device_labels, range_of, short_model
from andon.model.programs import program_of
from andon.model.run.record import RunRow
from andon.model.verdict import VerdictKind
from andon.model.wire import TextBounds, loads, struct_text
from andon.units import and_more, printable

MOST_BYTES = 4096
IN_USE = VerdictKind.IN_USE
LONGEST_GPUS = 60
IDLE_RULES = frozenset({"idle", "idle_lease"})
MOST_HOLDERS, MOST_MODELS, MOST_SPANS, MOST_LABELS = 24, 8, 24, 16
MIB = 1 << 20
SLOW = str(CheckVerdict.SLOW)
METRICS_URL = r"\Ahttps?://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}\Z"
MetricsUrl = Annotated[str, Meta(pattern=METRICS_URL)]
Models = Annotated[Mapping[Name, Count], Meta(max_length=MOST_MODELS)]


class FreeDevices(Struct, frozen=True):
    """The devices of one model that a request for whole devices would get."""

    model: Name
    labels: Annotated[tuple[Name, ...], Meta(max_length=512)]
    free_mib: Annotated[tuple[Whole, ...], Meta(max_length=512)]
    """Memory of each in the same order."""


class NodeTask(Struct, frozen=True):
    """A job or a run that holds GPUs of a node."""

    user: Name
    name: Name | None = None
    """What its user calls it; hidden from other users."""
    job: Whole | None = None

    @property
    def text(self) -> str:
        """The task and its user: `train of alice`, `job 12 of alice`, `run of alice`."""
        return f"{self.kind} of {self.user}"

    @property
    def kind(self) -> str:
        return self.name or ("run" if self.job is None else f"job {self.job}")


class NodeSpan(Struct, frozen=True):
    """GPUs that a lease holds or a reservation keeps: whose, from when, and until when if known."""

    user: Name
    gpus: Name
    """Their labels: `4–7`."""
    since: Time | None
    until: Time | None
    reserved: bool = False


class NodeFigures(Struct, frozen=True, kw_only=True):
    """The figures of a node in a list of many."""

    gpus: Count = 0
    models: Models = field(default_factory=dict)
    simulated: bool = False
    reason: Text | None = None
    """What is wrong with it, in a sentence; None while it is healthy."""
    allocated: Count | None = None
    allocated_reason: Text | None = None
    """Why it is not known what leases hold."""
    in_use: Count | None = None
    """GPUs on which processes run without a lease."""
    idle: Count = 0
    """GPUs that are allocated and do nothing."""
    tasks: Count = 0
    holders: Annotated[tuple[NodeTask, ...], Meta(max_length=MOST_HOLDERS)] = ()
    users: Annotated[tuple[Name, ...], Meta(max_length=MOST_HOLDERS)] = ()
    free: Annotated[tuple[FreeDevices, ...], Meta(max_length=MOST_MODELS)] = ()
    gpu_states: Annotated[tuple[GpuStateText, ...], Meta(max_length=MOST)] = ()
    """Each GPU, such as `3 held 87 62`; none of an older node."""
    spans: Annotated[tuple[NodeSpan, ...], Meta(max_length=MOST_SPANS)] = ()
    """Leases and reservations for the days to come; none of an older node."""
    slow: Annotated[tuple[Name, ...], Meta(max_length=MOST)] = ()
    """GPUs that their last check found slow, by their labels."""
    labels: Annotated[tuple[Name, ...], Meta(max_length=MOST_LABELS)] = ()
    """What its administrator calls groups of its GPUs: `share.labels`; none of an older node."""
    alerts: Models = field(default_factory=dict)
    """How many fire, by level."""
    utilization_percent: Number | None = None
    memory_percent: Number | None = None
    temperature_celsius: Number | None = None
    """Of the hottest GPU."""
    cpu_percent: Number | None = None
    host_memory_percent: Number | None = None
    metrics: MetricsUrl | None = None
    """Where Prometheus can read its own metrics, without the path."""


class Digest(NodeFigures, frozen=True):
    """A node at one moment."""

    node: Name
    machine: Id
    """Tells two machines under one name apart."""
    version: Name
    checks: Annotated[tuple[CheckFigures, ...], Meta(max_length=MOST)] = ()
    """The last check of each GPU, by which other nodes judge theirs."""


def digest_of(
    snapshot: Snapshot,
    leases: LeaseList | None,
    lamps: Sequence[DeviceLamp],
    firing: Mapping[str, int],
    jobs: Mapping[str, JobView],
    machine: str,
    version: str,
    metrics: str | None = None,
    runs: Sequence[RunRow] = (),
    checks: Sequence[CardResult] = (),
    share_labels: Iterable[str] = (),
) -> Digest:
    """Returns the digest of a snapshot; `jobs` has the job of each lease that has one, `runs` are
    the present ones, `checks` the last one of each device. Means are over the devices that
    answered."""
    labels = device_labels(snapshot.devices)
    known = _is_known(snapshot, leases)
    heat = [s.sample.temperature_celsius for s in snapshot.devices if s.answered and s.sample]
    boards = [s for s in snapshot.devices if s.device.parent is None]
    parents = {s.device.uuid: s.device.parent or s.device.uuid for s in snapshot.devices}
    every = () if leases is None else leases.leases
    rows = [row for row in every if any(one.uuid in parents for one in row.devices)]
    held = {parents[one.uuid] for row in rows for one in row.devices if one.uuid in parents}
    taken = {parents.get(v.uuid) for v in (leases.devices if leases else ()) if v.kind is IN_USE}
    computing = [p for s in boards for p in s.processes if p.kind is ProcessKind.COMPUTE]
    users = [*(row.user for row in rows), *(p.user for p in computing if p.user is not None)]
    used = [_whole(s.sample.memory_used_bytes) for s in boards if s.answered and s.sample]
    total = [_whole(s.device.memory_total_bytes) for s in boards if s.answered]
    memory = None if None in (*used, *total) or not total else _share(_sum(used), _sum(total))
    host = snapshot.host
    models = Counter(short_model(s.device.name, brief=True) for s in boards)
    return Digest(
        node=snapshot.node,
        machine=machine,
        version=version,
        gpus=len(boards),
        models=dict(models.most_common(MOST_MODELS)),
        simulated=snapshot.simulated,
        reason=_reason(snapshot, lamps),
        allocated=len(held) if known else None,
        in_use=len(taken - held - {None}) if known else None,
        tasks=len(rows),
        allocated_reason=None if known or leases is None else leases.note,
        holders=tuple(_task(row, jobs.get(row.id or ""), runs) for row in rows[:MOST_HOLDERS]),
        users=tuple(dict.fromkeys(users))[:MOST_HOLDERS],
        utilization_percent=_mean([_load(s) for s in boards]),
        memory_percent=memory,
        cpu_percent=host.cpu_percent,
        host_memory_percent=_share(host.memory_used_bytes, host.memory_total_bytes),
        idle=sum(s.device.uuid in held and _load(s) == 0 for s in boards),
        free=_free(snapshot, leases),
        gpu_states=gpu_states(
            snapshot.devices, () if leases is None else leases.devices, lamps, IDLE_RULES
        ),
        spans=_spans(snapshot, leases),
        alerts=dict(firing),
        slow=tuple(labels[s.device.uuid] for s in boards if s.check and s.check.verdict == SLOW)[
            :MOST
        ],
        checks=tuple(map(figures_of, filter(is_comparable, checks)))[:MOST],
        labels=tuple(sorted(printable(one)[:LONGEST_GPUS] for one in share_labels))[:MOST_LABELS],
        temperature_celsius=max((one for one in heat if one is not None), default=None),
        metrics=metrics if metrics and re.match(METRICS_URL, metrics) else None,
    )


def is_comparable(result: CardResult) -> bool:
    """Whether other cards are judged by a check: of a whole card, which had it for itself."""
    beside = result.even_if_used or result.instance or result.simulated
    return result.verdict.is_measured and not beside


def _is_known(snapshot: Snapshot, leases: LeaseList | None) -> bool:
    """Whether all leases are known: the book could be read, and every lease in it."""
    if leases is None or any(not row.devices for row in leases.leases):
        return False
    return leases.note is None or bool(leases.devices) or not snapshot.devices


def encoded(digest: Digest) -> bytes:
    """Returns the digest as JSON; lists are left out if it would be too long."""
    for left_out in (None, "spans", "holders", "users", "labels", "checks", "gpu_states", "free"):
        digest = digest if left_out is None else replace(digest, **{left_out: ()})
        found = struct_text(digest).encode("utf-8", "replace")
        if len(found) <= MOST_BYTES:
            break
    return found


def decoded(body: bytes) -> Digest:
    """Reads a digest of another machine; raises Invalid with the first field that is wrong."""
    try:
        return read(Digest, loads(body, TextBounds(MOST_BYTES, MOST_BYTES)))
    except Wrong as wrong:
        raise Invalid(f"not a valid digest: {wrong}") from wrong


def sent_line(digest: Digest) -> str:
    """Returns the line that an agent prints for each heartbeat."""
    shown = {
        "CPU": _one_digit(digest.cpu_percent),
        "Memory": _one_digit(digest.host_memory_percent),
        "GPU": _one_digit(digest.utilization_percent),
        "Tasks": str(digest.tasks),
    }
    return "Heartbeat sent: " + ", ".join(f"{name}={value}" for name, value in shown.items())


def _task(row: LeaseRow, job: JobView | None, runs: Sequence[RunRow]) -> NodeTask:
    """Returns what a lease is for, by the name of its job, its run or its program."""
    if job is None:
        held = {one.uuid for one in row.devices}
        named = (
            one.name
            for one in runs
            if one.parent is None and one.user == row.user
            and {device.uuid for device in one.devices} == held
        )  # fmt: skip
        return NodeTask(row.holder, next(named, None) or program_of(row.command))
    return NodeTask(row.holder, job.name, job.number)


def _reason(snapshot: Snapshot, lamps: Sequence[DeviceLamp]) -> str | None:
    """Returns what is wrong here: the worst device, else a driver that cannot be read. An idle
    lease is not counted as wrong."""
    labels = device_labels(snapshot.devices)
    broken = (one for one in lamps if one.is_troubled and one.rule not in IDLE_RULES)
    troubled = sorted(broken, key=lambda one: one.urgency)
    if troubled:
        worst = troubled[-1]
        label = labels.get(worst.uuid, str(worst.index))
        more = and_more(len(troubled) - 1)
        return f"GPU {label}{more}: {worst.status}"[:200]
    return snapshot.faults[0].reason[:200] if snapshot.faults else None


def _spans(snapshot: Snapshot, leases: LeaseList | None) -> tuple[NodeSpan, ...]:
    """Returns the reservations, the first ones first, and the leases."""
    labels = device_labels(snapshot.devices)

    def named(uuids: Iterable[str]) -> str:
        return range_of([labels[uuid] for uuid in uuids if uuid in labels])[:LONGEST_GPUS]

    if leases is None:
        return ()
    reserved = (
        NodeSpan(one.user, gpus, one.begins, one.ends, True)
        for one in leases.reservations
        if (gpus := named(device.uuid for device in one.devices))
    )
    held = (
        NodeSpan(row.holder, gpus, row.since, row.until)
        for row in leases.leases
        if (gpus := named(share.uuid for share in row.devices))
    )
    return tuple(islice(chain(reserved, held), MOST_SPANS))


def _free(snapshot: Snapshot, leases: LeaseList | None) -> tuple[FreeDevices, ...]:
    """Returns the free devices by model, each model's emptiest first."""
    if leases is None:
        return ()
    free = {v.uuid for v in leases.devices if v.kind is VerdictKind.FREE}
    labels, found = device_labels(snapshot.devices), dict[str, list[tuple[int, str]]]()
    for status in snapshot.devices:
        if status.device.uuid in free and status.answered and status.sample is not None:
            size = (status.sample.memory_free_bytes or 0) // MIB
            rows = found.setdefault(short_model(status.device.name), [])
            rows.append((int(size), labels[status.device.uuid]))
    return tuple(
        FreeDevices(model, tuple(label for _, label in rows), tuple(size for size, _ in rows))
        for model, rows in list(found.items())[:MOST_MODELS]
    )


def _load(status: DeviceStatus) -> float | None:
    return status.sample.utilization_percent if status.answered and status.sample else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _sum(values: Sequence[int | None]) -> int:
    return sum(value or 0 for value in values)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else round(100.0 * part / whole, 1)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None


def _one_digit(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1f}%"
