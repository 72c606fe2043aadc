"""A local socket that sends one message to each of this machine's users, whom the kernel
identifies.

It has no file: no one can put a link in its place, nothing is left behind, and it is seen
exactly where the server's loopback port is (both belong to a network namespace). The server
reads nothing, so no client can keep it waiting for long; how often it answers is limited.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from andon.failures.log import FailureLog
from andon.host.socket_peers import is_known, peer_uid

BACKLOG = 128
PAUSE_SECONDS = 0.002  # after each answer: a flood costs the server little
SEND_SECONDS = 0.25  # most answers fit into the kernel's buffer

Say = Callable[[int | None], bytes]
"""What is said to the user with this uid; None is one that this machine does not know."""


class LocalSocket:
    """Answers one connection after the other, in a thread of its own."""

    def __init__(
        self, name: str, say: Say, failures: FailureLog, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self.name, self._say, self._failures = name, say, failures
        self._pause_seconds = pause_seconds
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0{self.name}")
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self._closed = threading.Event()
        thread = name.partition("/")[0].replace("-", " ", 1)
        self._thread = threading.Thread(target=self._follow, name=thread, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._socket.close()
        self._thread.join(1.0)

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if not self._closed.is_set():
                    self._failures.add(error)
                    self._closed.wait(1.0)  # no file is left: connections wait meanwhile
                continue
            try:
                self._serve(connection)
            except Exception as error:  # noqa: BLE001 - the next user must be answered
                self._failures.add(error)
            time.sleep(self._pause_seconds)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # it may have gone
            said = self._say(peer_uid(connection))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(said))
            connection.settimeout(SEND_SECONDS)
            connection.sendall(said)


@contextmanager
def local_socket(
    make: Callable[[], LocalSocket], lacking: str, wanted: bool = True
) -> Iterator[str | None]:
    """Yields the name of the socket while the server runs; None if there is none. `lacking`
    names what users then cannot do."""
    if not wanted or not is_known():
        yield None
        return
    try:
        made = make()
    except OSError as error:
        FailureLog("andon.web", lacking, brief=True).add(error)
        yield None
        return
    try:
        yield made.name
    finally:
        made.close()
