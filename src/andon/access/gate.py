"""Decides what a request may do, from its address, method, Host, Origin and key.

A foreign web page can make a browser send requests to this machine. Three checks stop it: the Host
must be one of our names (a rebound DNS name is not), the Origin must be ours, and there is no
cookie that a browser would send automatically.
"""

import ipaddress
import re
from enum import StrEnum

from msgspec import Struct

from andon.access.proxies import ProxyRules
from andon.access.roles import ANONYMOUS, Identity, action_of, refusal_for
from andon.access.server_proof import PATH as PROOF

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SESSION = "/api/session"
SHELL = frozenset({"/", "/healthz", "/favicon.ico", "/docs", "/docs/style.css", PROOF, SESSION})
"""What anyone may fetch; it contains no readings. The page must load before it can send a key and
learn what it may do, and a client sends its token only after the server has proved that it knows
it."""
SHELL_FOLDER = "/static/"
CALENDARS = "/calendar/"
"""Calendar programs send no header: the key is a part of the path, and the route checks it."""
EXCHANGE = ("POST", SESSION)
"""Takes a one-time code instead of a key."""
ESTIMATE = "/api/estimate"
_OF_NODE = re.compile(r"/api/nodes/[^/]+/estimate")
LIVE = "/socket.io/"

_PROXY_HEADER = re.compile(
    r"via|front-end-https|cf-.*|cdn-.*|fastly-.*|fly-.*|akamai-.*|true-client.*|proxy-(?!auth).*"
    r"|.*(?:forwarded|forwarder|client-?ip|real-?ip|remote-?(?:addr|ip|host)|connecting-?ip"
    r"|originating|user-ip|proxied|proxyuser|external-address).*"
    r"|x-(?:original|envoy|appengine|azure|amzn?|cloud|google|vercel|nginx|varnish|arr|proxy|host"
    r"|scheme|url-scheme|rewrite|tunnel|ngrok|tailscale|cluster|gateway|lb|traefik)(?:-.*)?"
    r"|ngrok-.*|tailscale-.*|x-remote.*"
)
"""Headers that proxies, tunnels and content networks add."""

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<place>[^/?#@\s]+)", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class ShownKey(StrEnum):
    """The kind of key that the caller sent."""

    NONE = "none"
    WRONG = "wrong"
    UNCHECKED = "unchecked"  # a hub cannot read its tokens now
    CODE = "code"  # a one-time code, to be exchanged for a session
    SESSION = "session"
    TOKEN = "token"  # noqa: S105 (the name of a kind, not a secret)
    NAMED = "named"  # a token of a hub with a name and a role
    PROXY = "proxy"  # none, but a proxy names the person

    @property
    def is_right(self) -> bool:
        return self not in (ShownKey.NONE, ShownKey.WRONG, ShownKey.UNCHECKED, ShownKey.CODE)


class Rules(Struct, frozen=True):
    """How the server was started: on loopback or not, and the names it answers to."""

    loopback: bool
    names: frozenset[str] = frozenset({"localhost"})
    origins: frozenset[str] = frozenset()  # of other sites whose pages may use this server
    proxy: ProxyRules | None = None


class AccessRequest(Struct, frozen=True):
    """What matters for access in one request or WebSocket handshake."""

    method: str
    path: str
    hosts: tuple[str, ...]
    peer: str | None = "127.0.0.1"
    origins: tuple[str, ...] = ()
    fetch_site: str | None = None
    fetch_mode: str | None = None
    forwarded: bool = False  # sent by a proxy for another client
    admitted: bool = False  # continues a live connection that was admitted before
    key: ShownKey = ShownKey.NONE
    who: Identity = ANONYMOUS


class Refusal(Struct, frozen=True):
    """An HTTP status, the reason for it, and what to do."""

    status: int
    reason: str
    hint: str


FULL = Refusal(503, "all connections of this server are in use", "try again in a few seconds")
UNCHECKED = Refusal(503, "this hub cannot check tokens now", "try again in a few seconds")
FULL_SECONDS = 10.0
"""For Retry-After."""


def judge(call: AccessRequest, rules: Rules) -> Refusal | None:
    """Returns why the request is refused; None if it is allowed."""
    return _check_origin(call, rules) or _check_key(call, rules) or _check_role(call)


def may_read(call: AccessRequest, rules: Rules) -> bool:
    """Whether the caller may see readings: with a key, and on loopback without one."""
    return call.key.is_right or (rules.loopback and is_loopback(call.peer) and not call.forwarded)


def allowed_origin(call: AccessRequest, rules: Rules) -> str | None:
    """The origin of another site's page that the settings allow; None for every other request."""
    if len(call.origins) != 1:
        return None
    origin = call.origins[0].lower()
    return origin if origin in rules.origins else None


def is_origin(text: str) -> bool:
    """Whether it is exactly one origin as browsers send it: no path, no wildcard, not "null"."""
    found = _ORIGIN.fullmatch(text)
    place = parse_host(found["place"]) if found else None
    if found is None or place is None or text != text.lower():
        return False
    return place[1] != _DEFAULT_PORTS[found["scheme"]] and not found["place"].endswith((".", ":"))


def changes(call: AccessRequest) -> bool:
    """Whether the request may change state; the transport of live events does not."""
    if call.method == "POST" and is_estimate(call.path):
        return False
    return call.method not in SAFE_METHODS and not _is_live(call)


def is_estimate(path: str) -> bool:
    """Whether it requests an estimate, also on a node of a hub: its body changes nothing."""
    return path == ESTIMATE or _OF_NODE.fullmatch(path) is not None


def is_open(call: AccessRequest) -> bool:
    """Whether it needs no key on any address."""
    if (call.method, call.path) == EXCHANGE:
        return True
    return call.method in ("GET", "HEAD") and (
        call.path in SHELL or call.path.startswith((SHELL_FOLDER, CALENDARS))
    )


def is_proxy_header(header: str) -> bool:
    """Whether a header name, in lower case, shows that a proxy forwarded the request."""
    return _PROXY_HEADER.fullmatch(header) is not None


def is_loopback(address: str | None) -> bool:
    """Whether an address is a loopback address; a name is not an address."""
    found = _address(address or "")
    return found is not None and found.is_loopback


def _check_origin(call: AccessRequest, rules: Rules) -> Refusal | None:
    host = parse_host(call.hosts[0]) if len(call.hosts) == 1 else None
    if host is None or not _is_ours(host[0], rules):
        return Refusal(
            403,
            "the Host header is not a name of this server",
            "use http://localhost, or start it with: andon serve --allow-host NAME",
        )
    if allowed_origin(call, rules) is not None:
        return None
    if any(not _same_server(origin, host) for origin in call.origins) or len(call.origins) > 1:
        return Refusal(
            403, "pages of other sites may not use this server", "open the server's own page"
        )
    from_elsewhere = call.fetch_site in ("cross-site", "same-site")
    if from_elsewhere and not (call.fetch_mode == "navigate" and call.method == "GET"):
        return Refusal(
            403, "pages of other sites may not use this server", "open the server's own page"
        )
    return None


def _check_key(call: AccessRequest, rules: Rules) -> Refusal | None:
    if call.key is ShownKey.WRONG:
        return Refusal(
            401,
            "wrong token for this server",
            "the server's token is in its state folder; in a browser sign in again: andon open",
        )
    if call.key.is_right or is_open(call):
        return None
    if call.key is ShownKey.UNCHECKED:
        return UNCHECKED
    if changes(call):
        return Refusal(401, "changes need the token", _HOW_TO_SIGN_IN)
    if may_read(call, rules):
        return None
    if call.admitted and _is_live(call):
        return None
    return Refusal(401, "reading from this address needs the token", _HOW_TO_SIGN_IN)


def _check_role(call: AccessRequest) -> Refusal | None:
    """Returns a refusal for what a role can never do; ownership is checked where it is known."""
    if not call.key.is_right or not changes(call) or is_open(call):
        return None
    refused = refusal_for(call.who, action_of(call.method, call.path), is_own=True)
    return None if refused is None else Refusal(403, refused.reason, refused.hint)


_HOW_TO_SIGN_IN = "send Authorization: Bearer TOKEN, or in a browser: andon open"


def parse_host(text: str) -> tuple[str, int | None] | None:
    """Parses the name and port of a Host header; None if it is malformed."""
    found = _HOST.fullmatch(text.lower())
    if found is None:
        return None
    port = None if found["port"] is None else int(found["port"])
    if port is not None and port > 65535:
        return None
    return found["name"].removesuffix(".").strip("[]"), port


def _is_ours(name: str, rules: Rules) -> bool:
    """Whether a Host is ours; an IP address is safe, because DNS rebinding needs a name."""
    if name in rules.names:
        return True
    address = _address(name)
    return address is not None and (address.is_loopback or not rules.loopback)


def _same_server(origin: str, host: tuple[str, int | None]) -> bool:
    """Whether an origin is this server; ignores the scheme, because a proxy may terminate TLS.
    Without a port, the scheme's default."""
    found = _ORIGIN.fullmatch(origin.lower())
    place = parse_host(found["place"]) if found else None
    if found is None or place is None:
        return False
    default = _DEFAULT_PORTS[found["scheme"]]
    return (place[0], place[1] or default) == (host[0], host[1] or default)


def _is_live(call: AccessRequest) -> bool:
    return call.path.startswith(LIVE)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
