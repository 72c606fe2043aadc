"""The port of a server's REST interface, which the parts of a remote node use."""

from collections.abc import Callable
from typing import Protocol, Self

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.model import wire
from andon.version import __version__

HEALTH, MINUTES = "/api/health", "/api/snapshots"
MINUTES_BOUNDS = wire.TextBounds(64 << 20, 4_000_000)  # two minutes of 256 GPUs
LONGEST_REASON, MOST_DETAILS = 2000, 100  # of a refusal
Notify = Callable[[str], None]
_STATUSES: dict[int, type[AndonError]] = {
    401: Denied, 403: Denied, 404: Gone, 409: Conflict, 422: Invalid, 429: Denied,
}  # fmt: skip


class RestServer(Protocol):
    """An andon server, one request at a time."""

    @property
    def url(self) -> str: ...

    def get(self, path: str, **query: object) -> wire.Json:
        """Returns the answer to a GET of a path that every server of this version has."""

    def post(self, path: str, body: wire.Json | None = None) -> wire.Json: ...

    def delete(self, path: str) -> wire.Json: ...

    def fetch(self, path: str, most_bytes: int, sink: Callable[[bytes], object]) -> None:
        """Downloads a file in pieces."""

    def as_user(self) -> Self:
        """Returns the same server with this user's credentials, for what is this user's own."""

    def of_another_version(self, difference: str) -> AndonError:
        """Returns the error for a server that is older or newer than this command."""

    def close(self) -> None:
        """Ends the session that `as_user` began."""


def parsed(url: str, body: bytes, path: str = "") -> wire.Json:
    """Reads a good answer to a path."""
    try:
        return wire.loads(body, MINUTES_BOUNDS if path == MINUTES else wire.ANSWER)
    except Invalid as exc:
        raise stranger(url) from exc


def refusal(url: str, status: int, body: bytes, hint: str | None = None) -> AndonError:
    """Returns the server's own error, if it is an andon server; `hint` is for the caller's side."""
    try:
        payload = wire.loads(body, wire.NOTE)["error"]
        reason, theirs = (str(payload[name])[:LONGEST_REASON] for name in ("reason", "hint"))
        details = payload.get("details") or ()
        found = details[:MOST_DETAILS] if isinstance(details, list) else ()
        lines = tuple(str(line)[:LONGEST_REASON] for line in found)
    except (AndonError, KeyError, TypeError, AttributeError):
        return stranger(url)
    kind, shown_hint = _STATUSES.get(status, Unavailable), theirs if hint is None else hint
    return kind(f"{url}: {reason}", hint=shown_hint, mistakes=lines)


def stranger(url: str) -> AndonError:
    hint = "use the URL that andon serve prints"
    return Unavailable(f"{url} is not an andon server", hint=hint)


def of_another_version(url: str, health: Callable[[], wire.Json], difference: str) -> AndonError:
    """Returns the error for a server whose version `health` has."""
    try:
        version = health().get("version")
    except AndonError:
        version = None
    named = f"andon {version}" if isinstance(version, str) else "another version of andon"
    return Unavailable(
        f"{url} runs {named}, but this is andon {__version__}: {difference}",
        hint="upgrade the older of the two",
    )
