"""Fuzzes every REST route of the server's own description: paths, queries, headers, bodies."""

import json
import socket
import time
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from tests.fuzz.chance import Chance, nested, rounds
from tests.fuzz.routes import Odd, Route, describe, identifiers, sweep
from tests.fuzz.target import LIMIT_SECONDS, Target, give_back

SWEPT, REQUESTS = 20, 10  # in a round, on one connection as long as it lasts
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "X")
CONTENT_TYPES = (
    "application/json", "application/json", "application/json; charset=utf-16", "text/plain", "",
    "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "a/b; c=\xe9",
)  # fmt: skip
HEADERS = (
    "Host", "Origin", "Referer", "Cookie", "Range", "Accept", "Accept-Encoding", "Content-Type",
    "X-Forwarded-For", "X-HTTP-Method-Override", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Expect",
    "Authorization", "If-None-Match", "Upgrade", "Content-Encoding", "X-Odd", "Forwarded", "Via",
)  # fmt: skip
LONGEST_HEADER = 300
MOST_ANSWER_BYTES = 1 << 20
LONGEST_WAIT_SECONDS, LONGEST_LEASE_SECONDS = 0.2, 60


class Sent(Struct, frozen=True):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    trusted: bool


def play(target: Target, seed: int, seconds: float) -> int:
    """Rounds of some requests; the server is looked after in between."""
    routes = describe(target)
    ids = identifiers(target)
    single = sweep(routes, seed)

    def one(chance: Chance, number: int) -> None:
        connection = HTTPConnection("127.0.0.1", target.served.port, timeout=LIMIT_SECONDS)
        try:
            for place in range(number * SWEPT, (number + 1) * SWEPT):
                _answer(target, connection, one_odd(single[place % len(single)], ids, target))
            for _ in range(REQUESTS):
                _answer(target, connection, request(chance, routes, ids, target))
        finally:
            connection.close()
        _malformed(target, chance, request(chance, routes, ids, target))
        give_back(target, keep=target.lease)
        if number % 5 == 0:
            target.check()

    return rounds("bodies", seed, seconds, one)


# One request.


def one_odd(odd: Odd, ids: list[str], target: Target) -> Sent:
    """All as it should be, with the token, but for one value."""
    path = odd.route.path
    for name, value in (("device", ids[0]), ("lease", target.lease), ("alert", ids[-1])):
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    path = path.replace("{silence}", "x")
    queries, body = dict(odd.route.queries), odd.route.body
    if odd.name in queries:
        queries[odd.name] = odd.value
    elif body is not None:
        body = _tamed({**body, odd.name: odd.value})
    told = {name: _told(value) for name, value in queries.items() if value is not None}
    told = {name: value for name, value in told.items() if value != str(target.fence)}
    asked = "?" + urlencode({name: _bytes(value) for name, value in told.items()}) if told else ""
    sent = None if body is None else json.dumps(body).encode()
    headers = {**target.served.bearer, "Content-Type": "application/json"}
    return Sent(odd.route.method, path + asked, headers, sent, trusted=True)


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)[:800]


def request(chance: Chance, routes: list[Route], ids: list[str], target: Target) -> Sent:
    route = chance.choices(routes, [1 if r.method == "GET" else 3 for r in routes])[0]
    trusted = chance.random() < (0.5 if route.method == "GET" else 0.8)
    headers = dict(target.served.bearer) if trusted else {}
    method = route.method if chance.random() < 0.9 else chance.choice(METHODS)
    ids = [*ids, *target.lent]
    path = _path(chance, route, ids)
    body = _body(chance, route)
    if body is not None and chance.random() < 0.85:
        headers["Content-Type"] = "application/json"
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        name = chance.choice(HEADERS)
        if not (trusted and name == "Authorization"):
            headers[name] = _header(chance, name)
    return Sent(method, path + _query(chance, route, ids, target), headers, body, trusted)


def _path(chance: Chance, route: Route, ids: list[str]) -> str:
    path = route.path
    while "{" in path:
        head, _, rest = path.partition("{")
        _, _, tail = rest.partition("}")
        value = chance.choice(ids) if chance.random() < 0.6 else chance.text()[:500]
        path = head + _quoted(value) + tail
    if chance.random() < 0.05:
        path += chance.choice(("/", "//", "/..", "/%2e%2e/%2e%2e/token", ";a=b", "%00", "/x"))
    return path


def _query(chance: Chance, route: Route, ids: list[str], target: Target) -> str:
    """With the names that the route knows; the honest lease's own number is never sent."""
    pairs = []
    fences = [str(fence) for lease, fence in target.lent.items() if lease != target.lease]
    for name in route.queries:
        if chance.random() < 0.7:
            known = fences if name == "fence" and fences else ids
            value = chance.choice(known) if chance.random() < 0.5 else str(chance.odd())[:800]
            pairs.append((name, value if value != str(target.fence) else "0"))
    if chance.random() < 0.1:
        pairs.append((chance.text()[:50], chance.text()[:50]))
    if chance.random() < 0.05:
        pairs += pairs * 20
    return "?" + urlencode([(_bytes(n), _bytes(v)) for n, v in pairs]) if pairs else ""


