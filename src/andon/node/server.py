"""An andon server over HTTP: which server, with which token, one request at a time."""

import os
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from andon.access.gate import is_loopback
from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.failures.rules.backoff import BackOff
from andon.host.files import expanded
from andon.host.state import server_file
from andon.host.state.user_folder import node_path, own_token, read_token, state_folder
from andon.model import wire
from andon.node.calls import (
    Answer,
    CallLimits,
    ProvenPool,
    SentRequest,
    Target,
    Token,
    Trust,
    call,
    connection_pool,
)
from andon.node.connection import FAILURES, NO_TLS, NOT_PINNED, RemoteDisconnected, plain_message
from andon.node.rest import HEALTH, MINUTES, Notify, of_another_version, parsed, refusal
from andon.settings.table import USUAL_PORT

if TYPE_CHECKING:  # most servers need no sign-in
    from andon.node.sign_in import LocalSession

LIMITS = CallLimits(timeout_seconds=10.0, most_bytes=32 << 20)
MINUTES_LIMITS = LIMITS._replace(most_bytes=64 << 20)  # two minutes of 256 GPUs
FILE_SECONDS = 120.0
END_LIMITS = CallLimits(timeout_seconds=1.0, most_bytes=1 << 20)  # of a session that ends anyway
API = "/api/"
T = TypeVar("T")
BACK_OFF = BackOff(0.5, 30.0, at_once=0)
PASS_TOKEN = "pass its token with --token-file FILE or ANDON_TOKEN"  # noqa: S105 (a hint)
CLEAR_TEXT = "the token is sent over the network in clear text: use https or an SSH tunnel"
UNKNOWN_AUTHORITY = (18, 19, 20, 21)  # X509_V_ERR_*: self-signed, or no issuer that is trusted


class Server:
    """An andon server, one request at a time."""

    def __init__(
        self, target: Target, no_token: AndonError | None = None, signs_in: bool = False
    ) -> None:
        self.url, self._target = target.url, target
        self._no_token = no_token  # why our own token cannot be used
        self._signs_in = signs_in  # as this user, where the server wants to know who asks
        self._limits = LIMITS
        self._below = ""
        self._as_user = False
        self._session: LocalSession | None = None
        self._pool: ProvenPool | None = None

    def of_node(self, name: str) -> Self:
        """Returns the same server for one of its nodes, if it is a hub."""
        other = copy(self)
        other._below = f"/api/nodes/{quote(name, safe='')}/"
        return other

    def as_user(self) -> Self:
        """Returns the same server with this user's credentials, unless a token was named, for what
        is this user's own. One session is used until `close`."""
        other = copy(self)
        other._as_user = self._signs_in
        return other

    def keeping(self) -> Self:
        """Returns the same server with connections that are reused until `close`, also by its
        copies."""
        other = copy(self)
        other._pool = connection_pool(self._target)
        return other

    def within(self, limits: CallLimits) -> Self:
        """Returns the same server with other limits."""
        other = copy(self)
        other._limits = limits
        return other

    def get(self, path: str, **request: object) -> wire.Json:
        """Returns the answer to a GET of a path that every server of this version has."""
        given = {name: value for name, value in request.items() if value is not None}
        limits = MINUTES_LIMITS if path == MINUTES else self._limits
        asking = SentRequest("GET", f"{path}?{urlencode(given)}" if given else path)
        try:
            return parsed(self.url, self._answer(asking, limits).body, path)
        except Gone as exc:
            if f"not found: {path}" not in exc.reason:
                raise
            raise self.of_another_version(f"it has no {path}") from exc

    def get_as(self, path: str, read: Callable[[wire.Json], T]) -> T:
        """Gets a path, and parses an answer that every server of this version gives."""
        try:
            return read(self.get(path))
        except Invalid as exc:
            raise self.of_another_version(exc.reason) from exc

    def of_another_version(self, difference: str) -> AndonError:
        """Returns the error for a server that is older or newer than this command."""
        return of_another_version(self.url, lambda: self._ask("GET", HEALTH), difference)

    def post(self, path: str, body: wire.Json | None = None) -> wire.Json:
        return self._ask("POST", path, body)

    def delete(self, path: str) -> wire.Json:
        return self._ask("DELETE", path)

    def fetch(self, path: str, most_bytes: int, sink: Callable[[bytes], object]) -> None:
        """Downloads a file in pieces; signs in as this user if the server requires it."""
        limits = CallLimits(FILE_SECONDS, most_bytes)
        self._answer(SentRequest("GET", path, sink=sink), limits, signing_in=(401, 403))

    def _ask(self, method: str, path: str, body: wire.Json | None = None) -> wire.Json:
        data = None if body is None else wire.dumps(body).encode()
        return parsed(self.url, self._answer(SentRequest(method, path, data), LIMITS).body)

    def _answer(
        self, request: SentRequest, limits: CallLimits, signing_in: tuple[int, ...] = (401,)
    ) -> Answer:
        deadline = limits.deadline
        if self._below and request.path.startswith(API) and request.path != HEALTH:
            request = request._replace(path=self._below + request.path.removeprefix(API))
        try:
            known = self._call_in_session(request, limits) if self._as_user else None
            answer = known or call(self._target, request, limits.until(deadline), self._pool)
            if known is None and answer.status in signing_in and self._signs_in:
                answer = self._call_as_user(request, limits.until(deadline)) or answer
        except FAILURES as exc:
            raise Unavailable(
                f"{self.url} cannot be reached: {plain_message(exc)}",
                hint=reach_hint(exc),
                cause="unreached",
            ) from exc
        if not 200 <= answer.status < 300:  # an andon server never redirects
            raise self._refused(answer)
        return answer

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        if self._session is not None:
            self._session.end(END_LIMITS)
            self._session = None

    def _call_in_session(self, request: SentRequest, limits: CallLimits) -> Answer | None:
        """Sends the request in the current session, and signs in again if that has ended; None if
        the server offers no sign-in."""
        from andon.node.sign_in import NoLocalSignIn, open_session

        deadline, known = limits.deadline, self._session
        try:
            self._session = known or open_session(self.url, limits)
            answer = self._session.call(request, limits.until(deadline))
            if known is not None and answer.status == 401:
                self._session = open_session(self.url, limits.until(deadline))
                answer = self._session.call(request, limits.until(deadline))
        except NoLocalSignIn:
            self._as_user = False
            return None
        return answer

    def _call_as_user(self, request: SentRequest, limits: CallLimits) -> Answer | None:
        """Sends the request as this user, whom the kernel identifies; None if the server is on
        another machine."""
        from andon.node.sign_in import NoLocalSignIn, open_session

        deadline = limits.deadline
        try:
            session = open_session(self.url, limits)
        except NoLocalSignIn:
            return None
        try:
            return session.call(request, limits.until(deadline))
        finally:
            session.end(END_LIMITS)

    def _refused(self, answer: Answer) -> AndonError:
        """Returns the server's own error, with a hint about the token."""
        if answer.status != 401:
            return refusal(self.url, answer.status, answer.body)
        doubt = "" if answer.doubt is None else f"your own token was not sent, {answer.doubt}; "
        error = refusal(self.url, answer.status, answer.body, doubt + PASS_TOKEN)
        return self._no_token if self._no_token and isinstance(error, Denied) else error


