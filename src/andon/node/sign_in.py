"""Signs this user in with a server on this machine that another user may run, by its local socket.

The socket's name comes from the server's port. Both ends must belong to the same user: the kernel
says who listens on the port (/proc/net/tcp) and on the socket (SO_PEERCRED). The code is sent only
to the address that the server itself gives over the socket.
"""

import _socket
import json
import os
import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from andon.access.gate import SESSION
from andon.access.sign_in import (
    LARGEST_BYTES,
    SignInAnswer,
    announced_ports,
    answer_doubt,
    is_socket_name,
    parse_answer,
    socket_doubt,
)
from andon.errors import AndonError, Denied, Unavailable
from andon.host.port_listeners import SYSTEM_UIDS, listeners
from andon.host.socket_peers import connect, is_known, peer_uid
from andon.host.users import user_name
from andon.node.calls import (
    Answer,
    CallLimits,
    SentRequest,
    Target,
    call_and_peer,
    call_as,
)
from andon.node.connection import FAILURES, left
from andon.units import sh

MOST_NAMED = 5
UNIX_SOCKETS = Path("/proc/net/unix")
LARGEST_TABLE = 4 << 20


class NoLocalSignIn(Denied):
    """The server is on another machine, or offers no sign-in for this machine's users."""


class LocalSession(Struct, frozen=True):
    """A short session of a command, as this user."""

    url: str
    secret: str
    uid: int

    def call(self, request: SentRequest, limits: CallLimits) -> Answer:
        return call_as(self.url, self.secret, self.uid, request, limits)

    def end(self, limits: CallLimits) -> None:
        with suppress(AndonError, *FAILURES):  # it ends by itself soon
            self.call(SentRequest("DELETE", SESSION), limits)


def request_code(url: str, limits: CallLimits) -> tuple[SignInAnswer, int]:
    """Requests a one-time code for this user; also returns the uid that runs the server.

    Raises NoLocalSignIn if there is none, Denied if something is wrong with it, and the errors
    of a failed connection.
    """
    nowhere = NoLocalSignIn(
        f"{url} does not sign in the users of its machine from here", hint="use its token"
    )
    if not is_known() or not _is_this_machine(url):
        raise nowhere
    deadline = limits.deadline
    answer, peer = call_and_peer(Target(url), SentRequest("GET", SESSION), limits)
    name = _socket_name(answer)
    if name is None or not peer.listeners:
        raise nowhere
    with closing(connect(name, left(deadline))) as connection:
        uid = peer_uid(connection)
        doubt = socket_doubt(-1 if uid is None else uid, peer.listeners)
        if uid is None or doubt is not None:
            raise Denied(f"{url} is not trusted: {doubt}", hint="check the server's address")
        found = parse_answer(_read_all(connection, deadline))
    if found is None:
        raise Unavailable(f"{url} did not answer the sign-in", hint="upgrade the older andon")
    if (doubt := answer_doubt(found, peer.port)) is not None:
        raise Denied(f"{url} is not trusted: {doubt}", hint=f"andon open --url {sh(found.url)}")
    if not found.code:
        raise Denied(f"{found.url}: {found.reason}", hint=found.hint)
    return found, uid


def open_session(url: str, limits: CallLimits) -> LocalSession:
    """Signs in for one command."""
    deadline = limits.deadline
    found, uid = request_code(url, limits)
    body = json.dumps({"code": found.code, "brief": True}).encode()
    answer = call_as(
        found.url, None, uid, SentRequest("POST", SESSION, body), limits.until(deadline)
    )
    reply = _parsed(answer)
    secret = reply.get("secret")
    if answer.status != 200 or not isinstance(secret, str):
        raise Unavailable(f"{found.url} did not accept its own code", hint="try again")
    return LocalSession(found.url, secret, uid)


def other_servers() -> list[tuple[str, str]]:
    """The URLs of servers on this machine's loopback, each with its user; those of the system
    first. Only a hint: anyone may claim to be one."""
    try:
        with UNIX_SOCKETS.open(encoding="latin-1") as table:
            ports = set(announced_ports(table.read(LARGEST_TABLE)))
    except OSError:
        return []
    owners = ((port, listeners("127.0.0.1", port)) for port in sorted(ports))
    found = [(port, min(uids)) for port, uids in owners if len(uids) == 1]
    found.sort(key=lambda one: (one[1] >= SYSTEM_UIDS, one[0]))
    return [(f"http://127.0.0.1:{port}", user_name(uid)) for port, uid in found[:MOST_NAMED]]


def is_trusted_user(uid: int) -> bool:
    """Whether a server that was not named may be used: this user's, or a system account's."""
    return uid < SYSTEM_UIDS or uid == os.geteuid()


def _is_this_machine(url: str) -> bool:
    """Whether a URL's address is one of this machine: then it can be bound. Nothing is sent."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, 0, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.bind(address)
    except (OSError, UnicodeError):
        return False
    return True


def _socket_name(answer: Answer) -> str | None:
    name = _parsed(answer).get("sign_in") if answer.status == 200 else None
    return name if isinstance(name, str) and is_socket_name(name) else None


def _parsed(answer: Answer) -> Mapping[str, object]:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_all(connection: _socket.socket, deadline: float) -> bytes:
    content = b""
    while len(content) <= LARGEST_BYTES:
        connection.settimeout(left(deadline))
        part = connection.recv(LARGEST_BYTES)
        if not part:
            return content
        content += part
    return b""
