"""What the nodes of a hub have, a line for each thing: alerts, processes, leases, jobs and cordons
of all of them, which are searched, sorted and paged."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from andon.fleet.rules.digest import Models
from andon.fleet.rules.states import NodeRow
from andon.model.alert import Alert, Phase, Silence
from andon.model.codec import Name, Names, Text, Time, Whole
from andon.model.device import Process, Snapshot
from andon.model.job.facts import JobView
from andon.model.lease_list import CordonRow, LeaseList, LeaseRow, WaitingRow
from andon.model.naming import device_labels
from andon.model.programs import program_of
from andon.model.utilisation import ZERO_READING

MOST_USERS: Final = 200
BEGINS, ENDS = r"(?<![\w])", r"(?!\d)"


class ItemKind(StrEnum):
    """What a line is about."""

    ALERT = "alert"
    SILENCE = "silence"
    JOB = "job"
    LEASE = "lease"
    WAITING = "waiting"
    CORDON = "cordon"
    PROCESS = "process"
    ENDED = "ended"
    """An alert that is over."""


class FleetItem(Struct, frozen=True, kw_only=True):
    """One thing of one node. What does not apply, or is not known or not shown, is None."""

    kind: ItemKind
    node: Name
    id: Text
    """What its page on its node is called."""
    title: Text
    state: Name
    user: Name | None = None
    gpus: Names = ()
    """As people call them; those that a waiting job wants are in `wants`."""
    wants: Name | None = None
    since: Time | None = None
    until: Time | None = None
    memory_bytes: Whole | None = None
    utilization_percent: float | None = None
    detail: Text | None = None


class UserItems(Struct, frozen=True):
    """How many lines of a page a user has."""

    user: Name
    count: Whole


class FleetItems(Struct, frozen=True):
    """Some lines of all nodes; `total` is how many match."""

    at: Time
    total: Whole
    items: tuple[FleetItem, ...] = ()
    counts: Models = field(default_factory=dict)
    """How many match of each kind, whichever is chosen."""
    users: tuple[UserItems, ...] = ()
    """Of all that match before a user is chosen."""
    silent: Names = ()
    """Nodes that do not report: what they have now is not known."""
    unread: Names = ()
    """Nodes whose reports were not read in time: ask again."""
    firing: Models = field(default_factory=dict)
    """How many alerts fire on the other nodes, by level; known also with a `limit` of 0, for which
    no report is read."""


class Wanted(Struct, frozen=True):
    """Which lines are asked for, and in which order."""

    kinds: frozenset[ItemKind] = frozenset()
    search: str = ""
    node: str = ""
    user: str = ""
    sort: str = ""
    """A key, from the largest down with `-` before it; else what needs someone comes first."""
    limit: int = 100
    offset: int = 0


def items_of(
    snapshot: Snapshot,
    alerts: Sequence[Alert],
    silences: Sequence[Silence],
    leases: LeaseList | None,
    jobs: Sequence[JobView],
    ended: Sequence[Alert] = (),
) -> tuple[FleetItem, ...]:
    """Returns everything that a node has, as one caller may see it."""
    node, labels = snapshot.node, device_labels(snapshot.devices)
    by = {one.id: next((s for s in silences if _covers(s, one)), None) for one in alerts}
    unused = (one for one in silences if one not in by.values())
    found = [*(_alert(node, one, by[one.id]) for one in alerts)]
    found += [_silence(node, one, labels.get(one.subject or "")) for one in unused]
    found += [_job(node, one) for one in jobs]
    if leases is not None:
        found += [_lease(node, one, labels) for one in leases.leases]
        found += [_waiting(node, one) for one in leases.waiting]
        found += [_cordon(node, one, labels) for one in leases.cordons]
    return (*found, *_processes(snapshot, labels), *(_ended(node, one) for one in ended))


def _covers(silence: Silence, alert: Alert) -> bool:
    of = silence.rule in (None, alert.rule) and silence.subject in (None, alert.subject)
    return of and alert.silenced_until is not None


def _alert(node: str, alert: Alert, silence: Silence | None) -> FleetItem:
    state = alert.level.value if alert.state is Phase.FIRING else alert.state.value
    detail, by = alert.rule.replace("_", " "), alert.acknowledged
    user = silence.by if silence else by.by if by else ""
    if alert.silenced_until is not None:
        state, detail = "silenced", (silence and silence.note) or detail
    elif by is not None:
        state, detail = "acknowledged", by.note or detail
    return FleetItem(
        kind=ItemKind.ALERT, node=node, id=alert.id, title=alert.message or alert.rule, state=state,
        gpus=() if alert.device is None else (str(alert.device),), since=alert.fired or alert.since,
        until=alert.silenced_until, detail=detail, user=user or None,
    )  # fmt: skip


def _ended(node: str, alert: Alert) -> FleetItem:
    return FleetItem(
        kind=ItemKind.ENDED, node=node, id=alert.id, title=alert.message or alert.rule,
        state=alert.state.value, gpus=() if alert.device is None else (str(alert.device),),
        since=alert.fired or alert.since, until=alert.resolved, detail=alert.level.value,
    )  # fmt: skip


def _silence(node: str, silence: Silence, label: str | None) -> FleetItem:
    of = f"GPU {label}" if label else silence.subject
    what = " of ".join(one for one in (silence.rule or "every alert", of) if one)
    return FleetItem(
        kind=ItemKind.SILENCE, node=node, id=silence.id, title=f"{what} is silenced",
        state="silence", user=silence.by or None, gpus=(label,) if label else (),
        since=silence.since or None, until=silence.until, detail=silence.note or None,
    )  # fmt: skip


def _job(node: str, job: JobView) -> FleetItem:
    waits = job.started is None
    return FleetItem(
        kind=ItemKind.JOB, node=node, id=job.label, title=job.name or job.label, user=job.user,
        state=job.state.value, gpus=job.devices, wants=job.gpus if waits else None,
        since=job.submitted_at if waits else job.started, until=job.ended, detail=job.reason,
    )  # fmt: skip


def _lease(node: str, lease: LeaseRow, labels: dict[str, str]) -> FleetItem:
    idle = lease.state.value == "held" and lease.utilization_percent == ZERO_READING
    return FleetItem(
        kind=ItemKind.LEASE, node=node, id=lease.id or "", user=lease.holder,
        title=program_of(lease.command) or "a lease", state="idle" if idle else lease.state.value,
        gpus=tuple(labels.get(one.uuid, str(one.index)) for one in lease.devices),
        since=lease.since, until=lease.until, memory_bytes=lease.used_bytes,
        utilization_percent=lease.utilization_percent, detail=lease.command,
    )  # fmt: skip


def _waiting(node: str, row: WaitingRow) -> FleetItem:
    return FleetItem(
        kind=ItemKind.WAITING, node=node, id=str(row.position), title=f"place {row.position}",
        state="waiting", user=row.user, wants=str(row.gpus), since=row.since,
        memory_bytes=row.memory_bytes,
    )  # fmt: skip


def _cordon(node: str, row: CordonRow, labels: dict[str, str]) -> FleetItem:
    label = labels.get(row.uuid) or str(row.uuid if row.index is None else row.index)
    return FleetItem(
        kind=ItemKind.CORDON, node=node, id=row.uuid, title=row.reason or "no reason given",
        state="cordoned", user=row.by, gpus=(label,), since=row.at,
    )  # fmt: skip


def _processes(snapshot: Snapshot, labels: dict[str, str]) -> Iterable[FleetItem]:
    """Returns a line for each process, on however many devices it is."""
    on = dict[tuple[int, float | None], list[tuple[str, Process]]]()
    for status in snapshot.devices:
        for one in status.processes:
            on.setdefault((one.pid, one.started), []).append((labels[status.device.uuid], one))
    for some in on.values():
        first = some[0][1]
        sizes = [one.memory_bytes for _, one in some]
        name = f"{first.pid}" if first.started is None else f"{first.pid}-{first.started}"
        yield FleetItem(
            kind=ItemKind.PROCESS, node=snapshot.node, id=name, user=first.user,
            title=first.program or f"pid {first.pid}", state=first.kind.value,
            gpus=tuple(dict.fromkeys(label for label, _ in some)), since=first.started,
            memory_bytes=None if None in sizes else sum(one or 0 for one in sizes),
            detail=first.command,
        )  # fmt: skip


_URGENCY: Final = {
    ItemKind.ALERT: ("critical", "warning", "silenced", "acknowledged", "info", "pending"),
    ItemKind.JOB: ("waiting", "held", "later", "running", "unknown", "lost"),
    ItemKind.LEASE: ("unreadable", "orphaned", "idle"),
}
_KINDS: Final = tuple(ItemKind)
_KEYS: Final[dict[str, Callable[[FleetItem], str | float | None]]] = {
    "node": lambda one: one.node,
    "what": lambda one: one.title,
    "user": lambda one: one.user,
    "state": lambda one: one.state,
    "since": lambda one: one.since,
    "until": lambda one: one.until,
    "memory": lambda one: one.memory_bytes,
    "util": lambda one: one.utilization_percent,
    "GPUs": lambda one: len(one.gpus),
}
SORTS: Final = frozenset(_KEYS)


def page_of(
    items: Iterable[FleetItem], wanted: Wanted, at: float, rows: Iterable[NodeRow], unread: Names
) -> FleetItems:
    """Returns the lines that are wanted. Every word of a search has to be somewhere in a line; a
    number stands for itself: `n1` is not found in `n17`."""
    words = [
        re.compile(rf"{'' if word[0].isalpha() else BEGINS}{re.escape(word)}{ENDS}")
        if word[-1].isdigit() else re.compile(re.escape(word))
        for word in wanted.search.casefold().split()
    ]  # fmt: skip
    found = [
        one for one in items
        if wanted.node in ("", one.node) and (not words or _has(_text(one), words))
    ]  # fmt: skip
    of_user = [one for one in found if wanted.user in ("", one.user)]
    kinds = Counter(one.kind.value for one in of_user)
    found = [one for one in found if not wanted.kinds or one.kind in wanted.kinds]
    users = Counter(one.user for one in found if one.user is not None).most_common(MOST_USERS)
    found = [one for one in of_user if not wanted.kinds or one.kind in wanted.kinds]
    shown = _ordered(found, wanted.sort)[wanted.offset : wanted.offset + wanted.limit]
    rows = tuple(rows)
    silent = tuple(row.name for row in rows if row.silent_seconds)
    firing = Counter[str]()
    for row in rows:
        firing.update(row.alerts)
    return FleetItems(
        at, len(found), tuple(shown), dict(kinds),
        tuple(UserItems(user, count) for user, count in sorted(users)),
        silent, unread, dict(firing),
    )  # fmt: skip


def _has(text: str, words: Sequence[re.Pattern[str]]) -> bool:
    return all(word.search(text) for word in words)


def _text(item: FleetItem) -> str:
    gpus = [f"gpu {one}" for one in item.gpus]
    return "\n".join(
        one for one in (item.node, item.title, item.id, item.state, item.user, item.detail, *gpus)
        if one
    ).casefold()  # fmt: skip


def _ordered(items: list[FleetItem], sort: str) -> list[FleetItem]:
    """Returns the lines in order; those whose value is not known come last."""
    items.sort(key=_need)
    by = _KEYS.get(sort.removeprefix("-"))
    if by is None:
        return items
    known = [one for one in items if by(one) is not None]
    known.sort(key=lambda one: by(one) or 0, reverse=sort.startswith("-"))
    return [*known, *(one for one in items if by(one) is None)]


def _need(item: FleetItem) -> tuple[int, int, float, str]:
    """What needs someone, or is the largest or the latest of its kind, comes first."""
    states = _URGENCY.get(item.kind, ())
    place = states.index(item.state) if item.state in states else len(states)
    waits = item.wants is not None
    size = (item.since or 0.0) if waits else -(item.memory_bytes or item.since or 0.0)
    return _KINDS.index(item.kind), place, size, item.node
