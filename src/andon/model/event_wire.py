"""How a reader process says what its devices reported by themselves."""

from dataclasses import asdict
from typing import Any

from andon.model.alert import Event, EventKind, Party


def event_to_json(event: Event) -> dict[str, Any]:
    """For the reader's own line; what a server tells of an event is an alert."""
    return asdict(event)


def event_from_json(value: dict[str, Any]) -> Event:
    """What `event_to_json` wrote. A reader is trusted."""
    known = dict(value)
    return Event(
        kind=EventKind(known.pop("kind")),
        pids=tuple(known.pop("pids")),
        who=tuple(Party(**party) for party in known.pop("who")),
        **known,
    )
