"""Requests to an andon server: the only module that sends a token, and only after a proof.

A server proves that it knows the token (`access/server_proof`), and the token is then sent
on that same connection. No redirect is followed, no proxy is used and nothing is unpacked; one time
limit holds for the whole exchange, and one size limit for the answer.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import closing
from enum import StrEnum
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from andon.access import server_proof
from andon.access.server_proof import Peer
from andon.errors import Denied, Unavailable
from andon.host.port_listeners import listeners, trusted_listener
from andon.host.users import user_name
from andon.node.connection import FAILURES, ConnectionPool, TimedConnection, left

PROOF_BYTES = 4096
PIECE_BYTES = 1 << 16


class Trust(StrEnum):
    """What a server must prove before it is trusted; it depends on how it was found."""

    NAMED = "named"  # by the user: nothing; the token is sent only after a proof
    PROVEN = "proven"  # in this user's own file: that it knows the token
    SERVICE = "service"  # on the usual port: this user or the system must listen there


class Token(Struct, frozen=True):
    """A secret, and whether it is this user's own or was named for this server."""

    text: str
    own: bool = True


class Target(Struct, frozen=True):
    """A server, how it was found, and the token that may be meant for it."""

    url: str
    trust: Trust = Trust.NAMED
    token: Token | None = None


class CallLimits(NamedTuple):
    """Time and size limits of an exchange; the time includes connecting and the server's proof."""

    timeout_seconds: float
    most_bytes: int

    @property
    def deadline(self) -> float:
        """Returns the deadline on the monotonic clock, if the exchange begins now."""
        return time.monotonic() + self.timeout_seconds

    def until(self, deadline: float) -> "CallLimits":
        """Returns limits for the rest of the same exchange: the time that is left."""
        return self._replace(timeout_seconds=left(deadline))


class SentRequest(NamedTuple):
    """A request, without the token."""

    method: str
    path: str
    body: bytes | None = None
    sink: Callable[[bytes], object] | None = None  # takes the body of a good answer in pieces


class TooLarge(ValueError):
    """An answer beyond its size limit."""


class Answer(NamedTuple):
    """The response; `doubt` says why the available token was not sent."""

    status: int
    body: bytes
    doubt: str | None = None
    headers: Mapping[str, str] = {}
    """Headers by name, in lower case."""


def call(
    target: Target, request: SentRequest, limits: CallLimits, pool: "ProvenPool | None" = None
) -> Answer:
    """Make one request, with the token if the server has proved that it knows it; a GET
    on a connection of the `pool`.

    Raises Denied if a required proof fails, or one for a server whose token was given explicitly;
    Unavailable if it should be the system's server and another user listens there.
    """

    def use(connection: ProvenConnection) -> Answer:
        found = _exchange(connection, target, request, limits, connection.key)
        return found._replace(doubt=connection.doubt)

    if pool is not None and request.method == "GET" and request.sink is None:
        return pool.exchange(limits.deadline, use)[0]
    with closing(_proven(target, limits.deadline)) as connection:
        return use(connection)


class ProvenConnection(TimedConnection):
    """Has the header with the token, if the server has proved that it knows the token."""

    key: Mapping[str, str] = {}
    """The header with the token."""
    doubt: str | None = None
    """Why the token is not sent."""


ProvenPool = ConnectionPool[ProvenConnection]


def connection_pool(target: Target) -> ProvenPool:
    return ConnectionPool(lambda deadline: _proven(target, deadline))


def _proven(target: Target, deadline: float) -> ProvenConnection:
    doubt = None
    if target.token is not None:
        connection = _connect(target, deadline)
        try:
            doubt = _doubt(connection, target, target.token)
        except BaseException:
            connection.close()
            raise
        if doubt is None:
            connection.key = {"Authorization": f"Bearer {target.token.text}"}
            return connection
        connection.close()
    named = target.trust is Trust.NAMED and target.token is not None and not target.token.own
    if named or target.trust is Trust.PROVEN:
        raise Denied(
            f"the token was not sent to {target.url}: {doubt or 'no token is available'}",
            hint="check the token and the server address",
        )
    connection = _connect(target, deadline)
    connection.doubt = doubt
    return connection


def call_and_peer(target: Target, request: SentRequest, limits: CallLimits) -> tuple[Answer, Peer]:
    """Sends one request without a key; returns the answer, and who listens there as far as this
    machine knows."""
    with closing(_connect(target, limits.deadline)) as connection:
        peer = _peer(connection.sock, False)
        return _exchange(connection, target, request, limits), peer


