"""Small replacements for Python modules that take longer to import than a supervisor runs.

`json`, `socket`, `signal` and `contextlib` are thin layers over modules in C. What they add, such
as enumerations, costs more than starting the interpreter, for each job.
"""

import sys

TYPE_CHECKING = False  # `typing` takes longer to import than the rest
if TYPE_CHECKING:
    import signal as signal
    import socket
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    encode_basestring_ascii: Callable[[str], str]
    make_encoder: Callable[..., Callable[[Any, int], tuple[str, ...]]]
    make_scanner: Callable[[object], Callable[[str, int], tuple[Any, int]]]
else:
    import _signal as signal  # noqa: F401 - for those who import it from here

    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner
    except ImportError:  # another Python than CPython
        make_scanner = make_encoder = encode_basestring_ascii = None


class suppress:  # noqa: N801 - as contextlib has it
    """Ignores exceptions of these kinds."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: "TracebackType | None"
    ) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


class _Plain:
    """The attributes that the scanner of `json` needs of a decoder."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012 - cleared by the scanner itself


def loads(content: bytes) -> "Any":
    """Parses JSON as andon writes it, which begins with its value; ValueError for anything else."""
    text = content.decode()
    try:
        value, end = make_scanner(_Plain)(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    except (AttributeError, TypeError):  # that of a later Python wants more
        import json

        return json.loads(text)
    if text[end:].strip():
        raise ValueError("more than one value")
    return value


def dumps(value: "Any") -> str:
    """Returns JSON of plain values, in ASCII, by the encoder in C that `json` uses."""
    try:
        encode = make_encoder(
            None, None, encode_basestring_ascii, None, ": ", ", ", False, False, False
        )
        return "".join(encode(value, 0))
    except TypeError:  # that of a later Python is called otherwise
        import json

        return json.dumps(value)


def dumps_within(value: "dict[str, Any]", name: str, most: int) -> bytes:
    """Returns a line of JSON; if it is too long, the text of this name is shortened."""
    data = dumps(value).encode() + b"\n"
    if len(data) > most:
        text = value[name] or ""
        spare = most - len(data) + len(dumps(text)) - 2
        data = dumps({**value, name: text[: max(0, spare // 12)]}).encode() + b"\n"
    return data


def read_most(read: "Callable[[int], bytes | None]", most: int) -> bytes:
    """Reads everything, but at most this much: another process may write as fast as it is read."""
    pieces: list[bytes] = []
    while most > 0 and (piece := read(min(most, 1 << 20))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def receive_descriptors(channel: "socket.socket", size: int, most: int) -> tuple[bytes, list[int]]:
    """Receives the first part of a message, and the descriptors that came with it."""
    import _socket as socket  # only a supervisor has one

    data, others, _, _ = channel.recvmsg(size, socket.CMSG_SPACE(most * 4))
    found: list[int] = []
    for level, kind, content in others:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            parts = (content[at : at + 4] for at in range(0, len(content) // 4 * 4, 4))
            found += [int.from_bytes(part, sys.byteorder) for part in parts]
    return data, found
