"""The state of a node at its hub: whether it reports, is healthy, and which machine it is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from andon.fleet.rules.digest import Digest, NodeFigures, NodeTask
from andon.fleet.rules.nodes import FleetNode
from andon.model.codec import Amount, JsonDocument, Name, Names, Text, Time, Whole
from andon.model.wire import Json, struct_text
from andon.units import human_seconds

SILENT_SECONDS = 15.0
ALERT_SECONDS = 30.0
"""How long a node is silent before people are told."""
CLOCK_SECONDS = 30.0
"""A clock that differs more is wrong; a heartbeat may have waited for some seconds."""
NEVER = "it has not reported yet"


class NodeState(StrEnum):
    """How a node is, in one word."""

    HEALTHY = "healthy"
    SICK = "sick"
    SILENT = "silent"
    NEW = "new"

    @classmethod
    def _missing_(cls, value: object) -> "NodeState | None":
        """Returns the state for the word of an earlier version; None if there is none."""
        return cls.SILENT if value in ("stale", "lost") else None


class NodeRow(NodeFigures, frozen=True):
    """A node in a list. What a silent node last reported is not known to be so now: left out."""

    name: Name
    state: NodeState
    age_seconds: Amount | None = None
    doubt: Text | None = None
    """What the hub itself finds wrong with its reports, such as the clock."""
    drained: bool = False
    version: Name | None = None

    @property
    def heard(self) -> bool:
        return self.state in (NodeState.HEALTHY, NodeState.SICK)

    @property
    def offered(self) -> int | None:
        """The number of devices that a request would get; None if unknown."""
        found = 0 if self.drained else sum(len(group.labels) for group in self.free)
        return found if found or self.drained or self.allocated is not None else None

    @property
    def silent_seconds(self) -> float:
        """The time since the last report of a node that has reported."""
        return self.age_seconds or 0.0 if self.state is NodeState.SILENT else 0.0


def having(rows: Iterable[NodeRow], search: str) -> tuple[NodeRow, ...]:
    """Returns the nodes whose rows contain every word of the search: name, state, models, users,
    tasks, alert levels and reasons."""
    wanted = search.casefold().split()
    return tuple(one for one in rows if all(word in _searched_text(one) for word in wanted))


_ORDER = (NodeState.SICK, NodeState.SILENT, NodeState.NEW, NodeState.HEALTHY)


def in_need(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """Returns the nodes, those with problems first."""
    return sorted(rows, key=lambda row: (_ORDER.index(row.state), row.name))


def _searched_text(row: NodeRow) -> str:
    levels = (level for level, count in row.alerts.items() if count)
    texts = (
        row.name, row.state.value, "drained" if row.drained else "",
        "simulated" if row.simulated else "", *row.models, *row.users, *row.labels,
        *(one.text for one in row.holders), *levels, row.reason or "", row.doubt or "",
    )  # fmt: skip
    return "\n".join(texts).casefold()


class NodeList(JsonDocument, frozen=True):
    """The nodes of a server."""

    schema = "andon.nodes/1"
    at: Time
    hub: bool
    """Whether other machines may report to it."""
    nodes: tuple[NodeRow, ...]
    version: Name | None = None
    """Of the server."""
    own: Name | None = None
    """The server's own machine, which is among the nodes if it has GPUs."""


class TokenRow(Struct, frozen=True):
    """A named token in a list."""

    name: Name
    role: Name
    added: Time


class TokenList(Struct, frozen=True):
    """The named tokens of a hub."""

    tokens: tuple[TokenRow, ...]


class NewToken(Struct, frozen=True):
    """A new token of a hub, and how its certificate is verified; both are to be pasted."""

    token: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{43}\Z")]
    pin: Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")] | None = None


def list_to_text(found: NodeList) -> str:
    """Returns the list as JSON, encoded in a fast way: every browser polls it."""
    fields = {name: getattr(found, name) for name in NodeList.__struct_fields__}
    return struct_text({"schema": found.schema, **fields})