def call_as(
    url: str, secret: str | None, uid: int, request: SentRequest, limits: CallLimits
) -> Answer:
    """Sends a request with a session's secret, or a code in its body, to this user's server."""
    target = Target(url)
    with closing(_connect(target, limits.deadline)) as connection:
        if set(_peer(connection.sock, False).listeners) != {uid}:
            raise Denied(f"{url} now belongs to another user", hint="check the server's address")
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        return _exchange(connection, target, request, limits, headers)


def users_at(url: str, timeout_seconds: float) -> Set[int] | None:
    """Returns the users who listen at a URL of this machine, as far as known; None if none does."""
    place = urlsplit(url)
    try:
        with socket.create_connection((place.hostname or "", _port(place)), timeout_seconds) as one:
            return _peer(one, False).listeners
    except FAILURES:
        return None


def names_of(users: Set[int]) -> str:
    return ", ".join(f"{user_name(uid)} (uid {uid})" for uid in sorted(users))


def _connect(target: Target, deadline: float) -> ProvenConnection:
    """Connects; raises Unavailable if another user's process listens at the system's address."""
    place = urlsplit(target.url)
    encrypted = place.scheme == "https"
    connection = ProvenConnection(place.hostname or "", _port(place), deadline, encrypted)
    connection.connect()
    # The proof is valid for this connection: only with TLS, which verifies again, may it reconnect.
    connection.auto_open = int(encrypted)
    if target.trust is Trust.SERVICE:
        peer = _peer(connection.sock, False)
        if not trusted_listener(peer.address, peer.port, _uid()):
            connection.close()
            raise Unavailable(f"{target.url} is neither this user's server nor the system's")
    return connection


def _doubt(connection: TimedConnection, target: Target, token: Token) -> str | None:
    """Returns why the token must not be sent on this connection; None if it may be."""
    peer = _peer(connection.sock, connection.encrypted)
    if token.own and server_proof.is_foreign(peer.listeners, _uid()):
        return f"{names_of(peer.listeners)} owns that port"
    nonce = secrets.token_bytes(server_proof.NONCE_BYTES)
    try:
        question = f"{server_proof.PATH}?nonce={nonce.hex()}"
        if not token.own and len(token.text) > server_proof.GUESSED_CHARACTERS:
            question += f"&key={server_proof.hint_of(server_proof.token_hash(token.text))}"
        connection.request("GET", _path(target, question), headers=_ACCEPT)
        answer = connection.getresponse()
        content = answer.read(PROOF_BYTES)
        if answer.status == Unavailable.http_status:
            raise Unavailable(f"{target.url} cannot check tokens now", hint="try again soon")
        if answer.status != 200:
            return f"it answered {answer.status} when asked to prove that it knows the token"
        reply = json.loads(content) if answer.isclosed() else None
    except (HTTPException, ValueError, RecursionError):
        reply = None
    statement = server_proof.parse_statement(reply)
    return server_proof.doubt(statement, token.text, nonce, peer, _uid())


def _exchange(
    connection: TimedConnection,
    target: Target,
    request: SentRequest,
    limits: CallLimits,
    headers: Mapping[str, str] = {},
) -> Answer:
    typed = {} if request.body is None else {"Content-Type": "application/json"}
    path = _path(target, request.path)
    connection.request(request.method, path, request.body, {**_ACCEPT, **typed, **headers})
    with closing(connection.getresponse()) as answer:  # it may keep the socket open
        named_headers = {name.lower(): value for name, value in answer.getheaders()}
        pieces = _pieces(answer, limits.most_bytes)
        if request.sink is None or answer.status != 200:
            return Answer(answer.status, b"".join(pieces), headers=named_headers)
        for piece in pieces:
            request.sink(piece)
        return Answer(answer.status, b"", headers=named_headers)


def _pieces(answer: HTTPResponse, most_bytes: int) -> Iterator[bytes]:
    """Yields the body; raises TooLarge beyond `most_bytes`, and TimeoutError when time is over."""
    size = 0
    while piece := answer.read1(PIECE_BYTES):
        size += len(piece)
        if size > most_bytes:
            raise TooLarge(f"its answer is larger than {most_bytes} bytes")
        yield piece


def _peer(connection: socket.socket, encrypted: bool) -> Peer:
    """Returns who listens; known only for ports of this machine."""
    address, port = connection.getpeername()[:2]
    peer = Peer(address, port, encrypted)
    if peer.is_local or address == connection.getsockname()[0]:
        return Peer(address, port, encrypted, listeners(address, port))
    return peer


def _path(target: Target, path: str) -> str:
    """Returns the path below the URL's own path, which a proxy may have added."""
    return urlsplit(target.url).path.rstrip("/") + path


def _port(place: SplitResult) -> int:
    return place.port or (443 if place.scheme == "https" else 80)


def _uid() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else -1


_ACCEPT = {"Accept": "application/json"}
