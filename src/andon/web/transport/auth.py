"""The gate: one ASGI layer in front of everything: REST, pages, polling and WebSockets."""

import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from andon.access.gate import (
    EXCHANGE,
    FULL,
    FULL_SECONDS,
    LIVE,
    AccessRequest,
    Refusal,
    Rules,
    ShownKey,
    allowed_origin,
    changes,
    is_estimate,
    is_loopback,
    is_open,
    is_proxy_header,
    judge,
    may_read,
)
from andon.access.lockout import Lockout
from andon.access.proxies import GROUPS_HEADER, USER_HEADER, proxied
from andon.access.roles import ANONYMOUS, Identity, action_of
from andon.access.server_proof import PATH as PROOF
from andon.errors import AndonError
from andon.failures.rules.repeats import RepeatLimiter
from andon.web.answers.problems import UNEXPECTED, ProblemFormatter, problem, problem_of
from andon.web.transport.audit import Audit
from andon.web.transport.headers import (
    NO_STORE,
    SECURITY_HEADERS,
    App,
    Message,
    Receive,
    Scope,
    Send,
    answer_preflight,
    is_preflight,
    read_body,
    send_json,
    shared_with,
    texts,
    with_headers,
)
from andon.web.transport.keys import Keys
from andon.web.transport.local_calls import KNOWN
from andon.web.transport.places import SEAT, Seat

ALWAYS = frozenset({"/healthz", PROOF})
"""Answered even when all connections are in use: owners of a token request the proof first."""
TRUSTED = "andon.trusted"
"""The key in an ASGI scope for whether the caller sent a valid key."""
CALLER = "andon.caller"
"""The key in an ASGI scope for who the caller is."""
READS = "andon.reads"
"""The key in an ASGI scope for whether the caller may see readings."""
NOTES = "andon.notes"
"""The key in an ASGI scope for what the audit log adds to a change's result."""
MAX_BODY_BYTES = 64_000
MAX_CONFIG_BYTES = 1024 * 1024


class GateConfig(Struct, frozen=True):
    """What the gate's decisions depend on."""

    rules: Rules
    keys: Keys
    audit: Audit
    lockout: Lockout
    is_admitted: Callable[[str], bool] = lambda _connection: False
    clock: Callable[[], float] = time.monotonic


def caller_of(scope: Scope) -> Identity:
    """Who sent a request that the gate has admitted."""
    found: Identity = scope.get(CALLER, ANONYMOUS)
    return found


def add_notes(scope: Scope, **facts: object) -> None:
    """Add details to the audit log's line about this request."""
    scope.get(NOTES, {}).update(facts)


