"""JSON of leases, tickets and cordons: `andon.lease/1`, `andon.ticket/1`, `andon.cordon/1`.

Any user of the machine can write these files, so the type and range of every field is checked.
"""

import math
import string
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from andon.errors import Invalid
from andon.model.wire import Json
from andon.model.work import (
    MOST_BEHIND,
    MOST_PRIORITY,
    Cordon,
    Lease,
    LeaseKind,
    Need,
    Owner,
    Share,
    Ticket,
    Work,
)

LEASE = "andon.lease/1"
TICKET = "andon.ticket/1"
CORDON = "andon.cordon/1"
MOST_SHARES = 1024
MOST_OF_ONE_USER = 1024  # leases, and tickets; a user's files beyond that are ignored, reported
LONGEST_TEXT = 4096  # a command, a reason
LONGEST_NAME = 256  # a uuid, a user, a container
LONGEST_ID = 16
MOST_CONTAINERS = 256  # of one lease; more are not read
FURTHEST = 32_503_680_000.0  # the year 3000; clocks cannot show times far beyond
LARGEST_PID = 2**22  # the largest value of kernel.pid_max on any Linux
LARGEST_INDEX = 2**16
LARGEST_COUNT = 2**53  # ticks and fences: above it, programs that use floats are wrong
LARGEST_MEMORY = 2**63 - 1
PLAIN = frozenset(string.ascii_letters + string.digits)

T = TypeVar("T")


def lease_to_json(lease: Lease) -> Json:
    """Called while others wait for the book, so without `asdict`, which copies every value."""
    return {
        "schema": LEASE,
        **_plain(lease),
        "shares": [_plain(share) for share in lease.shares],
        "owner": _plain(lease.owner),
        "work": None if lease.work is None else _plain(lease.work),
        "containers": list(lease.containers),
    }


def ticket_to_json(ticket: Ticket) -> Json:
    need = {**_plain(ticket.need), "eligible": sorted(ticket.need.eligible)}
    return {"schema": TICKET, **_plain(ticket), "owner": _plain(ticket.owner), "need": need}


def cordon_to_json(cordon: Cordon) -> Json:
    return {"schema": CORDON, **_plain(cordon)}


def work_to_json(work: Work) -> Json:
    return {"work": _plain(work)}


def container_to_json(container: str) -> Json:
    return {"container": container}


def lease_from_json(value: Json) -> Lease:
    """Anything but a complete lease is Invalid: part of one must not look like none."""
    return _read(value, LEASE, _lease)


def ticket_from_json(value: Json) -> Ticket:
    return _read(value, TICKET, _ticket)


def cordon_from_json(value: Json) -> Cordon:
    return _read(
        value,
        CORDON,
        lambda v: Cordon(_name(v, "uuid"), _moment(v, "at"), _name(v, "by"), _shown(v, "reason")),
    )


def with_work(lease: Lease, value: Json) -> Lease:
    """The lease with its running job, or one more container; an unrelated line changes nothing."""
    try:
        if "container" in value and len(lease.containers) < MOST_CONTAINERS:
            return replace(lease, containers=(*lease.containers, _name(value, "container")))
        return replace(lease, work=_work(value["work"])) if "work" in value else lease
    except (TypeError, ValueError, KeyError, AttributeError):
        return lease


