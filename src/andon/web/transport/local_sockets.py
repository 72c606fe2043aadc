"""The local sockets at which this machine's users, whom the kernel identifies, get something."""

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from andon.access.look import SCHEMA, Asked, asked_by, drawn_answer, look_name
from andon.access.roles import Sight, identity_of, sight_of
from andon.access.sign_in import SignInAnswer, dump_answer, socket_name
from andon.alerts.rules.lamps import lamps_of
from andon.failures.log import FailureLog
from andon.host.socket_peers import code_stamp, is_known, peer_uid, surroundings
from andon.host.users import account_name
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.wire_in import own_snapshot_from_json
from andon.node.seen.sights import alert_seen_by
from andon.node.seen.texts import SnapshotTexts
from andon.node.watched.alerts import KnownAlerts
from andon.sampling.rules.masks import MASKS
from andon.sampling.rules.told import ServerSnapshot
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.web.transport.keys import Keys

if TYPE_CHECKING:
    from andon.leases.network import NetworkLeases


# A local socket that sends one message to each of this machine's users, whom the kernel identifies.
#
# It has no file: no one can put a link in its place, nothing is left behind, and it is seen
# exactly where the server's loopback port is (both belong to a network namespace). The server
# reads nothing but the client's name, so no client can keep it waiting for long; it answers at
# most half of the time.

BACKLOG = 128
PAUSE_SECONDS = 0.002  # after each answer: a flood costs the server little
SEND_SECONDS = 0.25  # most answers fit into the kernel's buffer

Say = Callable[[int | None, object], bytes]
"""What is said to the user with this uid, None for one that this machine does not know, and to
a client of this name."""
Draw = Callable[[Asked, ServerSnapshot], tuple[int, str] | None]
"""Draws the table that was asked for: the exit code and the text; None where the client has to
draw by itself."""


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
                connection, name = self._socket.accept()
            except OSError as error:
                if not self._closed.is_set():
                    self._failures.add(error)
                    self._closed.wait(1.0)  # no file is left: connections wait meanwhile
                continue
            before = time.thread_time()
            try:
                self._serve(connection, name)
            except Exception as error:  # noqa: BLE001 - the next user must be answered
                self._failures.add(error)
            time.sleep(max(self._pause_seconds, time.thread_time() - before))

    def _serve(self, connection: socket.socket, name: object) -> None:
        with connection, suppress(OSError):  # it may have gone
            said = self._say(peer_uid(connection), name)
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


# The local socket at which this machine's users get the server's latest snapshot.


class LookSocket(LocalSocket):
    """Sends `/api/snapshot`, `/api/board` and `/api/leases`, as far as status shows them; or the
    table of status, drawn from the same."""

    def __init__(
        self,
        port: int,
        server_uid: int,
        feed: SnapshotFeed,
        watcher: KnownAlerts | None = None,
        leases: "NetworkLeases | None" = None,
        draw: Draw | None = None,
        name_of: Callable[[int], str | None] = account_name,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._server_uid, self._name_of, self._draw = server_uid, name_of, draw
        self._feed, self._watcher, self._leases = feed, watcher, leases
        self._texts, self._code = SnapshotTexts(), code_stamp()
        failures = FailureLog("andon.web", "the latest snapshot could not be given")
        name = look_name(port, secrets.token_hex(16))
        super().__init__(name, self._look, failures, pause_seconds)

    def _look(self, uid: int | None, name: object) -> bytes:
        """Returns the message; empty for a uid without an account here, and where a table was
        asked for that must be drawn elsewhere."""
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            return b""
        sight, snapshot = sight_of(identity_of(uid, user, self._server_uid)), self._feed.latest()
        text, lamps = self._texts.of(snapshot, sight).encode(), self._lamps(snapshot, sight)
        interval = self._feed.settings.interval_seconds
        if (asked := asked_by(name)) is not None:
            read = own_snapshot_from_json(msgspec.json.decode(text))  # as the client would
            told = ServerSnapshot(read, interval, lamps, **self._verdicts())
            drawn = None if self._draw is None else self._draw(asked, told)
            return b"" if drawn is None else drawn_answer(surroundings(self._code), MASKS, *drawn)
        return msgspec.json.encode(
            {
                "schema": SCHEMA,
                "code": self._code,
                "interval_seconds": interval,
                "snapshot": msgspec.Raw(text),
                "lamps": lamps,
                **self._verdicts(),
            }
        )

    def _lamps(self, snapshot: Snapshot, sight: Sight) -> tuple[DeviceLamp, ...] | None:
        if self._watcher is None:
            return None
        return lamps_of(snapshot, [alert_seen_by(sight, alert) for alert in self._watcher.alerts()])

    def _verdicts(self) -> dict[str, Any]:
        """Returns the verdicts; empty if they depend on the user, because someone is in the
        queue, or are unknown."""
        found = None if self._leases is None else self._leases.listed()
        if found is None or found.waiting or not found.devices:
            return {}
        return {"verdicts": found.devices, "listed_at": found.at}


# The local socket at which this machine's users get a one-time code as themselves.


class SignInSocket(LocalSocket):
    """Gives out codes."""

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
        name = socket_name(port, secrets.token_hex(16))
        super().__init__(name, self._code_for, failures, pause_seconds)

    def _code_for(self, uid: int | None, name: object) -> bytes:
        return dump_answer(self._answer(uid))

    def _answer(self, uid: int | None) -> SignInAnswer:
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            shown = "an unknown user" if uid is None else f"uid {uid}"
            return self._refused(shown, f"{shown} has no account on this machine")
        owner = self._keys.owner  # of a demo has another name than the account
        is_owner = self._keys.is_demo and uid == owner.uid
        who = owner if is_owner else identity_of(uid, user, owner.uid or 0)
        return SignInAnswer(self._url, self._port, who.user or user, self._keys.new_code(who))

    def _refused(self, user: str, reason: str) -> SignInAnswer:
        hint = f"ask {self._keys.owner.user}, who runs this server"
        return SignInAnswer(self._url, self._port, user, reason=reason, hint=hint)


def local_sign_in(
    keys: Keys, url: str, port: int, wanted: bool
) -> AbstractContextManager[str | None]:
    """Opens the socket while the server runs; yields its name, or None if there is none."""
    lacking = "users cannot sign in as themselves"
    return local_socket(lambda: SignInSocket(keys, url, port), lacking, wanted)
