"""Leases, tickets and cordons as JSON: `andon.lease/1`, `andon.ticket/1`, `andon.cordon/1`."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from andon.errors import Invalid
from andon.model.wire import Json
from andon.model.work import (
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
LONGEST_TEXT = 4096
FURTHEST = 32_503_680_000.0  # the year 3000; no clock can show what lies far beyond

T = TypeVar("T")


def lease_to_json(lease: Lease) -> Json:
    """Made while others wait for the book, and so without `asdict`, which copies every value."""
    return {
        "schema": LEASE,
        **_plain(lease),
        "shares": [_plain(share) for share in lease.shares],
        "owner": _plain(lease.owner),
        "work": None if lease.work is None else _plain(lease.work),
    }


def ticket_to_json(ticket: Ticket) -> Json:
    need = {**_plain(ticket.need), "eligible": sorted(ticket.need.eligible)}
    return {"schema": TICKET, **_plain(ticket), "owner": _plain(ticket.owner), "need": need}


def cordon_to_json(cordon: Cordon) -> Json:
    return {"schema": CORDON, **_plain(cordon)}


def work_to_json(work: Work) -> Json:
    return {"work": _plain(work)}


def lease_from_json(value: Json) -> Lease:
    """Anything that is not a whole lease is Invalid: half of one must not look like none."""
    return _read(value, LEASE, _lease)


def ticket_from_json(value: Json) -> Ticket:
    return _read(value, TICKET, _ticket)


def cordon_from_json(value: Json) -> Cordon:
    return _read(
        value,
        CORDON,
        lambda v: Cordon(_text(v, "uuid"), _moment(v, "at"), _text(v, "by"), _text(v, "reason")),
    )


def with_work(lease: Lease, value: Json) -> Lease:
    """The lease after its work has begun; a line that says nothing of it changes nothing."""
    try:
        return replace(lease, work=_work(value["work"])) if "work" in value else lease
    except (TypeError, ValueError, KeyError):
        return lease


def _read(value: Json, schema: str, read: Callable[[Json], T]) -> T:
    if value.get("schema") != schema:
        raise Invalid(f"the schema is {str(value.get('schema'))[:40]!r}, not {schema!r}")
    try:
        return read(value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as exc:
        raise Invalid(f"not a valid {schema}: {exc}") from exc


def _plain(value: Lease | Ticket | Need | Owner | Share | Work | Cordon) -> Json:
    """The fields of one value, and not those of what it holds."""
    return {name: getattr(value, name) for name in value.__slots__}


def _lease(value: Json) -> Lease:
    shares = value["shares"]
    if not isinstance(shares, list) or not 1 <= len(shares) <= MOST_SHARES:
        raise ValueError("shares is not a list of devices")
    return Lease(
        id=_text(value, "id"),
        shares=tuple(_share(share) for share in shares),
        owner=_owner(value["owner"]),
        kind=LeaseKind(value["kind"]),
        since=_moment(value, "since"),
        since_ticks=_whole(value, "since_ticks"),
        until=_maybe(value, "until", _number),
        command=_text(value, "command"),
        work=None if value.get("work") is None else _work(value["work"]),
        simulated=_flag(value, "simulated"),
        even_if_used=_flag(value, "even_if_used"),
        fence=_whole(value, "fence"),
    )


def _ticket(value: Json) -> Ticket:
    need = value["need"]
    return Ticket(
        id=_text(value, "id"),
        owner=_owner(value["owner"]),
        need=Need(
            eligible=frozenset(_texts(need, "eligible")),
            least=_whole(need, "least"),
            most=_whole(need, "most"),
            memory_bytes=_maybe(need, "memory_bytes", _whole),
            shared=_flag(need, "shared"),
            balanced=_flag(need, "balanced"),
            even_if_used=_flag(need, "even_if_used"),
        ),
        priority=int(value["priority"]),
        since=_moment(value, "since"),
        simulated=_flag(value, "simulated"),
        until=_maybe(value, "until", _number),
    )


def _share(value: Json) -> Share:
    return Share(
        _text(value, "uuid"), _whole(value, "index"), _maybe(value, "memory_bytes", _whole)
    )


def _owner(value: Json) -> Owner:
    return Owner(
        uid=_whole(value, "uid"),
        user=_text(value, "user"),
        pid=_whole(value, "pid"),
        started_ticks=_whole(value, "started_ticks"),
        session=_whole(value, "session"),
        boot=_maybe(value, "boot", _text),
        pid_namespace=_maybe(value, "pid_namespace", _text),
        container=_maybe(value, "container", _text),
    )


def _work(value: Json) -> Work:
    return Work(
        _whole(value, "pid"), _whole(value, "started_ticks"), _maybe(value, "group", _whole)
    )


def _maybe(value: Json, name: str, read: Callable[[Json, str], T]) -> T | None:
    return None if value.get(name) is None else read(value, name)


def _number(value: Json, name: str) -> float:
    found = value[name]
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"{name} is not a number")
    return float(found)


def _moment(value: Json, name: str) -> float:
    found = _number(value, name)
    if not 0 <= found <= FURTHEST:
        raise ValueError(f"{name} is no time")
    return found


def _whole(value: Json, name: str) -> int:
    found = value[name]
    if type(found) is not int or not 0 <= found < 2**63:
        raise ValueError(f"{name} is not a whole number")
    return found


def _text(value: Json, name: str) -> str:
    found = value[name]
    if not isinstance(found, str) or len(found) > LONGEST_TEXT:
        raise ValueError(f"{name} is not a text")
    return found


def _flag(value: Json, name: str) -> bool:
    found = value[name]
    if not isinstance(found, bool):
        raise ValueError(f"{name} is neither true nor false")
    return found


def _texts(value: Json, name: str) -> list[str]:
    found = value[name]
    if not isinstance(found, list) or len(found) > MOST_SHARES:
        raise ValueError(f"{name} is not a list")
    if not all(isinstance(item, str) and len(item) <= LONGEST_TEXT for item in found):
        raise ValueError(f"{name} is not a list of texts")
    return found
