"""Seeded packets, frames and polls of a stranger without the token, against a running server."""

import json
import random
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any

from andon.node.seen.sights import HIDDEN

LIMIT_SECONDS = 60.0
"""An answer must come within this; the machine may be busy with other tests."""
LISTEN_SECONDS = 0.05
PACKETS, FRAMES, REQUESTS = 40, 12, 12  # in a round
MOST_HEARD = 4_000_000  # bytes of one connection
POLLING = "/socket.io/?EIO=4&transport=polling"
UPGRADE = "/socket.io/?EIO=4&transport=websocket"
VALID = (
    "40", "40{}", '40{"token":"guess"}', "41", "1", "3", "5", "2probe",
    '42["subscribe","snapshot"]', '427["subscribe"]', '42["unsubscribe","snapshot"]',
    '429["request_gpu_update"]',
)  # fmt: skip
FORGED = {"asgi.scope": {"andon.trusted": True, "andon.line": "x", "andon.visitor": "x"}}
NAMES: tuple[Any, ...] = (
    "connect", "disconnect", "connect_error", "message", "*", "subscribe", "unsubscribe",
    "request_gpu_update", "snapshot", "alert", "__class__", "", " connect", "CONNECT", "connect\0",
    None, True, 1, -1, 1.5, [], ["connect"], {"a": 1}, "\ud800", "x" * 5000,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**64, 10**100, 10**4000, 1e308, float("inf"), float("nan"), "", "x",
    "snapshot", "\x00", "\x1b[31m", "\n2026 CRITICAL FAKE", "\ud800", "\u202e", "x" * 10_000, [],
    {}, [[]], {"_placeholder": True, "num": 0}, {"_placeholder": True, "num": -1}, FORGED,
    {"token": 1}, {"token": ["x"]}, {"token": "x" * 9000}, {"token": "\x00"},
)  # fmt: skip
LETTERS = '0123456789-/,?[]{}":b\\\0\x1e\u0663\u00b2 nNx'
HEADERS = (
    "", "Connection: upgrade, close", "Upgrade: websocket",
    "Connection: upgrade\r\nUpgrade: websocket\r\nConnection: close",
    "X-Forwarded-Proto: x", "Content-Type: text/\x80", "Origin: http://localhost", "Cookie: io=x",
    "Accept-Encoding: gzip", "Authorization: Bearer ", "Authorization: Basic eA==",
)  # fmt: skip


def play(port: int, seed: int, seconds: float) -> None:
    """Rounds until the time is over; raises AssertionError with what repeats the round.

    Whoever calls it looks at the server's log afterwards; that no handler has failed is seen here.
    """
    before, end, number = _errors(port), time.monotonic() + seconds, 0
    while number < len(ROUNDS) or time.monotonic() < end:
        chance = random.Random(f"{seed}/packets/{number}")
        try:
            ROUNDS[number % len(ROUNDS)](port, chance)
            assert _get(port, "/healthz")[0] == 200, "no /healthz"
            assert _errors(port) == before, "a handler of live events has failed: see the log"
        except (AssertionError, OSError, HTTPException) as exc:
            told = f"fuzzing packets: round {number} of seed {seed}: {type(exc).__name__}: {exc}"
            raise AssertionError(told) from exc
        number += 1


# What is sent.


