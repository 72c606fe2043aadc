"""A server in place of this node: snapshots over HTTP, for `--url`."""

import os
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib import error, request
from urllib.parse import urlencode, urlsplit

from andon.core.access import is_loopback
from andon.core.cadence import retry_seconds
from andon.core.readings import checked_snapshot
from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.model import wire
from andon.model.device import Snapshot
from andon.units import human_seconds
from andon.version import __version__

if TYPE_CHECKING:
    from http.client import HTTPResponse

TIMEOUT_SECONDS = 10.0
MAX_BYTES = 64 * 1024 * 1024
_STATUSES: dict[int, type[AndonError]] = {
    401: Denied, 403: Denied, 404: Gone, 409: Conflict, 422: Invalid, 429: Denied,
}  # fmt: skip


class Server:
    """An andon server, asked one thing at a time."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self._token = base_url(url), token
        # No proxy for a token: http_proxy would be shown it.
        handlers = (_NoRedirects(), request.ProxyHandler({}) if token else request.ProxyHandler())
        self._opener = request.build_opener(*handlers)

    def get(self, path: str, **asked: object) -> wire.Json:
        """What is at a path, which every server of this version has."""
        given = {name.rstrip("_"): value for name, value in asked.items() if value is not None}
        try:
            return self._ask("GET", f"{path}?{urlencode(given)}" if given else path)
        except Gone as exc:
            if f"there is nothing at {path}" not in exc.reason:
                raise
            raise self.of_another_version(f"it has no {path}") from exc

    def of_another_version(self, difference: str) -> AndonError:
        """What to do about a server that is older or newer than this command."""
        try:
            version = self._ask("GET", "/api/health").get("version")
        except AndonError:
            version = None
        named = f"andon {version}" if isinstance(version, str) else "another version of andon"
        return Unavailable(
            f"{self.url} is {named}, and this is andon {__version__}: {difference}",
            hint="upgrade the older of the two",
        )

    def post(self, path: str, body: wire.Json | None = None) -> wire.Json:
        return self._ask("POST", path, body)

    def delete(self, path: str) -> wire.Json:
        return self._ask("DELETE", path)

    def _ask(self, method: str, path: str, body: wire.Json | None = None) -> wire.Json:
        data = None if body is None else wire.dumps(body).encode()
        asked = request.Request(self.url + path, data, method=method)  # noqa: S310 (http or https)
        asked.add_header("Accept", "application/json")
        if data is not None:
            asked.add_header("Content-Type", "application/json")
        if self._token:
            asked.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(asked, timeout=TIMEOUT_SECONDS) as answer:
                return self._read(answer)
        except error.HTTPError as exc:
            with exc:
                raise self._refused(exc) from exc
        except (OSError, HTTPException, ValueError) as exc:
            raise Unavailable(
                f"{self.url} cannot be reached: {_words(exc)}",
                hint="is it running there? andon serve",
            ) from exc

    def _read(self, answer: "HTTPResponse") -> wire.Json:
        try:
            return wire.loads(answer.read(MAX_BYTES))
        except Invalid as exc:
            raise self._stranger() from exc

    def _refused(self, exc: error.HTTPError) -> AndonError:
        """The server's own words, where it is one of ours."""
        try:
            said = wire.loads(exc.read(65_536))["error"]
            reason, hint = str(said["reason"]), str(said["hint"])
            details = said.get("details") or ()
            lines = tuple(str(line) for line in details) if isinstance(details, list) else ()
        except (AndonError, KeyError, TypeError, AttributeError, OSError, HTTPException):
            return self._stranger()
        kind = _STATUSES.get(exc.code, Unavailable)
        if exc.code == 401:
            hint = "give its token: --token-file FILE, or ANDON_TOKEN"
        return kind(f"{self.url}: {reason}", hint=hint, mistakes=lines)

    def _stranger(self) -> AndonError:
        return Unavailable(f"{self.url} is not an andon server", hint="the URL of: andon serve")


