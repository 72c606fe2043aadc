"""How routes answer in JSON."""

from typing import Any

from fastapi import Response

from andon.model import wire
from andon.model.shapes import to_json


def sent(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def sent_json(value: wire.Json, status: int = 200) -> Response:
    return sent(dumped(value), status)


def shaped(value: Any) -> bytes:
    """The JSON text of a struct."""
    return dumped(to_json(value))


def dumped(value: object) -> bytes:
    """The body of an answer."""
    return wire.dumps(value).encode("utf-8", "replace")
