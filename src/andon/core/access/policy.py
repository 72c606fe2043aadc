"""Who may do what at the server, from the address, the method, Host, Origin and the key shown.

A page of a stranger can make a browser send requests to this machine. Three things stop it here:
the Host must be a name of ours (a rebound name is not), the Origin must be ours (a foreign page
is not), and no cookie exists that a browser would send along by itself.
"""

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum

from andon.core.access.server_proof import PATH as PROOF

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
SHELL = frozenset({"/", "/healthz", "/favicon.ico", PROOF})
"""What anyone may fetch: it holds no reading. The page has to load before it can show a key, and
a client sends its token only after the server has proved that it knows it."""
SHELL_FOLDER = "/static/"
EXCHANGE = ("POST", "/api/session")
"""A one-time code is shown here instead of a key."""
LIVE = "/socket.io/"

PROXY_HEADERS = frozenset(
    {
        "forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip",
        "cf-connecting-ip", "cf-connecting-ipv6", "cf-ray", "fastly-client-ip", "fly-client-ip",
        "x-original-host", "x-original-forwarded-for", "x-envoy-external-address",
        "x-appengine-user-ip", "x-azure-clientip",
    }
)  # fmt: skip
"""What proxies add, beside all that begins with `x-forwarded`."""

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<place>[^/?#@\s]+)", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class ShownKey(StrEnum):
    """What the caller showed."""

    NONE = "none"
    WRONG = "wrong"
    CODE = "code"  # a one-time code, where one is exchanged for a session
    SESSION = "session"
    TOKEN = "token"  # noqa: S105 (the name of a kind, not a secret)

    @property
    def is_right(self) -> bool:
        return self in (ShownKey.SESSION, ShownKey.TOKEN)


@dataclass(frozen=True, slots=True)
class Rules:
    """How the server was started: on loopback or not, and the names it answers to."""

    loopback: bool
    names: frozenset[str] = frozenset({"localhost"})


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One request or WebSocket handshake, as far as it decides about access."""

    method: str
    path: str
    hosts: tuple[str, ...]
    peer: str | None = "127.0.0.1"
    origins: tuple[str, ...] = ()
    fetch_site: str | None = None
    fetch_mode: str | None = None
    forwarded: bool = False  # a proxy says that it speaks for somebody else
    admitted: bool = False  # it goes on with a live connection that was let in before
    key: ShownKey = ShownKey.NONE


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, and what to do; the status is HTTP's."""

    status: int
    reason: str
    hint: str


def judge(call: AccessRequest, rules: Rules) -> Refusal | None:
    """None lets the call through."""
    return _foreign(call, rules) or _keyless(call, rules)


def changes(call: AccessRequest) -> bool:
    """Whether the call may change state; the live connection's own transport does not."""
    return call.method not in SAFE_METHODS and not _is_live(call)


def is_open(call: AccessRequest) -> bool:
    """What needs no key on any address."""
    if (call.method, call.path) == EXCHANGE:
        return True
    return call.method in ("GET", "HEAD") and (
        call.path in SHELL or call.path.startswith(SHELL_FOLDER)
    )


def is_proxys(header: str) -> bool:
    """Whether a header, in small letters, says that the request came by way of a proxy."""
    return header in PROXY_HEADERS or header.startswith("x-forwarded")


def is_loopback(address: str | None) -> bool:
    """Whether an address is this machine's own; a name is not an address."""
    found = _address(address or "")
    return found is not None and found.is_loopback


def _foreign(call: AccessRequest, rules: Rules) -> Refusal | None:
    host = parse_host(call.hosts[0]) if len(call.hosts) == 1 else None
    if host is None or not _is_ours(host[0], rules):
        return Refusal(
            403,
            "the Host header is not a name of this server",
            "use http://localhost, or start it with: andon serve --allow-host NAME",
        )
    if any(not _same_place(origin, host) for origin in call.origins) or len(call.origins) > 1:
        return Refusal(
            403, "another site's page may not use this server", "open the server's own page"
        )
    from_elsewhere = call.fetch_site in ("cross-site", "same-site")
    if from_elsewhere and not (call.fetch_mode == "navigate" and call.method == "GET"):
        return Refusal(
            403, "another site's page may not use this server", "open the server's own page"
        )
    return None


def _keyless(call: AccessRequest, rules: Rules) -> Refusal | None:
    if call.key is ShownKey.WRONG:
        return Refusal(
            401,
            "the token is not this server's",
            "the server's token is in its state folder; a session ends with the server: andon open",
        )
    if call.key.is_right or is_open(call):
        return None
    if changes(call):
        return Refusal(401, "changing something needs the token", _HOW)
    if rules.loopback and is_loopback(call.peer) and not call.forwarded:
        return None
    if call.admitted and _is_live(call):
        return None
    return Refusal(401, "this address needs the token for reading, too", _HOW)


_HOW = "send Authorization: Bearer TOKEN, or in a browser: andon open"


def parse_host(text: str) -> tuple[str, int | None] | None:
    """The name and port of a Host header; None for anything that is not plainly one."""
    found = _HOST.fullmatch(text.lower())
    if found is None:
        return None
    port = None if found["port"] is None else int(found["port"])
    if port is not None and port > 65535:
        return None
    return found["name"].removesuffix(".").strip("[]"), port


def _is_ours(name: str, rules: Rules) -> bool:
    """A rebound name needs a name: an address in the Host header cannot lie."""
    if name in rules.names:
        return True
    address = _address(name)
    return address is not None and (address.is_loopback or not rules.loopback)


def _same_place(origin: str, host: tuple[str, int | None]) -> bool:
    """Scheme apart: a proxy may speak TLS for us. Without a port it is the scheme's own."""
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
