"""Every lease of a machine at one instant, as shown to people and programs."""

from msgspec import Struct

from andon.errors import Invalid
from andon.model.json_fields import (
    MOST_PID,
    NAME,
    Wrong,
    choice_in,
    each_in,
    flag_in,
    inside,
    number_in,
    shown,
    some_id_in,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    time_in,
    whole_in,
)
from andon.model.shapes import to_json
from andon.model.verdict import DeviceVerdict, verdict_from_json
from andon.model.wire import MOST_INDEX, Json
from andon.model.work import LeaseKind, LeaseState, Share

LEASES = "andon.leases/1"


class LeaseRow(Struct, frozen=True):
    """One lease: its owner, what is reserved and what is used.

    What cannot be read, or is not public, is None.
    """

    id: str | None
    user: str
    whom: str | None  # for whom the user holds it, as the user says
    uid: int
    state: LeaseState
    kind: LeaseKind | None
    devices: tuple[Share, ...]
    since: float | None
    until: float | None
    command: str | None
    simulated: bool
    used_bytes: int
    reserved_bytes: int | None
    utilization_percent: float | None
    fence: int | None
    pid: int | None  # of its holder
    releasable: bool  # by the user who made this list
    not_releasable_reason: str | None

    @property
    def holder(self) -> str:
        """`root for dora`."""
        whom = self.whom
        return f"{self.user} for {whom}" if whom and whom != self.user else self.user


class WaitingRow(Struct, frozen=True):
    """One place in the queue; 1 is next."""

    position: int
    user: str
    gpus: int
    memory_bytes: int | None
    since: float
    priority: int
    jobs_behind: int | None = None  # the user's jobs that wait after this one
    gpu_hours: float | None = None  # the user's recent use, where a server counts it


class UserHours(Struct, frozen=True):
    """A user's recent GPU hours, which halve every week; they affect the order of the queue."""

    user: str
    uid: int
    gpu_hours: float


class CordonRow(Struct, frozen=True):
    """A device that is out of service; without an index if it is not present."""

    uuid: str
    index: int | None
    at: float
    by: str
    reason: str


class BookRow(Struct, frozen=True):
    """The folder for new leases, and its owner."""

    path: str
    owner: str


class LeaseList(Struct, frozen=True):
    """All leases, and whether each device is available; `note` says why a list is empty."""

    at: float
    leases: tuple[LeaseRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()
    cordons: tuple[CordonRow, ...] = ()
    book: BookRow | None = None
    note: str | None = None
    devices: tuple[DeviceVerdict, ...] = ()
    usage: tuple[UserHours, ...] = ()


def list_to_json(found: LeaseList, timestamp: str) -> Json:
    """`andon.leases/1`; the timestamp is `at` in readable form."""
    return {"schema": LEASES, "timestamp": timestamp, **to_json(found)}


def row_to_json(row: LeaseRow) -> Json:
    found: Json = to_json(row)
    return found


def list_from_json(value: Json) -> LeaseList:
    """Read a server's answer; raises Invalid for anything else."""
    if value.get("schema") != LEASES:
        raise Invalid(f"the schema is {shown(value.get('schema'))}, not {LEASES!r}")
    try:
        return LeaseList(
            time_in(value, "at"),
            tuple(each_in(value, "leases", _row)),
            tuple(each_in(value, "waiting", _waiting)),
            tuple(each_in(value, "cordons", _cordon)),
            inside(value, "book", _book),
            some_text_in(value, "note"),
            tuple(each_in(value, "devices", verdict_from_json)),
            tuple(each_in(value, "usage", _usage)),
        )
    except Wrong as wrong:
        raise Invalid(f"not a valid {LEASES}: {wrong}") from wrong


def _row(value: Json) -> LeaseRow:
    return LeaseRow(
        id=some_id_in(value, "id"),
        user=text_in(value, "user", NAME),
        whom=some_text_in(value, "whom", NAME),
        uid=whole_in(value, "uid", MOST_PID),
        state=choice_in(value, "state", LeaseState),
        kind=None if value.get("kind") is None else choice_in(value, "kind", LeaseKind),
        devices=tuple(each_in(value, "devices", _share)),
        since=some_time_in(value, "since"),
        until=some_time_in(value, "until"),
        command=some_text_in(value, "command"),
        simulated=flag_in(value, "simulated"),
        used_bytes=whole_in(value, "used_bytes"),
        reserved_bytes=some_whole_in(value, "reserved_bytes"),
        utilization_percent=number_in(value, "utilization_percent", 0),
        fence=some_whole_in(value, "fence"),
        pid=some_whole_in(value, "pid", MOST_PID),
        releasable=flag_in(value, "releasable"),
        not_releasable_reason=some_text_in(value, "not_releasable_reason"),
    )


def _share(value: Json) -> Share:
    return Share(
        text_in(value, "uuid", NAME),
        whole_in(value, "index", MOST_INDEX),
        some_whole_in(value, "memory_bytes"),
    )


def _waiting(value: Json) -> WaitingRow:
    return WaitingRow(
        position=whole_in(value, "position"),
        user=text_in(value, "user", NAME),
        gpus=whole_in(value, "gpus"),
        memory_bytes=some_whole_in(value, "memory_bytes"),
        since=time_in(value, "since"),
        priority=_priority(value),
        jobs_behind=some_whole_in(value, "jobs_behind"),
        gpu_hours=number_in(value, "gpu_hours", 0),
    )


def _usage(value: Json) -> UserHours:
    hours = number_in(value, "gpu_hours", 0)
    if hours is None:
        raise Wrong("gpu_hours", "is missing")
    return UserHours(text_in(value, "user", NAME), whole_in(value, "uid", MOST_PID), hours)


def _priority(value: Json) -> int:
    found = number_in(value, "priority")
    if type(found) is not int:
        raise Wrong("priority", f"is {shown(found)}, not a whole number")
    return found


def _cordon(value: Json) -> CordonRow:
    return CordonRow(
        uuid=text_in(value, "uuid", NAME),
        index=some_whole_in(value, "index", MOST_INDEX),
        at=time_in(value, "at"),
        by=text_in(value, "by", NAME),
        reason=text_in(value, "reason"),
    )


def _book(value: Json) -> BookRow:
    return BookRow(text_in(value, "path"), text_in(value, "owner", NAME))