def _body(chance: Chance, route: Route) -> bytes | None:
    if route.body is None:
        return chance.junk(200) if chance.random() < 0.05 else None
    kind = chance.randrange(10)
    if kind < 2:
        return chance.json_bytes(_tamed(dict(route.body)))
    if kind < 5:
        return chance.json_bytes(_tamed(chance.one_field(route.body)))
    if kind < 7:
        return chance.json_bytes(_tamed(chance.changed(route.body, 0.3)))
    if kind == 7:
        return chance.spoiled(chance.json_bytes(route.body))
    if kind == 8:
        return chance.json_bytes(chance.odd())
    return chance.choice((b"", b"{", nested(4000), b"[" * 10000, chance.junk(), b"0" * 64_001))


def _tamed(body: Any) -> Any:
    """Nothing that is meant to take long: neither waiting nor a lease that outlives the test."""
    if not isinstance(body, dict):
        return body
    for name, most in (
        ("wait_seconds", LONGEST_WAIT_SECONDS), ("seconds", LONGEST_LEASE_SECONDS),
    ):  # fmt: skip
        value = body.get(name)
        if isinstance(value, int | float) and most < value <= 7 * 86400:
            body[name] = most
    return body


def _header(chance: Chance, name: str) -> str:
    if name == "Content-Type":
        return chance.choice(CONTENT_TYPES)
    if name == "Authorization":
        forms = ("Bearer", "Bearer ", "bearer x", "Basic eDp4", "Bearer " + "x" * 200, "\xe9")
        return chance.choice(forms)
    text = chance.text().encode("utf-8", "replace").decode("latin-1")
    kept = "".join(letter for letter in text if letter >= " " and letter != "\x7f")
    return kept.strip()[:LONGEST_HEADER]


def _quoted(value: str) -> str:
    return quote(_bytes(value), safe="")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


# What must hold for its answer.


def _answer(target: Target, connection: HTTPConnection, sent: Sent) -> None:
    began = time.monotonic()
    told = f"{sent.method} {sent.path[:200]} {sent.headers} {(sent.body or b'')[:300]!r}"
    try:
        answer = _asked(connection, sent)
        text = answer.read().decode("utf-8", "replace")
    except (ConnectionError, HTTPException):
        connection.close()  # a malformed request may end its connection; the next opens another
        return
    except OSError as exc:
        raise AssertionError(f"no answer to {told}: {exc}") from exc
    took = time.monotonic() - began
    assert took < LIMIT_SECONDS, f"{took:.1f} s for {told}"
    waits = answer.status == 503 and answer.getheader("Retry-After") is not None
    assert answer.status < 500 or waits, f"{answer.status} for {told}: {text[:1000]}"
    _check_text(target, sent, answer.status, answer.getheader("Content-Type") or "", text, told)


def _asked(connection: HTTPConnection, sent: Sent) -> Any:
    named = {name.lower() for name in sent.headers}
    connection.putrequest(
        sent.method, sent.path, skip_host="host" in named, skip_accept_encoding=True
    )
    for name, value in sent.headers.items():
        connection.putheader(name, value.encode("latin-1"))
    if sent.body is not None:
        connection.putheader("Content-Length", str(len(sent.body)))
    connection.endheaders(sent.body)
    return connection.getresponse()


def _check_text(target: Target, sent: Sent, status: int, kind: str, text: str, told: str) -> None:
    target.check_secrets(text, sent.trusted)
    if "json" not in kind or not text or sent.method == "HEAD":
        return
    value = json.loads(text)
    if status >= 400:
        assert {"kind", "reason", "hint"} <= set(value["error"]), f"{told}: {text[:300]}"
    if status == 201 and "fence" in value:
        target.lent[value["id"]] = value["fence"]


def _malformed(target: Target, chance: Chance, sent: Sent) -> None:
    """The same request with an accident in its bytes, and nothing after it."""
    lines = [f"{sent.method} {sent.path} HTTP/1.1", f"Host: localhost:{target.served.port}"]
    lines += [f"{name}: {value}" for name, value in sent.headers.items() if name != "Authorization"]
    whole = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + (sent.body or b"")
    answer = b""
    with socket.create_connection(("127.0.0.1", target.served.port), LIMIT_SECONDS) as connection:
        try:
            connection.sendall(chance.spoiled(whole))
            connection.shutdown(socket.SHUT_WR)
            while len(answer) < MOST_ANSWER_BYTES and (piece := connection.recv(65536)):
                answer += piece
        except ConnectionError:
            return
    text = answer.decode("utf-8", "replace")
    status = text.partition(" ")[2][:3]
    assert not status.startswith("5") or "retry-after" in text.lower(), text[:1000]
    target.check_secrets(text, trusted=False)
