"""What a live client may send, checked before the Socket.IO library sees it.

Engine.IO frames: close, pong, message, and for an upgrade the probe and its end. Messages: join,
leave, and the events below with at most one argument. There is one namespace and no binary data.
"""

import json
import logging
import re
from collections.abc import Awaitable
from enum import StrEnum
from typing import Any, NoReturn

from msgspec import Struct

EVENTS = frozenset({"request_gpu_update", "subscribe", "unsubscribe"})
RESERVED = frozenset({"connect", "connect_error", "disconnect", "disconnecting", "message", "*"})
"""Names of the libraries' own events, whose handlers no client may call."""
MAX_MESSAGE_BYTES = 64_000  # clients send little
MOST_FRAMES = 16  # in one request
MOST_ARGUMENTS = 1
_SEPARATOR = "\x1e"
_CLOSE, _PONG = "1", "3"
_POLLING = frozenset({_CLOSE, _PONG})
_WEBSOCKET = _POLLING | {"2probe", "5"}  # and what an upgrade needs
_MOST_DIGITS = 20
_MESSAGE = re.compile(r"4(?P<kind>[0-9])(?P<number>[0-9]{0,15})(?P<data>[^0-9].*)?", re.DOTALL)
_JOIN, _LEAVE, _EVENT = "0", "1", "2"


class MalformedFrame(StrEnum):
    """Why a frame is refused; also its kind in the log."""

    SIZE = "too large"
    BINARY = "binary data"
    FRAME = "unexpected frame type"
    PACKET = "unexpected packet type"
    NAMESPACE = "namespace not allowed"
    JSON = "malformed JSON"
    RESERVED = "reserved event name"
    EVENT = "unknown event"
    ARGUMENTS = "too many arguments"
    COUNT = "too many frames at once"
    TEXT = "invalid UTF-8"


def check_frame(frame: object) -> MalformedFrame | None:
    """What is wrong with a WebSocket frame; None if it is valid."""
    return MalformedFrame.BINARY if not isinstance(frame, str) else _check(frame, _WEBSOCKET)


def check_body(body: bytes) -> list[MalformedFrame]:
    """What is wrong with the body of a polling request; an empty list if it is valid."""
    if len(body) > MAX_MESSAGE_BYTES:
        return [MalformedFrame.SIZE]
    try:
        frames = body.decode("utf-8").split(_SEPARATOR)
    except UnicodeDecodeError:
        return [MalformedFrame.TEXT]
    if len(frames) > MOST_FRAMES:
        return [MalformedFrame.COUNT]
    if _CLOSE in frames[:-1]:
        return [MalformedFrame.FRAME]  # nothing follows it
    found = (_check(frame, _POLLING) for frame in frames)
    return [one for one in found if one is not None]


def _check(frame: str, bare: frozenset[str]) -> MalformedFrame | None:
    if len(frame) > MAX_MESSAGE_BYTES:
        return MalformedFrame.SIZE
    if frame in bare:
        return None
    if frame[:1] != "4":
        return MalformedFrame.BINARY if frame[:1] == "b" else MalformedFrame.FRAME
    found = _MESSAGE.fullmatch(frame)
    return MalformedFrame.PACKET if found is None else _check_message(**found.groupdict())


def _check_message(kind: str, number: str, data: str | None) -> MalformedFrame | None:
    if kind not in (_JOIN, _LEAVE, _EVENT) or (number and kind != _EVENT):
        return MalformedFrame.PACKET
    if data is not None and data[0] in "/?":
        return MalformedFrame.NAMESPACE
    if kind == _EVENT:
        return _check_event(data)
    if data is None:
        return None
    return MalformedFrame.PACKET if kind == _LEAVE or not _parsed(data) else None


def _check_event(data: str | None) -> MalformedFrame | None:
    if data is None:
        return MalformedFrame.PACKET
    parsed = _parsed(data)
    if not parsed:
        return MalformedFrame.JSON
    event = parsed[0]
    if not isinstance(event, list) or not event or not isinstance(event[0], str):
        return MalformedFrame.PACKET
    if event[0] not in EVENTS:
        return MalformedFrame.RESERVED if event[0] in RESERVED else MalformedFrame.EVENT
    return MalformedFrame.ARGUMENTS if len(event) > 1 + MOST_ARGUMENTS else None


def _parsed(data: str) -> list[Any]:
    """Parses JSON; returns the value in a list, or an empty list if malformed. At least as
    strict as the library."""
    try:
        return [json.loads(data, parse_int=_whole, parse_constant=_constant)]
    except (ValueError, RecursionError):
        return []


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


# Counters for live events: dropped and refused clients, malformed packets, errors.

log = logging.getLogger("andon.web.live.events")


class LiveTally(Struct):
    """Counts since the server started, shown by /api/health."""

    dropped: int = 0  # clients that read too slowly
    refused: int = 0  # handshakes beyond the limit
    malformed: int = 0  # packets
    errors: int = 0  # unexpected: bugs of ours or of the library

    def drop(self) -> None:
        self.dropped += 1
        log.warning("disconnected a live client that reads too slowly")

    def refuse(self) -> None:
        self.refused += 1
        log.warning("refused a live client: the limit, or the limit without a token, is reached")

    def ignore(self, wrong: MalformedFrame) -> None:
        self.malformed += 1
        log.warning("ignored a frame from a live client: %s", wrong, extra={"kind": str(wrong)})

    async def tried(self, what: str, work: Awaitable[None]) -> bool:
        """Runs the work; returns whether it succeeded. A failure is counted and logged."""
        try:
            await work
        except Exception:
            self.errors += 1
            log.exception("live events: %s failed", what, extra={"kind": what})
            return False
        return True
