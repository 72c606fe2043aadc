"""Makes one gRPC call without arguments by hand: the bytes to send, and the message in the answer.

The call has a connection of its own, so the first whole message is its answer and headers are not
read. The usual library keeps threads awake and 15 MB in memory for the same.
"""

from struct import pack
from typing import Final

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _WINDOW = 0, 1, 3, 4, 8
_END_STREAM, _END_HEADERS, _PADDED = 1, 4, 8
_HEAD, _PREFIX = 9, 5
_LARGEST_FRAME, _USUAL_WINDOW, _LARGEST_WINDOW = 1 << 14, (1 << 16) - 1, (1 << 31) - 1


def call_of(method: str) -> bytes:
    """Returns all that is sent to call a method such as `/v1.PodResourcesLister/List`."""
    headers = b"\x83\x86"  # POST and http, by their numbers in the table of usual headers
    headers += _header(b"\x04", method) + _header(b"\x01", "localhost")
    headers += _header(b"\x0f\x10", "application/grpc") + _header(b"\x00\x02te", "trailers")
    return b"".join((
        _PREFACE,
        _frame(_SETTINGS, 0, 0, pack(">HI", 4, _LARGEST_WINDOW)),  # all may come without asking
        _frame(_WINDOW, 0, 0, pack(">I", _LARGEST_WINDOW - _USUAL_WINDOW)),
        _frame(_HEADERS, _END_HEADERS, 1, headers),
        _frame(_DATA, _END_STREAM, 1, bytes(_PREFIX)),
    ))  # fmt: skip


def _header(name: bytes, value: str) -> bytes:
    return name + bytes([len(value)]) + value.encode()


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


def message_in(received: bytes | bytearray) -> bytes | None:
    """Returns the message, or None while it is incomplete; ValueError if none will come."""
    at, message, is_over = 0, bytearray(), False
    while at + _HEAD <= len(received):
        size, kind, flags = (
            int.from_bytes(received[at : at + 3]),
            received[at + 3],
            received[at + 4],
        )
        at += _HEAD
        if size > _LARGEST_FRAME or (kind == _DATA and flags & _PADDED):
            raise ValueError("it is no gRPC")
        if at + size > len(received):
            break
        if kind == _DATA:
            message += received[at : at + size]
        is_over |= kind == _RESET or (kind in (_DATA, _HEADERS) and bool(flags & _END_STREAM))
        at += size
    if message and message[0]:
        raise ValueError("it is compressed")
    end = _PREFIX + int.from_bytes(message[1:_PREFIX])
    if end <= len(message):
        return bytes(message[_PREFIX:end])
    if is_over:
        raise ValueError("the call is refused")
    return None