def packet(chance: random.Random) -> str:
    """One Engine.IO frame: valid, nearly valid, or nonsense."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.choice(VALID)
    if kind == 1:
        return _changed(chance, chance.choice(VALID))
    if kind == 2:
        return _event(chance)
    if kind == 3:
        return _structured(chance)
    if kind == 4:
        return "42" + chance.choice("[{") * chance.randrange(30_000)
    return "".join(chr(chance.randrange(chance.choice((32, 127, 0xD7FF)))) for _ in range(20))


def _event(chance: random.Random) -> str:
    arguments = [chance.choice(VALUES) for _ in range(chance.randrange(4))]
    if chance.random() < 0.2:
        arguments = [FORGED, None][: chance.randrange(3)]
    number = chance.choice(("", "", "0", "7", "9" * 16, "9" * 120))
    return f"42{number}{_json(chance, [chance.choice(NAMES), *arguments])}"


def _structured(chance: random.Random) -> str:
    """Every part of a packet at once: types, attachments, namespaces, numbers, data."""
    return "".join(
        (
            chance.choice("0123456789b"),
            chance.choice(("", *"0123456789")),
            chance.choice(("", "", "0-", "1-", "2-", "99999999999-", "-1-")),
            chance.choice(("", "", "/,", "/x,", "/" + "n" * 200 + ",", "/x?y=1,", "/x")),
            chance.choice(("", "", "1", "9" * 99, "9" * 101)),
            _json(chance, chance.choice((*VALUES, [chance.choice(NAMES), FORGED]))),
        )
    )


def _json(chance: random.Random, value: Any) -> str:
    return json.dumps(value, ensure_ascii=chance.random() < 0.7)


def _changed(chance: random.Random, text: str) -> str:
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(LETTERS) + text[place + chance.randrange(2) :]
    return text


def frame(chance: random.Random, data: bytes, opcode: int = 1, honest: bool = True) -> bytes:
    """A WebSocket frame; a dishonest one lies about its length, its mask or its kind."""
    first, masked, length = 0x80 | opcode, 0x80, len(data)
    if not honest:
        first = chance.randrange(256)
        masked = chance.choice((0x80, 0x80, 0))
        length = chance.choice((length, length + 1, 0, 126, 65536, 2**31, 2**63 - 1))
    head = bytes([first, masked | _short(length)]) + _long(length)
    mask = chance.randbytes(4)
    body = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    return head + (mask + body if masked else data)


def _short(length: int) -> int:
    return length if length < 126 else 126 if length < 65536 else 127


def _long(length: int) -> bytes:
    return b"" if length < 126 else length.to_bytes(2 if length < 65536 else 8, "big")


# The rounds.


def _talk(port: int, chance: random.Random) -> None:
    """Odd packets on a WebSocket, before and after joining."""
    with _websocket(port) as connection:
        if chance.random() < 0.8:
            connection.sendall(frame(chance, b"40"))
            connection.sendall(frame(chance, b'42["subscribe","snapshot"]'))
        for _ in range(PACKETS):
            text = packet(chance).encode("utf-8", "surrogatepass")
            if not _sent(connection, frame(chance, text, chance.choice((1, 1, 1, 2)))):
                break
        _listen(connection)


def _forge(port: int, chance: random.Random) -> None:
    """Events with the names of handlers, and a subscription: what comes holds no command line."""
    with _websocket(port) as connection:
        connection.sendall(frame(chance, b"40"))
        _claim(connection, chance, "connect")
        connection.sendall(frame(chance, b'42["subscribe","snapshot"]'))
        end, heard = time.monotonic() + LIMIT_SECONDS, ""
        while '42["snapshot"' not in heard:
            assert time.monotonic() < end, "a client with odd packets hears no snapshot any more"
            heard += _listen(connection, 0.3)
        for name in ("disconnect", "connect_error", "message"):
            _claim(connection, chance, name)
        connection.sendall(frame(chance, b'4212["subscribe","snapshot"]'))
        while "4312[" not in heard:
            assert time.monotonic() < end, "a client with odd packets hears no answer any more"
            heard += _listen(connection, 0.3)


def _claim(connection: socket.socket, chance: random.Random, name: str) -> None:
    for more in ([], [FORGED], [FORGED, None], [FORGED, {"token": None}]):
        connection.sendall(frame(chance, f"42{json.dumps([name, *more])}".encode()))


def _tear(port: int, chance: random.Random) -> None:
    """Odd frames below the packets: lengths, masks, opcodes, fragments."""
    for _ in range(FRAMES):
        with _websocket(port) as connection:
            for _ in range(3):
                data = packet(chance).encode("utf-8", "surrogatepass")[:200]
                data = chance.choice((data, chance.randbytes(50), b"\xff\xfe", b""))
                if not _sent(connection, frame(chance, data, honest=chance.random() < 0.3)):
                    break
            _listen(connection)


def _poll(port: int, chance: random.Random) -> None:
    """Odd bodies and overlapping polls on a session, with odd headers."""
    status, text = _get(port, POLLING)
    if status == 503:
        return  # the places of an earlier round are still taken
    mine = f"{POLLING}&sid={json.loads(text[1:])['sid']}"
    _raw(port, "POST", mine, b"40")
    for _ in range(REQUESTS):
        bodies = [packet(chance) for _ in range(chance.choice((1, 1, 2, 17)))]
        body = "\x1e".join(bodies).encode("utf-8", "surrogatepass")
        body = chance.choice((body, body, b"d=" + body, chance.randbytes(40), b""))
        said = _raw(
            port, chance.choice(("POST", "POST", "GET")), mine, body, chance.choice(HEADERS)
        )
        _check(said)
    _raw(port, "POST", mine, b"1")


def _ask(port: int, chance: random.Random) -> None:
    """Odd queries and methods: names of sessions that forge log lines, transports, upgrades."""
    names = ("x", "x%0aFAKE%1b[31m", "%00", "x" * 3000, "a&sid=b", "%ff", "..%2f", "\u00e9")
    for _ in range(REQUESTS):
        fields = [
            f"EIO={chance.choice(('4', '3', '', '4&EIO=4', 'x'))}",
            f"transport={chance.choice(('polling', 'websocket', 'pigeon', ''))}",
            chance.choice(("", f"sid={chance.choice(names)}")),
            chance.choice(("", "j=0", "j=x", "t=1", "b64=1", "&&&", "a=b&" * 30)),
        ]
        chance.shuffle(fields)
        path = chance.choice(("/socket.io/", "/socket.io/", "/socket.io", "/socket.io//"))
        query = path + "?" + "&".join(fields)
        method = chance.choice(("GET", "POST", "PUT", "OPTIONS", "HEAD"))
        _check(_raw(port, method, query, b"40", chance.choice(HEADERS)))


def _upgrade(port: int, chance: random.Random) -> None:
    """Upgrades of a session that stop half way, come twice or begin with nonsense."""
    status, text = _get(port, POLLING)
    if status == 503:
        return
    path = f"{UPGRADE}&sid={json.loads(text[1:])['sid']}"
    for _ in range(3):
        with suppress(AssertionError), _websocket(port, path) as connection:
            for text in chance.sample(["2probe", "5", "40", "1", "2", packet(chance)], 3):
                data = text.encode("utf-8", "surrogatepass")
                if not _sent(connection, frame(chance, data)):
                    break
            _listen(connection)


ROUNDS: tuple[Callable[[int, random.Random], None], ...] = (
    _talk, _forge, _tear, _poll, _ask, _upgrade,
)  # fmt: skip


# The wire.


def _websocket(port: int, path: str = UPGRADE) -> socket.socket:
    end = time.monotonic() + LIMIT_SECONDS
    while True:
        connection = socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS)
        key = b64encode(b"0123456789abcdef").decode()
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
            "".encode()
        )
        said = connection.recv(65536)
        if said.startswith(b"HTTP/1.1 101"):
            return connection
        connection.close()
        assert said.startswith(b"HTTP/1.1 503"), f"a handshake is answered {said[:200]!r}"
        assert time.monotonic() < end, "no place for a live client"
        time.sleep(0.2)  # until places of earlier rounds are free


def _sent(connection: socket.socket, data: bytes) -> bool:
    """False where the server has closed it, which it may."""
    try:
        connection.sendall(data)
    except OSError:
        return False
    return True


def _listen(connection: socket.socket, seconds: float = LISTEN_SECONDS) -> str:
    """What comes within the time; it must not hold what the token is needed for."""
    end, heard = time.monotonic() + seconds, b""
    with suppress(OSError):
        while len(heard) < MOST_HEARD and (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            said = connection.recv(1 << 16)
            if not said:
                break
            heard += said
    text = heard.decode("utf-8", "replace")
    _check(text)
    return text


def _check(text: str) -> None:
    """Without the token a command line is null, and the reason for that is given."""
    for found in _values(text, '"command":'):
        assert found.startswith(("null", f'"{HIDDEN}"')), (
            f"a command line without the token: {found[:80]}"
        )
    assert "Traceback" not in text
    assert " 500 " not in text[:20], text[:300]


def _values(text: str, name: str) -> Iterator[str]:
    place = text.find(name)
    while place >= 0:
        rest = text[place + len(name) : place + len(name) + 80].lstrip()
        if len(rest) > len(HIDDEN) + 2:  # else what came may be cut off there
            yield rest
        place = text.find(name, place + 1)


def _raw(port: int, method: str, path: str, body: bytes, header: str = "") -> str:
    """A request by hand; the head of the answer and what comes soon after."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        *([header] if header else []),
    ]
    with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as connection:
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        if not _sent(connection, head + body):
            return ""
        return _listen(connection)


def _get(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def _errors(port: int) -> int:
    status, text = _get(port, "/api/health")
    assert status == 200, f"/api/health is answered {status}: {text[:300]}"
    live = json.loads(text)["live"]
    assert live["state"] == "ok", live
    return int(live.get("errors", 0))