def _read(value: Json, schema: str, read: Callable[[Json], T]) -> T:
    if value.get("schema") != schema:
        raise Invalid(f"the schema is {str(value.get('schema'))[:40]!r}, not {schema!r}")
    try:
        return read(value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as exc:
        raise Invalid(f"not a valid {schema}: {exc}") from exc


def _plain(value: Lease | Ticket | Need | Owner | Share | Work | Cordon) -> Json:
    """The fields of one value, without nested ones."""
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _lease(value: Json) -> Lease:
    shares = value["shares"]
    if not isinstance(shares, list) or not 1 <= len(shares) <= MOST_SHARES:
        raise ValueError("shares is not a list of devices")
    return Lease(
        id=_id(value),
        shares=tuple(_share(share) for share in shares),
        owner=_owner(value["owner"]),
        kind=LeaseKind(value["kind"]),
        since=_moment(value, "since"),
        since_ticks=_count(value, "since_ticks"),
        until=_maybe(value, "until", _end),
        command=_shown(value, "command"),
        work=None if value.get("work") is None else _work(value["work"]),
        simulated=_flag(value, "simulated"),
        even_if_used=_flag(value, "even_if_used"),
        fence=_fence(value),
        whom=(_maybe(value, "whom", _shown) or "")[:LONGEST_NAME],
        containers=tuple(_maybe(value, "containers", _names) or ())[:MOST_CONTAINERS],
    )


def _ticket(value: Json) -> Ticket:
    need = value["need"]
    least = _whole(need, "least", 1, MOST_SHARES)
    return Ticket(
        id=_id(value),
        owner=_owner(value["owner"]),
        need=Need(
            eligible=frozenset(_names(need, "eligible")),
            least=least,
            most=_whole(need, "most", least, MOST_SHARES),
            memory_bytes=_maybe(need, "memory_bytes", _memory),
            shared=_flag(need, "shared"),
            balanced=_flag(need, "balanced"),
            even_if_used=_flag(need, "even_if_used"),
        ),
        priority=_whole(value, "priority", -MOST_PRIORITY, MOST_PRIORITY),
        since=_moment(value, "since"),
        simulated=_flag(value, "simulated"),
        jobs_behind=_maybe(value, "jobs_behind", _behind),
    )


def _behind(value: Json, name: str) -> int:
    return _whole(value, name, 0, MOST_BEHIND)


def _share(value: Json) -> Share:
    return Share(
        _name(value, "uuid"),
        _whole(value, "index", 0, LARGEST_INDEX),
        _maybe(value, "memory_bytes", _memory),
    )


def _owner(value: Json) -> Owner:
    """Session 0 began outside the holder's pid namespace."""
    return Owner(
        uid=_whole(value, "uid", 0, 2**32 - 1),
        user=_name(value, "user"),
        pid=_pid(value, "pid"),
        started_ticks=_count(value, "started_ticks"),
        session=_whole(value, "session", 0, LARGEST_PID),
        boot=_maybe(value, "boot", _name),
        pid_namespace=_maybe(value, "pid_namespace", _name),
        container=_maybe(value, "container", _name),
    )


def _work(value: Json) -> Work:
    return Work(_pid(value, "pid"), _count(value, "started_ticks"), _maybe(value, "group", _group))


def _pid(value: Json, name: str) -> int:
    """Pid 1 is a container's first process, which may hold a lease."""
    return _whole(value, name, 1, LARGEST_PID)


def _group(value: Json, name: str) -> int | None:
    """Group 1 is dropped: to `kill` it means every process."""
    group = _whole(value, name, 1, LARGEST_PID)
    return group if group > 1 else None


def _maybe(value: Json, name: str, read: Callable[[Json, str], T | None]) -> T | None:
    return None if value.get(name) is None else read(value, name)


def _number(value: Json, name: str) -> float:
    found = value[name]
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"{name} is not a number")
    return float(found)


def _moment(value: Json, name: str) -> float:
    found = _number(value, name)
    if not 0 <= found <= FURTHEST:
        raise ValueError(f"{name} is not a valid time")
    return found


def _end(value: Json, name: str) -> float:
    """Limited, not rejected: `--for` may be any number of hours."""
    return min(max(0.0, _number(value, name)), FURTHEST)


def _whole(value: Json, name: str, least: int, most: int) -> int:
    found = value[name]
    if type(found) is not int or not least <= found <= most:
        raise ValueError(f"{name} is not a whole number from {least} to {most}")
    return found


def _count(value: Json, name: str) -> int:
    return _whole(value, name, 0, LARGEST_COUNT)


def _fence(value: Json) -> int:
    """Limited, not rejected, as it decides nothing: see `next_fence`."""
    found = value["fence"]
    if type(found) is not int:
        raise ValueError("fence is not a whole number")
    return min(max(0, found), LARGEST_COUNT)


def _memory(value: Json, name: str) -> int:
    return _whole(value, name, 1, LARGEST_MEMORY)


def _id(value: Json) -> str:
    found = _text(value, "id", LONGEST_ID)
    if not found or not PLAIN.issuperset(found):
        raise ValueError("id has characters other than letters and digits")
    return found


def _name(value: Json, name: str) -> str:
    return _text(value, name, LONGEST_NAME)


def _shown(value: Json, name: str) -> str:
    """Text that is only shown is shortened and cleaned: a lease with invalid text still holds its
    devices, and no others."""
    found = value[name]
    if not isinstance(found, str):
        raise ValueError(f"{name} is not a string")
    return found[:LONGEST_TEXT].encode(errors="replace").decode()


def _text(value: Json, name: str, longest: int) -> str:
    found = value[name]
    if not is_text(found, longest):
        raise ValueError(f"{name} is not a string of at most {longest} characters")
    return str(found)


def is_text(value: object, longest: int) -> bool:
    """Whether it is a string that any output can show: JSON may contain a lone surrogate."""
    if not isinstance(value, str) or len(value) > longest:
        return False
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def _flag(value: Json, name: str) -> bool:
    found = value[name]
    if not isinstance(found, bool):
        raise ValueError(f"{name} is neither true nor false")
    return found


def _names(value: Json, name: str) -> list[str]:
    found = value[name]
    if not isinstance(found, list) or len(found) > MOST_SHARES:
        raise ValueError(f"{name} is not a list")
    if not all(is_text(item, LONGEST_NAME) for item in found):
        raise ValueError(f"{name} is not a list of names")
    return found