def reach_hint(exc: BaseException) -> str:
    """Returns what to do about a server that cannot be reached."""
    code = getattr(exc, "verify_code", None)  # of ssl.SSLCertVerificationError
    if getattr(exc, "reason", None) == NO_TLS:
        return "use http:// instead of https://"
    if isinstance(exc, RemoteDisconnected):
        return "use https:// if it has a certificate; else check that andon serve is running there"
    if NOT_PINNED in str(exc):
        return "if it was renewed, set ANDON_HUB_PIN to the one that andon nodes add prints there"
    if code is None:
        return "check that andon serve is running there"
    if code in UNKNOWN_AUTHORITY:
        return "if you trust it, set SSL_CERT_FILE to its certificate or to that of its authority"
    return "use a name that is in the certificate, or have it renewed"


def connect(url: str, token_file: str | None, notify: Notify) -> Server:
    """Connects to the named server, with the token meant for it."""
    url = base_url(url)
    token, no_token = token_for(url, token_file)
    warn_of_clear_text(url, token, notify)
    return Server(Target(url, Trust.NAMED, token), no_token, signs_in=_may_sign_in(token))


def own_server() -> Server | None:
    """This user's own server on this machine, if it is running; it must prove its identity."""
    url = server_file.find(node_path())
    if url is None:
        return None
    try:
        return Server(Target(url, Trust.PROVEN, Token(own_token(state_folder()))))
    except AndonError:
        return None


def service(url: str, token_file: str | None) -> Server:
    """Returns the system's server on its usual port; this user's own token is not sent to it."""
    token = _given(token_file)
    return Server(Target(url, Trust.SERVICE, token), signs_in=_may_sign_in(token))


def _may_sign_in(token: Token | None) -> bool:
    """Whether signing in may be tried: with a named token nothing else is tried."""
    return token is None or token.own


def token_for(url: str, token_file: str | None) -> tuple[Token | None, AndonError | None]:
    """Returns the token of the named file, else ANDON_TOKEN, else this user's own for a local
    server; and why that one cannot be used, which matters only if the server requires it."""
    given = _given(token_file)
    if given is not None or not _is_local(url):
        return given, None
    try:
        return Token(own_token(state_folder())), None
    except Unavailable:
        return None, None
    except AndonError as exc:
        return None, exc


def _given(token_file: str | None) -> Token | None:
    """Returns the token that the user gave, which is meant for this server only."""
    if token_file is not None:
        return Token(read_token(expanded(token_file)), own=False)
    given = os.environ.get("ANDON_TOKEN", "").strip()
    return Token(given, own=False) if given else None


def warn_of_clear_text(url: str, token: Token | None, notify: Notify) -> None:
    if token is not None and url.startswith("http:") and not _is_local(url):
        notify(CLEAR_TEXT)


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or is_loopback(host)


def base_url(url: str) -> str:
    """Parses `host`, `host:port` or a whole URL; returns it without a trailing slash."""
    text = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        raise Invalid(f"{url!r} is not a URL: {exc}", hint=f"http://HOST:{USUAL_PORT}") from exc
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise Invalid(f"{url!r} is not a server's URL", hint=f"http://HOST:{USUAL_PORT}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    named = port if port is not None else USUAL_PORT if "://" not in url else None
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{host}{'' if named is None else f':{named}'}{path}"
