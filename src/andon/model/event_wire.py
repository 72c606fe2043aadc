"""JSON of device events, as a reader process sends them."""

from typing import Any

from msgspec.structs import asdict

from andon.model.alert import Event, EventKind, Party
from andon.model.json_fields import (
    MOST_PID,
    NAME,
    Wrong,
    choice_in,
    each_in,
    shown,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    time_in,
    whole_in,
)

MOST_PIDS = 4096


def event_to_json(event: Event) -> dict[str, Any]:
    """For the reader's messages; a server publishes events as alerts."""
    return asdict(event)


def event_from_json(value: dict[str, Any]) -> Event:
    """Read what `event_to_json` wrote; raises Wrong for an invalid field."""
    return Event(
        kind=choice_in(value, "kind", EventKind),
        uuid=some_text_in(value, "uuid", NAME),
        at=time_in(value, "at"),
        code=some_whole_in(value, "code"),
        detail=text_in(value, "detail"),
        source=text_in(value, "source", NAME),
        pids=_pids(value),
        who=tuple(each_in(value, "who", _party)),
        pci=some_text_in(value, "pci", NAME),
    )


def _pids(value: dict[str, Any]) -> tuple[int, ...]:
    found = value.get("pids")
    if not isinstance(found, (list, tuple)) or len(found) > MOST_PIDS:
        raise Wrong("pids", f"is {shown(found)}, not a list of processes")
    return tuple(whole_in({"pids": pid}, "pids", MOST_PID) for pid in found)


def _party(value: dict[str, Any]) -> Party:
    return Party(
        pid=whole_in(value, "pid", MOST_PID),
        user=some_text_in(value, "user", NAME),
        name=some_text_in(value, "name", NAME),
        command=some_text_in(value, "command"),
        started=some_time_in(value, "started"),
    )
