"""The audit log as people read it: a request and its result in one row."""

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct

from andon.model.codec import LATEST, shown

LONGEST_LINE = 128 * 1024
"""The line of a request that has queued 10,000 jobs, as many as one may, has 90,000 characters."""
_CREATED = ("silence", "node", "token")
_SEVERAL = ("drain", "move")
"""Actions for several things that are done: the path says which."""
_OUTCOMES = {403: "refused", 401: "refused"}


class AuditRow(Struct, frozen=True):
    """One requested change: by whom, what, and its result."""

    at: float
    user: str | None
    uid: int | None
    action: str
    subject: str | None  # a lease, an alert, a device
    result: str  # done, refused, failed, or unfinished: the server ended meanwhile
    status: int | None
    peer: str | None
    key: str | None
    count: int = 1


def audit_rows(lines: Iterable[str], since: float = 0.0) -> list[AuditRow]:
    """Returns the rows, oldest first. An unreadable line is skipped: a full disk may cut one."""
    rows: dict[object, AuditRow] = {}
    for number, line in enumerate(lines):
        said = _parsed(line)
        if said is None:
            continue
        key = _text(said.get("id")) or number
        if said.get("event") == "done":
            if key in rows:
                rows[key] = _finished(rows[key], said)
        else:
            rows[key] = _row(said)
    return [row for row in rows.values() if row.at >= since]


def _parsed(line: str) -> Mapping[str, object] | None:
    try:
        found = json.loads(line) if len(line) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        return None
    at = found.get("at") if isinstance(found, dict) else None
    if isinstance(at, bool) or not isinstance(at, int | float):
        return None
    return found if 0 <= at <= LATEST else None


def _row(said: Mapping[str, object]) -> AuditRow:
    event = str(said.get("event"))
    requested = event in ("requested", "refused")
    return AuditRow(
        at=float(str(said["at"])),
        user=_text(said.get("user")),
        uid=_whole(said.get("uid")),
        action=_action(said) if requested else event,
        subject=_subject(said),
        result={"requested": "unfinished", "refused": "refused"}.get(event, "done"),
        status=None,
        peer=_text(said.get("peer")),
        key=_text(said.get("key")),
        count=_whole(said.get("count")) or 1,
    )


def _finished(row: AuditRow, said: Mapping[str, object]) -> AuditRow:
    status = _whole(said.get("status"))
    good = status is not None and 200 <= status < 300
    return AuditRow(
        at=row.at,
        user=_text(said.get("user")) or row.user,
        uid=row.uid if said.get("uid") is None else _whole(said["uid"]),
        action=row.action,
        subject=_text(said.get("lease")) or _made(said) or row.subject,
        result="done" if good else _OUTCOMES.get(status or 0, "failed"),
        status=status,
        peer=row.peer,
        key=row.key,
    )


def _made(said: Mapping[str, object]) -> str | None:
    """Returns what a request without a name in its path has created: a silence, jobs, a node."""
    jobs = said.get("jobs")
    if isinstance(jobs, list):
        return ", ".join(str(number) for number in jobs if type(number) is int) or None
    return next((text for one in _CREATED if (text := _text(said.get(one)))), None)


def _action(said: Mapping[str, object]) -> str:
    found = str(said.get("action") or said.get("method"))
    parts = str(said.get("path") or "").split("/")
    return parts[-1] if found in _SEVERAL and len(parts) > 4 else found


def _subject(said: Mapping[str, object]) -> str | None:
    """Returns the name in the path: /api/leases/NAME/renew."""
    parts = str(said.get("path") or "").split("/")
    if len(parts) > 3:
        return parts[3]
    address, port = said.get("address"), said.get("port")
    return None if address is None else f"{shown(address)[:60]}:{port}".replace("'", "")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
