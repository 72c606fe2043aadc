"""This machine's server, read at its local socket, where the kernel identifies both sides.

What the socket does not answer, such as changes, goes to the same server over HTTP. No HTTP client
is loaded before.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from andon.access.local_rest import (
    MOST_ANSWER_BYTES,
    RestAnswer,
    frame,
    is_trusted,
    parts_of,
    paths_in,
    socket_names,
)
from andon.errors import AndonError, Unavailable
from andon.host.port_listeners import SYSTEM_UIDS
from andon.host.socket_peers import connect, peer_uid
from andon.model import wire
from andon.node.rest import HEALTH, RestServer, of_another_version, parsed, refusal
from andon.node.usual_server import own_port, usual_port

TIMEOUT_SECONDS, ANSWER_SECONDS = 1.0, 10.0
PIECE_BYTES = 1 << 18
LARGEST_TABLE = 4 << 20
HEAD_BYTES = 4096  # of an answer
UNIX_SOCKETS = Path("/proc/net/unix")


class LocalServer:
    """Implements RestServer for a server of this user or the system."""

    def __init__(
        self,
        port: int,
        received: Mapping[str, RestAnswer],
        over_http: Callable[[], RestServer | None],
    ) -> None:
        """`received` has answers that came already; each is used once."""
        self.url = f"http://127.0.0.1:{port}"
        self._port, self._received, self._over_http = port, dict(received), over_http
        self._as_user = False
        self.interval = ""
        """The pace of the snapshot that was read last, as the server's header has it."""

    def get(self, path: str, **query: object) -> wire.Json:
        given = {name: value for name, value in query.items() if value is not None}
        whole = f"{path}?{urlencode(given)}" if given else path
        if paths_in(frame((whole,))) is None:
            return self._http.get(whole)
        found = self._received.pop(whole, None) or self._request(whole)
        self.interval = found.interval or self.interval
        if found.status != 200:
            raise refusal(self.url, found.status, found.body)
        return parsed(self.url, found.body, path)

    def post(self, path: str, body: wire.Json | None = None) -> wire.Json:
        return self._http.post(path, body)

    def delete(self, path: str) -> wire.Json:
        return self._http.delete(path)

    def fetch(self, path: str, most_bytes: int, sink: Callable[[bytes], object]) -> None:
        self._http.fetch(path, most_bytes, sink)

    def of_another_version(self, difference: str) -> AndonError:
        return of_another_version(self.url, lambda: self.get(HEALTH), difference)

    def _request(self, path: str) -> RestAnswer:
        for found in _answers(self._port, (path,), time.monotonic() + ANSWER_SECONDS):
            return found[0]
        raise Unavailable(f"{self.url} does not answer", hint="check that andon serve is running")

    def as_user(self) -> Self:
        """Returns the same server; over HTTP it also authenticates as this user."""
        other = copy(self)
        other._as_user = True
        other.__dict__.pop("_http", None)
        return other

    def close(self) -> None:
        if "_http" in self.__dict__:
            self._http.close()

    @cached_property
    def _http(self) -> RestServer:
        if (found := self._over_http()) is None:
            raise Unavailable(f"{self.url} cannot be reached", hint="check that it is running")
        return found.as_user() if self._as_user else found


def local_servers(
    paths: Sequence[str],
    seconds: float = TIMEOUT_SECONDS,
    over_http: Callable[[], RestServer | None] = lambda: None,
    port: int | None = None,
) -> Iterator[LocalServer]:
    """Yields the servers that answer these paths in time, all in one exchange: this user's own,
    then the system's. `port`: instead of the usual one."""
    until = time.monotonic() + seconds
    for each in dict.fromkeys(filter(None, (own_port(), port or usual_port()))):
        for found in _answers(each, paths, until):
            yield LocalServer(each, dict(zip(paths, found, strict=True)), over_http)


def _answers(port: int, paths: Sequence[str], until: float) -> Iterator[list[RestAnswer]]:
    """Yields the answers of each trusted listener at a port."""
    try:
        with UNIX_SOCKETS.open("rb") as file:
            table = file.read(LARGEST_TABLE)
    except OSError:
        return
    for name in socket_names(table, port):
        with suppress(OSError):
            reply = _exchange(name, paths, until)
            if reply == b"":  # a busy machine may have kept the frame from coming in time
                reply = _exchange(name, paths, until)
            if reply and (found := parts_of(reply, len(paths))) is not None:
                yield found


def _exchange(name: str, paths: Sequence[str], until: float) -> bytes | None:
    """Returns what a trusted listener answers; None from any other."""
    with closing(connect(name, max(0.01, until - time.monotonic()))) as connection:
        if not is_trusted(peer_uid(connection), os.geteuid(), SYSTEM_UIDS):
            return None
        connection.sendall(frame(paths))
        pieces, size = list[bytes](), 0
        while piece := connection.recv(PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_ANSWER_BYTES + HEAD_BYTES or time.monotonic() > until:
                return None
        return b"".join(pieces)
