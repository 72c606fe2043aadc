"""The address that an export sends to: one request at a time, with the present secret."""

import os
import time
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import urlsplit

from andon.errors import Denied, Unavailable
from andon.exporter.rules.answers import SendResult, SendVerdict, judge
from andon.host.files import expanded, read_regular
from andon.node.connection import FAILURES, TimedConnection, plain_message
from andon.settings.exports import ExportSettings, SecretSource
from andon.version import __version__

ANSWER_BYTES = 1 << 16
SECRET_BYTES = 8192


class Receiver:
    """Sends bodies over one connection. One thread uses it."""

    def __init__(self, settings: ExportSettings, headers: Mapping[str, str]) -> None:
        self._settings = settings
        self._headers = {"User-Agent": f"andon/{__version__}", **headers, **settings.headers}
        parts = urlsplit(settings.url)
        self._encrypted = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._encrypted else 80)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection: TimedConnection | None = None

    def send(self, body: bytes) -> SendResult:
        """Sends a body; returns what the answer means, or that there was none."""
        try:
            headers = {**self._headers, **self._authorization()}
            return judge(*self._posted(body, headers), now=time.time())
        except Denied as exc:
            return SendResult(SendVerdict.AGAIN, exc)
        except FAILURES as exc:
            self.rest()
            trouble = Unavailable(
                f"cannot be reached: {plain_message(exc)}",
                hint="check its address, and that it is running",
            )
            return SendResult(SendVerdict.AGAIN, trouble)

    def rest(self) -> None:
        """Closes the connection until there is something to send. A receiver closes idle
        connections, and a request on such a one would count as sent and unanswered."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _posted(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        deadline = time.monotonic() + self._settings.timeout_seconds
        if self._connection is None:
            self._connection = TimedConnection(self._host, self._port, deadline, self._encrypted)
        self._connection.renew(deadline)
        self._connection.request("POST", self._path, body, dict(headers))
        answer = self._connection.getresponse()
        content = answer.read(ANSWER_BYTES)
        if not answer.isclosed():  # more than is read
            self.rest()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, content

    def _authorization(self) -> dict[str, str]:
        """Reads the secret again for each request: it may have been renewed."""
        source, user = self._settings.secret, self._settings.user
        if source is None:
            return {}
        secret = _secret(source)
        if not user:
            return {"Authorization": f"Bearer {secret}"}
        return {"Authorization": f"Basic {b64encode(f'{user}:{secret}'.encode()).decode()}"}


def _secret(source: SecretSource) -> str:
    """Returns the secret; Denied, without it, if it cannot be used."""
    where = source.file or f"${source.variable}"
    try:
        text = (
            read_regular(expanded(source.file), SECRET_BYTES, follow=True).decode()
            if source.file
            else os.environ.get(source.variable, "")
        ).strip()
    except OSError as exc:
        raise Denied(f"{where} cannot be read: {exc.strerror}", hint="check its owner") from exc
    except ValueError:
        text = ""
    if not text or not text.isascii() or not text.isprintable():
        raise Denied(f"{where} holds no secret", hint="one line of printable ASCII is expected")
    return text
