"""The local socket at which this machine's users get a one-time code as themselves.

It has no file: no one can put a link in its place, nothing is left behind, and it is seen exactly
where the server's loopback port is (both belong to a network namespace). The server reads nothing,
so no client can keep it waiting; how often it answers is limited.
"""

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from andon.core.access.roles import identity_of
from andon.core.access.sign_in import SignInAnswer, dump_answer, socket_name
from andon.engine.failure_log import FailureLog
from andon.host.kin import account_name
from andon.host.server.peer_credentials import is_known, peer_uid
from andon.web.transport.keys import Keys

BACKLOG = 128
PAUSE_SECONDS = 0.002  # after each answer: a flood costs the server little


class SignInSocket:
    """Answers one connection after the other, in a thread of its own."""

    def __init__(
        self,
        keys: Keys,
        url: str,
        port: int,
        name_of: Callable[[int], str | None] = account_name,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._pause_seconds = pause_seconds
        self._keys, self._url, self._port, self._name_of = keys, url, port, name_of
        self.name = socket_name(port, secrets.token_hex(16))
        self._failures = FailureLog("andon.web", "a user could not be signed in")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0{self.name}")
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="andon sign-in", daemon=True)
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
            connection.setblocking(False)  # an answer fits into the kernel's buffer
            connection.sendall(dump_answer(self._answer(peer_uid(connection))))

    def _answer(self, uid: int | None) -> SignInAnswer:
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            shown = "an unknown user" if uid is None else f"uid {uid}"
            return self._refused(shown, f"{shown} has no account on this machine")
        who = identity_of(uid, user, self._keys.owner.uid or 0)
        return SignInAnswer(self._url, self._port, user, self._keys.new_code(who))

    def _refused(self, user: str, reason: str) -> SignInAnswer:
        hint = f"ask {self._keys.owner.user}, who runs this server"
        return SignInAnswer(self._url, self._port, user, reason=reason, hint=hint)


@contextmanager
def local_sign_in(keys: Keys, url: str, port: int, wanted: bool) -> Iterator[str | None]:
    """The name of the socket while the server runs; None where there is none."""
    if not wanted or not is_known():
        yield None
        return
    try:
        made = SignInSocket(keys, url, port)
    except OSError as error:
        FailureLog("andon.web", "users cannot sign in as themselves", brief=True).add(error)
        yield None
        return
    try:
        yield made.name
    finally:
        made.close()