def row_of(
    node: FleetNode,
    digest: Digest | None,
    age: float | None,
    other: str | None = None,
    version: str | None = None,
) -> NodeRow:
    """Returns the row of a node that reported so many seconds ago; None: never. `other` is what the
    hub itself found wrong, `version` the hub's own: another one is mentioned, but is no fault."""
    age = None if age is None else round(age, 1)
    row = NodeRow(node.name, NodeState.NEW, age, reason=NEVER, drained=node.drained)
    if digest is None or age is None:
        return row
    if age >= SILENT_SECONDS:
        lasting = {name: getattr(digest, name) for name in _LASTING}
        return replace(
            row, state=NodeState.SILENT, reason=f"silent {human_seconds(age)}", **lasting
        )
    known = {name: getattr(digest, name) for name in (*NodeFigures.__struct_fields__, "version")}
    reason = other or digest.reason
    known["reason"] = reason or version_trouble(digest.version, version)
    state = NodeState.HEALTHY if reason is None else NodeState.SICK
    return replace(row, state=state, doubt=other, **known)


_LASTING = ("gpus", "models", "simulated", "version", "metrics")


def clock_trouble(at: float, sent: float) -> str | None:
    """Returns what is wrong with the clock of a node whose heartbeat came at this time."""
    difference = sent - at
    if abs(difference) < CLOCK_SECONDS:
        return None
    return (
        f"its clock is {human_seconds(abs(difference))} {'ahead' if difference > 0 else 'behind'}"
    )


def version_trouble(version: str | None, hubs: str | None) -> str | None:
    """Returns how the version of a node differs from its hub's."""
    if version is None or hubs is None or version == hubs:
        return None
    return f"andon {version}, the hub {hubs}"


def scrape_targets(rows: Iterable[NodeRow]) -> list[Json]:
    """Returns the targets of nodes with metrics of their own, for Prometheus' http_sd_configs."""
    found = [(row.name, *row.metrics.split("://")) for row in rows if row.metrics is not None]
    return [
        {"targets": [place], "labels": {"node": name, "__scheme__": scheme}}
        for name, scheme, place in found
    ]


def without_names(row: NodeRow) -> NodeRow:
    """Returns the row without names, for callers who may not know what others run."""
    return replace(row, holders=tuple(replace(one, name=None) for one in row.holders))


def tasks_text(tasks: Sequence[NodeTask]) -> str:
    """Returns `train of alice, job 12 of bob, 2 × run of bob`."""
    counts = Counter(one.text for one in tasks)
    return ", ".join(text if count == 1 else f"{count} × {text}" for text, count in counts.items())


class FleetOffer(Struct, frozen=True):
    """The devices of one node that fit a request; there may be more than requested."""

    node: Name
    model: Name
    labels: Names
    free_bytes: Whole = 0
    """Of the one with the least."""
    simulated: bool = False


def offers(
    rows: Sequence[NodeRow], least: int, models: Sequence[str], memory_bytes: int | None
) -> list[FleetOffer]:
    """Returns the nodes with enough free devices of one model, first those that would have fewest
    left, so that larger requests find room elsewhere."""
    found = fitting(rows, models, memory_bytes)
    enough = [one for one in found if len(one.labels) >= least]
    return sorted(enough, key=lambda one: (len(one.labels), one.node))


def fitting(
    rows: Sequence[NodeRow], models: Sequence[str], memory_bytes: int | None
) -> list[FleetOffer]:
    """Returns the free devices of these models with enough memory, on nodes that take work."""
    found = list[FleetOffer]()
    for row in rows:
        for group in row.free if row.heard and not row.drained else ():
            if models and not any(one.lower() in group.model.lower() for one in models):
                continue
            sizes = zip(group.labels, group.free_mib, strict=False)
            fit = {label: size << 20 for label, size in sizes if size << 20 >= (memory_bytes or 0)}
            if fit:
                least = min(fit.values())
                found.append(FleetOffer(row.name, group.model, tuple(fit), least, row.simulated))
    return found


def most_devices(rows: Sequence[NodeRow], models: Sequence[str]) -> int:
    """Returns how many devices of these models a node that reports has at most, free or not."""
    wanted = [one.lower() for one in models]

    def count(row: NodeRow) -> int:
        named = [n for name, n in row.models.items() if any(w in name.lower() for w in wanted)]
        return sum(named) if wanted else row.gpus

    return max((count(row) for row in rows if row.heard), default=0)


def free_of(row: NodeRow) -> int | None:
    """Returns how many devices of a node are free for new work; None if unknown."""
    if row.allocated is None or row.drained:
        return None
    return sum(len(group.labels) for group in row.free)
