"""The local sockets at which this machine's users, whom the kernel identifies, get something."""

import secrets
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from andon.access.local_rest import MOST_FRAME_BYTES, answer, is_over, paths_in, socket_name
from andon.access.roles import Role, identity_of
from andon.access.sign_in import SignInAnswer, dump_answer
from andon.access.sign_in import socket_name as sign_in_name
from andon.errors import Unavailable
from andon.failures.log import FailureLog
from andon.host.socket_peers import is_known, peer_uid
from andon.host.users import account_name
from andon.web.transport.keys import Keys
from andon.web.transport.local_calls import LocalCalls

# A local socket that sends one message to each of this machine's users, whom the kernel identifies.
#
# It has no file: no one can put a link in its place, nothing is left behind, and it is seen
# exactly where the server's loopback port is (both belong to a network namespace). It works at most
# half of the time.

BACKLOG = 128
PAUSE_SECONDS = 0.002  # after each answer: a flood costs the server little
FRAME_SECONDS = 0.05
MOST_USERS, MOST_WAITING = 8, 15  # at once; of one user, besides the one that is answered


class LocalSocket:
    """Answers one connection after the other, in a thread of its own."""

    send_seconds = 0.25  # what is said to one client fits into the kernel's buffer

    def __init__(
        self, name: str, failures: FailureLog, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self.name, self._failures = name, failures
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
                connection = self._socket.accept()[0]
            except OSError as error:
                if not self._closed.is_set():
                    self._failures.add(error)
                    self._closed.wait(1.0)  # no file is left: connections wait meanwhile
                continue
            before = time.thread_time()
            self._contained(lambda: self._take(connection))  # noqa: B023 - called at once
            time.sleep(max(self._pause_seconds, time.thread_time() - before))

    def _contained(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the next user must be answered
            self._failures.add(error)

    def _take(self, connection: socket.socket) -> None:
        self._serve(connection, peer_uid(connection))

    def _serve(self, connection: socket.socket, uid: int | None) -> None:
        with connection, suppress(OSError):  # it may have gone
            reply = self._reply(connection, uid)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(reply))
            connection.settimeout(self.send_seconds)
            connection.sendall(reply)

    def _reply(self, connection: socket.socket, uid: int | None) -> bytes:
        """Returns the reply to a user; the uid is None if this machine does not know it."""
        raise NotImplementedError


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


# The local socket at which this machine's users read what REST shows them.


class RestSocket(LocalSocket):
    """Answers one frame of each connection. Every user has a thread while they ask, and is answered
    once at a time, half of the time: whoever sends nothing, or much, delays only themselves."""

    send_seconds = 2.0  # two minutes of many devices are megabytes

    def __init__(
        self,
        port: int,
        server_uid: int,
        calls: LocalCalls,
        signs_in: bool = True,
        name_of: Callable[[int], str | None] = account_name,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        """`signs_in`: whether users are known; else everyone but the owners is anonymous."""
        self._server_uid, self._signs_in, self._name_of = server_uid, signs_in, name_of
        self._calls = calls
        self._waiting: dict[int, deque[socket.socket]] = {}
        self._lock = threading.Lock()
        failures = FailureLog("andon.web", "a user could not be answered at the local socket")
        super().__init__(socket_name(port, secrets.token_hex(16)), failures, pause_seconds)

    def _take(self, connection: socket.socket) -> None:
        uid = peer_uid(connection)
        with self._lock:
            known = None if uid is None else self._waiting.get(uid)
            most, there = (MOST_USERS, self._waiting) if known is None else (MOST_WAITING, known)
            if uid is None or len(there) >= most:
                connection.close()
                return
            self._waiting.setdefault(uid, deque()).append(connection)
        if known is not None:
            return
        thread = threading.Thread(
            target=self._follow_user, args=(uid,), name="andon rest", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # there are too many in this process
            self._forget(uid)
            raise

    def _forget(self, uid: int) -> None:
        with self._lock:
            for connection in self._waiting.pop(uid, ()):
                connection.close()

    def _follow_user(self, uid: int) -> None:
        while (connection := self._next(uid)) is not None:
            began = time.monotonic()
            self._contained(lambda: self._serve(connection, uid))
            time.sleep(max(self._pause_seconds, time.monotonic() - began))

    def _next(self, uid: int) -> socket.socket | None:
        with self._lock:
            if self._waiting[uid]:
                return self._waiting[uid].popleft()
            del self._waiting[uid]
            return None

    def _reply(self, connection: socket.socket, uid: int | None) -> bytes:
        """Returns the answer; nothing to a uid without an account here, without a frame, and
        where the server is too slow or would say too much."""
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            return b""
        who = identity_of(uid, user, self._server_uid)
        paths = _frame(connection)
        if paths is None or _has_gone(connection):
            return b""
        known = who if self._signs_in or who.role is Role.OWNER else None
        with suppress(Unavailable, TimeoutError):  # it ends, has much to do, or to say
            return answer(self._calls.get(known, paths))
        return b""


def _frame(connection: socket.socket) -> tuple[str, ...] | None:
    """Returns the paths that a client asks for; None unless they come at once."""
    until, received = time.monotonic() + FRAME_SECONDS, b""
    while not is_over(received):
        if (left := until - time.monotonic()) <= 0:
            return None
        connection.settimeout(left)
        piece = connection.recv(MOST_FRAME_BYTES + 1)
        if not piece:
            return None
        received += piece
    return paths_in(received)


def _has_gone(connection: socket.socket) -> bool:
    """Whether the client reads no more: while it waited, its frame may have been left behind."""
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


# The local socket at which this machine's users get a one-time code as themselves.


class SignInSocket(LocalSocket):
    """Gives each user a one-time code that signs them in as themselves."""

    def __init__(
        self,
        keys: Keys,
        url: str,
        port: int,
        name_of: Callable[[int], str | None] = account_name,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._keys, self._url, self._port, self._name_of = keys, url, port, name_of
        failures = FailureLog("andon.web", "a user could not be signed in")
        name = sign_in_name(port, secrets.token_hex(16))
        super().__init__(name, failures, pause_seconds)

    def _reply(self, connection: socket.socket, uid: int | None) -> bytes:
        return dump_answer(self._answer(uid))

    def _answer(self, uid: int | None) -> SignInAnswer:
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            shown = "an unknown user" if uid is None else f"uid {uid}"
            return self._refused(shown, f"{shown} has no account on this machine")
        owner = self._keys.owner  # may have another name than the account
        who = owner if uid == owner.uid else identity_of(uid, user, owner.uid or 0)
        return SignInAnswer(self._url, self._port, who.user or user, self._keys.new_code(who))

    def _refused(self, user: str, reason: str) -> SignInAnswer:
        hint = f"ask {self._keys.owner.user}, who runs this server"
        return SignInAnswer(self._url, self._port, user, reason=reason, hint=hint)