def _words(exc: BaseException) -> str:
    """`Connection refused` and not `<urlopen error [Errno 111] Connection refused>`."""
    inner = getattr(exc, "reason", None)
    if isinstance(inner, BaseException):
        return _words(inner)
    plain = isinstance(exc, OSError) and type(exc).__module__ == "builtins" and exc.strerror
    return str(plain or inner or exc)


class _NoRedirects(request.HTTPRedirectHandler):
    """A server of ours never sends anyone elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Remote:
    """Stands where a sampler stands: one snapshot, or a session of them."""

    def __init__(self, server: Server, tell: Callable[[str], None] = lambda _words: None) -> None:
        self._server, self._tell = server, tell

    def once(self, watched: bool = False) -> Snapshot:
        return self._snapshot(self._server.get("/api/snapshot"))

    def past(self) -> list[Snapshot]:
        """What the server remembers of the last minutes, the oldest first; never nothing."""
        items = self._server.get("/api/snapshots").get("items")
        found = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
        return [self._snapshot(one) for one in found] or [self.once()]

    def _snapshot(self, said: wire.Json) -> Snapshot:
        try:
            return checked_snapshot(wire.snapshot_from_json(said))
        except Invalid as exc:
            raise self._server.of_another_version(exc.reason) from exc

    def subscribe(self, interval_seconds: float, watching: bool = False) -> "Session":
        return Session(self, interval_seconds)

    def patiently(self) -> Snapshot:
        """One snapshot, however long the server is away; it is told when it goes and comes."""
        failures, began = 0, time.monotonic()
        while True:
            try:
                found = self.once()
            except Unavailable as exc:
                if not failures:
                    self._tell(f"{exc.reason}; trying again")
                failures += 1
                time.sleep(retry_seconds(failures))
                continue
            if failures:
                away = human_seconds(time.monotonic() - began)
                self._tell(f"{self._server.url} answers again, after {away}")
            return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Nothing is kept open."""


class Session:
    """New snapshots of a server, asked for at an interval; the same one is given once.

    The first must come; after it the server may restart.
    """

    dropped = 0

    def __init__(self, remote: Remote, interval_seconds: float) -> None:
        self._remote, self._interval = remote, interval_seconds

    def __iter__(self) -> Iterator[Snapshot]:
        last: float | None = None
        while True:
            asked = time.monotonic()
            snapshot = self._remote.once() if last is None else self._remote.patiently()
            if snapshot.at != last:
                last = snapshot.at
                yield snapshot
            time.sleep(max(0.05, asked + self._interval - time.monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Nothing is kept open."""


def connect(url: str, token_file: str | None) -> Server:
    """The server, with the token that is meant for it."""
    return Server(url, token_for(base_url(url), token_file))


def own_server() -> str | None:
    """The URL of the server that this user started on this machine, if it runs."""
    from andon.host import whereabouts
    from andon.web.keys import state_folder

    return whereabouts.find(state_folder())


def token_for(url: str, token_file: str | None) -> str | None:
    """The named file's, else ANDON_TOKEN, else this user's own for a server on this machine."""
    from andon.web.keys import read_token, state_folder

    if token_file is not None:
        return read_token(Path(token_file).expanduser())
    given = os.environ.get("ANDON_TOKEN")
    if given:
        return given.strip()
    own, host = state_folder() / "token", urlsplit(url).hostname or ""
    if (host == "localhost" or is_loopback(host)) and own.is_file():
        return read_token(own)
    return None


def base_url(url: str) -> str:
    """`host`, `host:port` and whole URLs, without anything behind the host and port."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise Invalid(f"{url!r} is not a URL: {exc}", hint="http://HOST:26366") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise Invalid(f"{url!r} is not a URL of a server", hint="http://HOST:26366")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    named = port if port is not None else 26366 if "://" not in url else None
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{host}{'' if named is None else f':{named}'}{path}"
