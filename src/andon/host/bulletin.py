"""What the andon server of this machine says is broken; where none answers, nothing is known.

Xids come and go: a command that looks once has missed them, a server that watches has not.
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from andon.host import whereabouts
from andon.host.listeners import trusted_listener

SERVICE_PORT = 26366
ASKED = "/api/alerts?state=firing&level=critical&limit=1000"
KEPT_SECONDS = 5.0
TIMEOUT_SECONDS = 0.5
MOST_BYTES = 4 << 20


class Bulletin:
    """Asked before every choice of a device, and of the server every few seconds."""

    def __init__(self, folder: Path, port: int = SERVICE_PORT) -> None:
        self._folder, self._port = folder, port
        self._at: float | None = None
        self._said: Mapping[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        """uuid -> why it is not to be handed out."""
        now = time.monotonic()
        if self._at is None or now - self._at >= KEPT_SECONDS:
            self._said, self._at = self._ask(), now
        return self._said

    def _ask(self) -> Mapping[str, str]:
        own = whereabouts.find(self._folder)
        said = None if own is None else _get(own, _headers(self._folder))
        if said is None and (service := self._running_service()) is not None:
            said = _get(service, {})  # another's server: our token is not for it
        return said or {}

    def _running_service(self) -> str | None:
        """One that this user or the system runs: anybody else could withhold devices."""
        try:
            socket.create_connection(("127.0.0.1", self._port), TIMEOUT_SECONDS).close()
        except OSError:
            return None
        trusted = trusted_listener(self._port, os.geteuid())
        return f"http://127.0.0.1:{self._port}" if trusted else None


def _get(url: str, headers: dict[str, str]) -> Mapping[str, str] | None:
    """None where it does not answer in time, or not as a server of this version does."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    from andon.core.ailments import ailments
    from andon.errors import AndonError
    from andon.model import wire
    from andon.model.alert_wire import alerts_from_json

    place = urlsplit(url)
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", ASKED, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        alerts, _ = alerts_from_json(wire.loads(answer.read(MOST_BYTES).decode()))
        return ailments(alerts)
    except (OSError, HTTPException, AndonError, ValueError):
        return None
    finally:
        connection.close()


def _headers(folder: Path) -> dict[str, str]:
    """A server that is open to others wants this user's token for reading, too."""
    with suppress(OSError, UnicodeDecodeError):
        return {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}
    return {}
