"""Every lease of a machine at one instant, as people and programs are told of it."""

from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from andon.errors import Invalid
from andon.model.wire import Json
from andon.model.work import LeaseKind, Share, Standing

LEASES = "andon.leases/1"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One lease: whose it is, what was promised and what is used of it.

    What cannot be read of it, or is not for everyone, is None.
    """

    id: str | None
    user: str
    uid: int
    standing: Standing
    kind: LeaseKind | None
    devices: tuple[Share, ...]
    since: float | None
    until: float | None
    command: str | None
    simulated: bool
    used_bytes: int
    promised_bytes: int | None
    utilization_percent: float | None
    fence: int | None
    pid: int | None  # of the process that holds it
    releasable: bool  # by whoever made this list
    why_not: str | None


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """One place in the line; 1 is the next."""

    position: int
    user: str
    gpus: int
    memory_bytes: int | None
    since: float
    priority: int


@dataclass(frozen=True, slots=True)
class CordonRow:
    """A device that is given to nobody; without an index where it is not here."""

    uuid: str
    index: int | None
    at: float
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class BookRow:
    """The folder that new leases are written to, and whose it is."""

    path: str
    owner: str


@dataclass(frozen=True, slots=True)
class LeaseList:
    """All of it; `note` says why it is empty, or cannot be known."""

    at: float
    leases: tuple[LeaseRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()
    cordons: tuple[CordonRow, ...] = ()
    book: BookRow | None = None
    note: str | None = None


def list_to_json(found: LeaseList, timestamp: str) -> Json:
    """`andon.leases/1`; the timestamp is `at` for people."""
    return {
        "schema": LEASES,
        "timestamp": timestamp,
        "at": found.at,
        "leases": [row_to_json(row) for row in found.leases],
        "waiting": [asdict(row) for row in found.waiting],
        "cordons": [asdict(row) for row in found.cordons],
        "book": None if found.book is None else asdict(found.book),
        "note": found.note,
    }


def row_to_json(row: LeaseRow) -> Json:
    return {
        **asdict(row),
        "standing": str(row.standing),
        "kind": None if row.kind is None else str(row.kind),
        "devices": [asdict(share) for share in row.devices],
    }


def list_from_json(value: Json) -> LeaseList:
    """What a server said; Invalid where it is not that."""
    if value.get("schema") != LEASES:
        raise Invalid(f"the schema is {str(value.get('schema'))[:40]!r}, not {LEASES!r}")
    try:
        book = value["book"]
        return LeaseList(
            float(value["at"]),
            tuple(_row(one) for one in value["leases"]),
            tuple(_made(WaitingRow, one) for one in value["waiting"]),
            tuple(_made(CordonRow, one) for one in value["cordons"]),
            None if book is None else _made(BookRow, book),
            value["note"],
        )
    except (TypeError, ValueError, KeyError, AttributeError) as exc:
        raise Invalid(f"not a valid {LEASES}: {exc}") from exc


def _row(value: Json) -> LeaseRow:
    kind = value["kind"]
    told: Json = {
        **value,
        "standing": Standing(value["standing"]),
        "kind": None if kind is None else LeaseKind(kind),
        "devices": tuple(_made(Share, share) for share in value["devices"]),
    }
    return _made(LeaseRow, told)


def _made(kind: type[T], value: dict[str, Any]) -> T:
    """Fields that a newer server has are left out."""
    return kind(**{one.name: value[one.name] for one in fields(kind)})  # type: ignore[arg-type]