class Gate:
    """Admits or refuses requests, marks trusted callers, and logs requested changes."""

    def __init__(self, app: App, config: GateConfig) -> None:
        self._app, self._config = app, config
        self._lockout, self._guesses = config.lockout, RepeatLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answered(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._judged(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; errors behind the gate have the same format as every other error."""
        shaped = ProblemFormatter(send)
        try:
            await self._judged(scope, receive, shaped)
        except Exception:
            if not shaped.begun:
                await send_json(_guarded(send), 500, problem(500, *UNEXPECTED))
            raise

    async def _judged(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._call(scope)
        origin = allowed_origin(call, self._config.rules)
        guarded = _guarded(send) if origin is None else shared_with(origin, send)
        most = MAX_CONFIG_BYTES if is_estimate(call.path) else MAX_BODY_BYTES
        refusal = judge(call, self._config.rules) or _too_large(scope["headers"], most)
        if _is_exchange(call) and refusal is None:
            call, receive = await self._with_code(call, receive)
        waiting = self._waiting(call)
        if waiting:
            await refuse(scope, receive, guarded, _TOO_OFTEN, waiting)
            return
        if origin is not None and is_preflight(call.method, scope["headers"]):
            await answer_preflight(guarded, scope["headers"])
            return
        if refusal is not None:
            await self._turn_down(call, scope, receive, guarded, refusal)
            return
        scope[TRUSTED], scope[CALLER] = call.key.is_right, call.who
        scope[READS] = may_read(call, self._config.rules)
        if not _seated(call, scope):
            await refuse(scope, receive, guarded, FULL, FULL_SECONDS)
            return
        await self._pass(call, scope, receive, guarded)

    async def _turn_down(
        self, call: AccessRequest, scope: Scope, receive: Receive, send: Send, refusal: Refusal
    ) -> None:
        if call.key is ShownKey.WRONG:
            self._lockout.failed(call.peer, self._config.clock())
        elif refusal.status == 403 and call.key.is_right and changes(call):
            await self._note_refusal(call)
        waiting = FULL_SECONDS if refusal.status == 503 else 0.0
        await refuse(scope, receive, send, refusal, waiting)

    def _call(self, scope: Scope) -> AccessRequest:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        websocket = scope["type"] == "websocket"
        if KNOWN in scope:  # a user of this machine at the local socket is as if signed in
            key, who = ShownKey.SESSION, scope[KNOWN]
        else:
            key, who = self._config.keys.identify(shown_key(headers))
        peer = (scope.get("client") or (None,))[0]
        if key is ShownKey.NONE and self._config.rules.proxy is not None:
            named = texts(headers, USER_HEADER), texts(headers, GROUPS_HEADER)
            person = proxied(self._config.rules.proxy, peer, *named)
            key, who = (key, who) if person is None else (ShownKey.PROXY, person)
        site, mode = (texts(headers, name) for name in (b"sec-fetch-site", b"sec-fetch-mode"))
        return AccessRequest(
            method="GET" if websocket else scope["method"],
            path=scope["path"],
            hosts=texts(headers, b"host"),
            peer=peer,
            origins=texts(headers, b"origin"),
            fetch_site=site[0] if site else None,
            fetch_mode=mode[0] if mode else None,
            forwarded=any(is_proxy_header(name.decode("latin-1")) for name, _ in headers),
            admitted=self._is_admitted(scope),
            key=key,
            who=who,
        )

    def _is_admitted(self, scope: Scope) -> bool:
        """Whether a live connection is known: browsers cannot send a key with a WebSocket, and a
        client that knows the connection's secret id received it in answer to a valid key."""
        if not scope["path"].startswith(LIVE):
            return False
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("sid", [])
        return len(given) == 1 and self._config.is_admitted(given[0])

    def _waiting(self, call: AccessRequest) -> float:
        """Returns the delay before a request is answered. On loopback a valid key is never
        delayed: otherwise any user could lock out the owner.

        Guessing is hopeless anyway (the token has 256 bits); the delay limits the noise.
        """
        waiting = self._lockout.wait_seconds(call.peer, self._config.clock())
        if call.path in ALWAYS or (is_loopback(call.peer) and not _guesses(call)):
            return 0.0
        return waiting

    async def _with_code(
        self, call: AccessRequest, receive: Receive
    ) -> tuple[AccessRequest, Receive]:
        """Reads the one-time code from the body. A valid one is a key: it is never delayed."""
        body, receive = await _read(receive)
        who = self._config.keys.code_owner(_code(body)) if call.key is ShownKey.NONE else None
        return (call if who is None else replace(call, key=ShownKey.CODE, who=who)), receive

    async def _pass(self, call: AccessRequest, scope: Scope, receive: Receive, send: Send) -> None:
        if not is_open(call) or call.path == "/":
            send = with_headers(send, (NO_STORE,))
        if call.method == "HEAD" and not call.path.startswith(LIVE):
            scope = {**scope, "method": "GET"}  # the server itself leaves the body out
        if not changes(call):
            await self._app(scope, receive, send)
            return
        if _guesses(call):
            await self._note_guess(call)
            await self._app(scope, receive, send)
            return
        number = secrets.token_hex(4)
        try:
            await self._config.audit.record("requested", id=number, **_facts(call))
        except AndonError as error:
            await send_json(send, error.http_status, problem_of(error))
            return
        notes: dict[str, object] = {}
        scope[NOTES] = notes
        await self._app(scope, receive, self._noting(number, notes, send))

    async def _note_guess(self, call: AccessRequest) -> None:
        """Counts a wrong code as a wrong key. Anyone can send one and it changes nothing, so it
        is logged once a minute, with a count."""
        now = self._config.clock()
        self._lockout.failed(call.peer, now)
        count = self._guesses.happened("code", now)
        if count is not None:
            with suppress(AndonError):
                await self._config.audit.record("wrong_code", peer=call.peer, count=count)

    async def _note_refusal(self, call: AccessRequest) -> None:
        """Logs that a known caller was refused: once a minute for each person and action."""
        action = action_of(call.method, call.path)
        count = self._guesses.happened((call.who, action), self._config.clock())
        if count is not None:
            with suppress(AndonError):
                await self._config.audit.record("refused", count=count, **_facts(call))

    def _noting(self, number: str, notes: dict[str, object], send: Send) -> Send:
        """Returns a send function that logs the result of a change."""

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                with suppress(AndonError):  # the request itself has been logged
                    status = message["status"]
                    await self._config.audit.record("done", id=number, status=status, **notes)
            await send(message)

        return noting


_TOO_OFTEN = Refusal(
    429, "too many wrong tokens from this address", "wait, then use the correct one"
)


def _facts(call: AccessRequest) -> dict[str, object]:
    """Returns the audit log's facts of a request: who, from where, and what."""
    return {
        "user": call.who.user,
        "uid": call.who.uid,
        "action": str(action_of(call.method, call.path)),
        "method": call.method,
        "path": call.path[:200],
        "peer": call.peer,
        "key": str(call.key),
    }


def _is_exchange(call: AccessRequest) -> bool:
    return (call.method, call.path) == EXCHANGE


def _guesses(call: AccessRequest) -> bool:
    return call.key is ShownKey.WRONG or (_is_exchange(call) and call.key is ShownKey.NONE)


async def _read(receive: Receive) -> tuple[bytes, Receive]:
    """Reads a body whose size was checked; also returns a way to read it again."""
    body = await read_body(receive)
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    if body is None:
        left = [{"type": "http.disconnect"}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return body or b"", again


def _code(body: bytes) -> str:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    code = given.get("code") if isinstance(given, dict) else None
    return code if isinstance(code, str) else ""


def _seated(call: AccessRequest, scope: Scope) -> bool:
    """Whether the connection's request may be served now; paths in ALWAYS always are."""
    seat: Seat | None = (scope.get("state") or {}).get(SEAT)
    if seat is None or call.path in ALWAYS:
        return True
    return seat.work(call.key.is_right, live=call.path.startswith(LIVE))


def _too_large(headers: list[tuple[bytes, bytes]], most: int) -> Refusal | None:
    """Refuses a body that is too large before it is read: it is held in memory."""
    if texts(headers, b"transfer-encoding"):
        return Refusal(411, "the length of the body is missing", "send Content-Length")
    sizes = texts(headers, b"content-length")
    if any(len(size) > 9 or not size.isdecimal() or int(size) > most for size in sizes):
        return Refusal(413, "the request body is too large", f"the maximum is {most} bytes")
    return None


async def refuse(
    scope: Scope, receive: Receive, send: Send, refusal: Refusal, wait_seconds: float = 0.0
) -> None:
    """Sends the same refusal to a request and to a WebSocket handshake."""
    more: list[tuple[bytes, bytes]] = []
    if refusal.status == 401:
        more.append((b"www-authenticate", b'Bearer realm="andon"'))
    if wait_seconds:
        more.append((b"retry-after", str(int(wait_seconds) + 1).encode()))
    body = problem(refusal.status, refusal.reason, refusal.hint)
    if scope["type"] == "http":
        await send_json(send, refusal.status, body, more)
        return
    await receive()  # websocket.connect
    if "websocket.http.response" in (scope.get("extensions") or {}):
        await send_json(send, refusal.status, body, more, "websocket.http.response")
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.reason})


def _guarded(send: Send) -> Send:
    return with_headers(send, SECURITY_HEADERS)


def shown_key(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The bearer token; another scheme or two headers count as a wrong key, not as none."""
    authorization = texts(headers, b"authorization")
    if not authorization:
        return None
    scheme, _, secret = authorization[0].partition(" ")
    if len(authorization) > 1 or scheme.lower() != "bearer":
        return ""
    return secret.strip()
