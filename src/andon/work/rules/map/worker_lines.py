"""The lines between a map and a long-running worker (`--worker`).

The map writes `{"index": 3, "item": "a.wav"}`, with the fields of a JSON item as `fields`; the
worker answers `{"index": 3, "ok": true, "result": …}` or `{"index": 3, "ok": false, "error": "…"}`.
Every other line is output.
"""

import json
from typing import Any

from msgspec import Struct

from andon.work.rules.map.items import MapItem

LONGEST_ANSWER = 4 * 1024 * 1024


class WorkerAnswer(Struct, frozen=True):
    """A worker's answer about one item."""

    index: int
    ok: bool
    result: Any = None
    error: str | None = None


def request_line(item: MapItem) -> bytes:
    """Returns the line that asks a worker for one item."""
    sent: dict[str, Any] = {"index": item.index, "item": item.text}
    if item.fields:
        sent["fields"] = dict(item.fields)
    return json.dumps(sent).encode() + b"\n"


def answer_of(line: bytes) -> WorkerAnswer | None:
    """Returns the answer in a line; None if it is output."""
    if not line.lstrip().startswith(b"{") or len(line) > LONGEST_ANSWER:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    index, ok = value.get("index"), value.get("ok")
    if not isinstance(index, int) or isinstance(index, bool) or not isinstance(ok, bool):
        return None
    error = value.get("error")
    reason = None if error is None else str(error)
    return WorkerAnswer(index, ok, value.get("result"), reason)
