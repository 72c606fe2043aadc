"""JSON of device events, as a reader process sends them."""

from typing import Any

from msgspec import to_builtins

from andon.model.alert import Event
from andon.model.codec import read


def event_to_json(event: Event) -> dict[str, Any]:
    """For the reader's messages; a server publishes events as alerts."""
    found: dict[str, Any] = to_builtins(event)
    return found


def event_from_json(value: dict[str, Any]) -> Event:
    """Read what `event_to_json` wrote; raises Wrong for an invalid field."""
    return read(Event, value)
