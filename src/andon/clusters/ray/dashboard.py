"""Requests to the dashboard of a Ray cluster, within a time and a size."""

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from andon.clusters.ray.rules.nodes import MOST_NODES
from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.host.files import read_regular
from andon.model import wire
from andon.model.wire import Json
from andon.node.connection import FAILURES, TimedConnection, plain_message
from andon.units import human_seconds, plain

NODES: Final = f"/api/v0/nodes?detail=1&limit={MOST_NODES}"
MOST_BYTES: Final = 64 << 20
PIECE_BYTES: Final = 1 << 16
SILENT_SECONDS: Final = 6 * 3600.0
"""A stream that sends nothing for so long is closed."""
_TOKEN_BYTES: Final = 4096
USUAL_PORT: Final = 8265
VARIABLES: Final = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
HOW: Final = "export RAY_API_SERVER_ADDRESS=http://HEAD:8265, or set address in [clusters.ray]"
LONGEST_TEXT: Final = 300


class RayDashboard:
    """One dashboard. A token is sent as Ray's own commands send it, and shown nowhere."""

    def __init__(self, address: str, seconds: float) -> None:
        self._seconds = seconds
        self._given = address

    def get(self, path: str) -> object:
        """Returns what a path answers, as JSON of any kind."""
        return self._ask("GET", path)

    def nodes(self) -> Json:
        """Returns Ray's list of nodes; a server that is no Ray dashboard has no such list."""
        found = self.get(NODES)
        if isinstance(found, dict) and isinstance(found.get("data"), dict):
            return found
        raise self._stranger()

    def post(self, path: str, body: Json | None = None) -> object:
        return self._ask("POST", path, body or {})

    def stream(self, path: str) -> "RayStream":
        """Returns the answer of a path in pieces."""
        return RayStream(self, path)

    def open(self, path: str) -> tuple[TimedConnection, HTTPResponse]:
        """Returns a connection whose answer has begun."""
        place = self._place()
        connection = self._connect(place, time.monotonic() + self._seconds)
        try:
            connection.request("GET", place.path.rstrip("/") + path, headers=self._headers())
            answer = connection.getresponse()
            if answer.status >= 300:
                raise self._refused(answer.status, answer.read(PIECE_BYTES))
        except BaseException as exc:
            connection.close()
            if isinstance(exc, FAILURES):
                raise self._silent(exc) from exc
            raise
        return connection, answer

    def _ask(self, method: str, path: str, body: Json | None = None) -> object:
        place, deadline = self._place(), time.monotonic() + self._seconds
        typed = {} if body is None else {"Content-Type": "application/json"}
        given = None if body is None else wire.dumps(body).encode()
        try:
            with closing(self._connect(place, deadline)) as connection:
                connection.request(
                    method, place.path.rstrip("/") + path, given, {**self._headers(), **typed}
                )
                with connection.getresponse() as answer:
                    content = answer.read(MOST_BYTES + 1)
        except FAILURES as exc:
            raise self._silent(exc) from exc
        if len(content) > MOST_BYTES:
            raise Unavailable(f"Ray's answer is larger than {MOST_BYTES >> 20} MiB")
        if answer.status >= 300:
            raise self._refused(answer.status, content, given is not None)
        try:
            return wire.loads(b'{"value":' + content + b"}", wire.ANSWER)["value"]
        except (Invalid, KeyError) as exc:
            raise self._stranger() from exc

    def _connect(self, place: SplitResult, deadline: float) -> TimedConnection:
        encrypted = place.scheme == "https"
        port = place.port or (443 if encrypted else USUAL_PORT)
        return TimedConnection(place.hostname or "", port, deadline, encrypted)

    @property
    def address(self) -> str:
        """Returns the address as it was given; empty if unknown."""
        return self._given or next((os.environ[n] for n in VARIABLES if os.environ.get(n)), "")

    def _place(self) -> SplitResult:
        given = self.address
        if not given:
            raise Invalid("the address of Ray's dashboard is not known", hint=HOW)
        given = "127.0.0.1" if given == "auto" else given  # as Ray says it: of this machine
        with suppress(ValueError):
            place = urlsplit(given if "://" in given else f"http://{given}")
            plainly = given.isprintable() and not {" ", "@", "?", "\\"} & set(given)
            if place.scheme in ("http", "https") and place.hostname and plainly and place.port != 0:
                return place
        raise Invalid(f"{plain(given, 80)} is not the address of a Ray dashboard", hint=HOW)

    def _headers(self) -> Mapping[str, str]:
        token = _token()
        return {"Accept": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )

    def _silent(self, exc: BaseException) -> Unavailable:
        if isinstance(exc, TimeoutError):
            return Unavailable(f"Ray did not answer within {human_seconds(self._seconds)}")
        hint = "is it its dashboard's address, with https where that is encrypted?"
        if isinstance(exc, OSError):
            return Unavailable(f"Ray cannot be reached: {plain_message(exc)}", hint=hint)
        return self._stranger()

    def _stranger(self) -> Unavailable:
        return Unavailable(f"{self._place().netloc} does not answer as Ray's dashboard", hint=HOW)

    def _refused(self, status: int, content: bytes, sent: bool = False) -> AndonError:
        """Returns the error for a refusal; `sent` says whether the request had a body to refuse."""
        lines = [line for line in content.decode(errors="replace").splitlines() if line.strip()]
        text = plain(lines[-1], LONGEST_TEXT) if lines else f"status {status}"
        if status in (401, 403):
            return Denied(
                f"Ray {'refuses this' if _token() else 'wants a'} token: {text}",
                hint="RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token has it",
            )
        if status == 400 and sent:
            return Invalid(f"Ray refuses it: {text}")
        if status == 404 and "does not exist" in text:
            return Gone(text)
        if status in (301, 302, 307, 308, 404, 405):
            return self._stranger()
        return Unavailable(f"Ray answers {status}: {text}")


class RayStream:
    """An answer that may not end. One thread reads it; any may close it."""

    def __init__(self, dashboard: RayDashboard, path: str) -> None:
        self._dashboard, self._path = dashboard, path
        self._connection: TimedConnection | None = None
        self._closed = False

    def pieces(self) -> Iterator[bytes]:
        self._connection, answer = self._dashboard.open(self._path)
        with closing(self._connection), suppress(*FAILURES):  # then no more comes
            while not self._closed:
                self._connection.renew(time.monotonic() + SILENT_SECONDS)
                if not (piece := answer.read1(PIECE_BYTES)):
                    return
                yield piece

    def close(self) -> None:
        self._closed = True
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)


def _token() -> str:
    """Returns the token that Ray's own commands would send; empty if there is none."""
    if found := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return found
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token"
    with suppress(OSError, UnicodeDecodeError):
        found = read_regular(Path(path).expanduser(), _TOKEN_BYTES).decode().strip()
        return found if found.isprintable() else ""
    return ""
