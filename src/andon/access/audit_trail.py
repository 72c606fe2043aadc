"""The audit log as rows for people: each has a request and its result."""

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct

from andon.model.codec import LATEST, shown

LONGEST_LINE = 128 * 1024
"""The line of a request that has queued 10,000 jobs, as many as one may, has 90,000 characters."""
_CREATED = ("silence", "node", "token", "note")
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
        entry = _parsed(line)
        if entry is None:
            continue
        key = _text(entry.get("id")) or number
        if entry.get("event") == "done":
            if key in rows:
                rows[key] = _finished(rows[key], entry)
        else:
            rows[key] = _row(entry)
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


def _row(entry: Mapping[str, object]) -> AuditRow:
    event = str(entry.get("event"))
    requested = event in ("requested", "refused")
    return AuditRow(
        at=float(str(entry["at"])),
        user=_text(entry.get("user")),
        uid=_whole(entry.get("uid")),
        action=_action(entry) if requested else event,
        subject=_subject(entry),
        result={"requested": "unfinished", "refused": "refused"}.get(event, "done"),
        status=None,
        peer=_text(entry.get("peer")),
        key=_text(entry.get("key")),
        count=_whole(entry.get("count")) or 1,
    )


def _finished(row: AuditRow, entry: Mapping[str, object]) -> AuditRow:
    status = _whole(entry.get("status"))
    good = status is not None and 200 <= status < 300
    return AuditRow(
        at=row.at,
        user=_text(entry.get("user")) or row.user,
        uid=row.uid if entry.get("uid") is None else _whole(entry["uid"]),
        action=row.action,
        subject=_text(entry.get("lease")) or _made(entry) or row.subject,
        result="done" if good else _OUTCOMES.get(status or 0, "failed"),
        status=status,
        peer=row.peer,
        key=row.key,
    )


def _made(entry: Mapping[str, object]) -> str | None:
    """Returns what a request without a name in its path has created: a silence, jobs, a node."""
    jobs = entry.get("jobs")
    if isinstance(jobs, list):
        return ", ".join(str(number) for number in jobs if type(number) is int) or None
    return next((text for one in _CREATED if (text := _text(entry.get(one)))), None)


def _action(entry: Mapping[str, object]) -> str:
    found = str(entry.get("action") or entry.get("method"))
    parts = str(entry.get("path") or "").split("/")
    return parts[-1] if found in _SEVERAL and len(parts) > 4 else found


def _subject(entry: Mapping[str, object]) -> str | None:
    """Returns the name in the path, as in /api/leases/NAME/renew, or what an assistant asked."""
    if (text := _text(entry.get("subject"))) is not None:
        return text
    parts = str(entry.get("path") or "").split("/")
    if len(parts) > 3:
        return parts[3]
    address, port = entry.get("address"), entry.get("port")
    return None if address is None else f"{shown(address)[:60]}:{port}".replace("'", "")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
