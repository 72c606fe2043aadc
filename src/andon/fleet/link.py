"""A connection from a node to its hub, or one of several with the same database; reused between
requests."""

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from andon.access.gate import is_loopback
from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.model.wire import NOTE, Json, loads
from andon.node.calls import CallLimits
from andon.node.connection import FAILURES, ConnectionPool, TimedConnection, plain_message
from andon.node.server import base_url, reach_hint
from andon.units import sh

LIMITS = CallLimits(timeout_seconds=10.0, most_bytes=1 << 16)
HEARTBEAT, PAST = "/api/heartbeat", "/api/past"
HUB_HEADER = "X-Andon-Hub"
"""In every answer of a hub to a node, also where it refuses."""
NOT_A_HUB = "start one there: andon hub --store postgresql:///andon"
ENCRYPT = (
    "start the hub with --tls-cert and use https://, or if nobody else can read on this network: "
    "ANDON_HUB_UNENCRYPTED=yes"
)
_REFUSED: dict[int, type[AndonError]] = {401: Denied, 403: Denied, 413: Invalid, 422: Invalid}


class _NoAnswer(Unavailable):
    """No hub has answered at this URL."""


class HubLink:
    """Sends bytes with a node's token. One thread uses it; any may close it."""

    def __init__(
        self,
        urls: str,
        token: str,
        limits: CallLimits = LIMITS,
        pin: str | None = None,
        unencrypted: bool = False,
        renew: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`urls` are separated by commas; if one does not answer, the next is used from then on.
        `pin` is the fingerprint of the hub's certificate, if no authority signed it; `renew`
        returns a token in place of a missing or refused one. Raises Denied if the token would be
        sent unencrypted, unless `unencrypted`."""
        self._urls = [base_url(one.strip()) for one in urls.split(",")]
        self.hubs = ",".join(sorted(self._urls))
        """Identifies the database behind the hubs."""
        for url in self._urls:
            place = urlsplit(url)
            is_safe = is_local(place.hostname or "") and pin is None  # a pin would be passed over
            if place.scheme == "http" and not (unencrypted or is_safe):
                raise Denied(f"{url} would get this node's token unencrypted", hint=ENCRYPT)
        self._token, self._limits, self._pin, self._renew = token, limits, pin, renew
        self._pool = ConnectionPool(self._connected)

    @property
    def url(self) -> str:
        """The URL of the hub that is tried first."""
        return self._urls[0]

    def send(self, path: str, body: bytes) -> Json:
        """Returns the hub's answer. Raises Denied or Invalid if it refuses, and Unavailable if none
        answers: then the same may be sent again."""
        for _ in self._urls[1:]:
            with suppress(_NoAnswer):
                return self._sent(path, body)
            self.close()
            self._urls.append(self._urls.pop(0))
        return self._sent(path, body)

    def _sent(self, path: str, body: bytes) -> Json:
        deadline = self._limits.deadline
        self._token = self._token or self._renew() or ""
        if not self._token:
            raise no_token(self.url)
        try:
            (status, content, is_hub), again = self._pool.exchange(
                deadline, lambda connection: self._post(connection, path, body)
            )
        except FAILURES as exc:
            self.close()
            raise _NoAnswer(
                f"{self.url} cannot be reached: {plain_message(exc)}", hint=reach_hint(exc)
            ) from exc
        try:
            reply = loads(content, NOTE)
            if status == 200 or (again and status == 409):  # its answer was lost the first time
                return reply
            error = reply["error"]
            reason, hint = str(error["reason"])[:500], str(error["hint"])[:500]
        except (AndonError, KeyError, TypeError) as exc:
            raise _NoAnswer(f"{self.url} is not an andon hub") from exc
        if status in (401, 403, 404, 405) and not is_hub:
            raise Invalid(f"{self.url} is not a hub", hint=NOT_A_HUB)
        if status in (401, 403):
            self._token = self._renew() or self._token
        raise _REFUSED.get(status, Unavailable)(f"{self.url}: {reason}", hint=hint)

    def close(self) -> None:
        self._pool.close()

    def _connected(self, deadline: float) -> TimedConnection:
        place = urlsplit(self.url)
        encrypted = place.scheme == "https"
        port = place.port or (443 if encrypted else 80)
        connection = TimedConnection(place.hostname or "", port, deadline, encrypted, pin=self._pin)
        connection.connect()
        return connection

    def _post(self, connection: TimedConnection, path: str, body: bytes) -> tuple[int, bytes, bool]:
        """Returns the status, the answer, and whether a hub answered."""
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
        }
        connection.request("POST", urlsplit(self.url).path + path, body, headers)
        answer = connection.getresponse()
        content = answer.read(self._limits.most_bytes)
        return answer.status, content, answer.getheader(HUB_HEADER) is not None


def no_token(url: str) -> Denied:
    hint = f"andon nodes add NAME --url {sh(url)} prints the line to paste here, with its token"
    return Denied("this node has no token of a hub", hint=hint)


def is_local(host: str) -> bool:
    """Whether requests to this host stay on this machine."""
    return host == "localhost" or is_loopback(host)
