"""The server's port, certificate and address, and its main loop."""

import errno
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from andon.access.quotas import MOST, MOST_NODES, RESERVED_FILES, quotas_for
from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.host.files import open_regular
from andon.host.service_manager import WatchdogFeed
from andon.host.state.server_file import local_url
from andon.model.device import Snapshot
from andon.node.connection import fingerprint
from andon.web.transport.headers import App
from andon.web.transport.places import Places
from andon.web.transport.turns import RequestTurns

# The limit on open files; the soft limit is often far below the hard limit.


def raised_limit() -> int | None:
    """Raises the limit to what all connections need, if allowed, and returns it; None if there is
    no limit."""
    try:
        import resource
    except ImportError:  # this system has no such limit
        return None
    wanted = MOST + MOST_NODES + RESERVED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


GRACE_SECONDS = 2
KEEP_ALIVE_SECONDS = 5
BACKLOG = 4096
"""Accepting is fast. When this queue is full the kernel drops everyone's attempts, and they retry
after a second: a short queue would favour whoever connects most often."""


class ServeOptions(Struct, frozen=True):
    """Where to serve, and how."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    history: bool = True
    lends_simulated: bool = False  # whether simulated devices may be leased (--simulate was given)
    hub: str | None = None  # the URL of the hub that this node reports to


class Listening(Struct, frozen=True):
    """Where the server listens, and the address that is printed and linked to."""

    socket: socket.socket
    address: str
    port: int
    url: str
    loopback: bool

    @property
    def local_url(self) -> str:
        return local_url(self.url, self.address)


class Started(Struct, frozen=True):
    """What is printed once the server is ready."""

    url: str
    port: int
    loopback: bool
    token_file: Path
    snapshot: Snapshot | None
    notifiers: tuple[str, ...] = ()
    code: str = ""  # signs a visitor of a demo in, once


def run(
    application: App,
    place: ServeOptions,
    listening: socket.socket,
    ready: Callable[[], None],
    knows: Callable[[str], bool],
    keep_alive_seconds: int | None = None,
    feed: WatchdogFeed | None = None,
) -> None:
    """Serve until a signal. `keep_alive_seconds`: how long a connection may be idle."""
    import uvicorn

    from andon.web.bindings.quiet_server import QuietServer

    config = uvicorn.Config(
        application,
        http="h11",
        loop="asyncio",
        log_config=None,
        log_level="error",  # clients that send garbage must not fill the log
        access_log=False,
        proxy_headers=False,  # an address in a header proves nothing
        server_header=False,
        ws="wsproto",
        ws_max_size=64_000,
        ws_per_message_deflate=False,
        ws_ping_interval=None,  # Socket.IO has its own
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=keep_alive_seconds or KEEP_ALIVE_SECONDS,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    places = Places(quotas_for(raised_limit()))
    server = QuietServer(config, ready, places, RequestTurns(knows), feed)
    # Until the process ends: closing the other parts must not be interrupted either.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    server.run([listening])


def names(place: ServeOptions, loopback: bool) -> frozenset[str]:
    """The names that a Host header may have; IP addresses are checked separately."""
    own = {"localhost", *(name.lower().rstrip(".") for name in place.allowed_hosts)}
    if not loopback:
        own |= {place.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(own)


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket; raises with the reason if there is none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as exc:
        raise Invalid(
            f"{host!r} is not an address of this machine", hint="--host 127.0.0.1"
        ) from exc
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as exc:
            raise _unbound(exc, host, port) from exc
        yield listening


@contextmanager
def given(descriptor: int) -> Iterator[socket.socket]:
    """The listening socket that a service manager opened; it stays open there."""
    with socket.socket(fileno=os.dup(descriptor)) as listening:
        kind = listening.type, bool(listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        inet = listening.family in (socket.AF_INET, socket.AF_INET6)
        if kind != (socket.SOCK_STREAM, True) or not inet:
            hint = "ListenStream= takes an address and a port: 127.0.0.1:26366"
            raise Invalid("the socket of the service manager is not one of TCP", hint=hint)
        yield listening


def _unbound(exc: OSError, host: str, port: int) -> AndonError:
    if exc.errno == errno.EADDRINUSE:
        hint = f"another andon? open http://{host}:{port}, or use: --port {port + 1}"
        return Conflict(f"port {port} on {host} is in use", hint=hint)
    if exc.errno in (errno.EACCES, errno.EPERM):
        return Denied(f"no permission to use port {port}", hint="use a port of 1024 or above")
    reason = f"cannot listen on {host} port {port}: {exc.strerror}"
    return Unavailable(reason, hint="--host takes an address of this machine")


def check_certificate(place: ServeOptions) -> None:
    """Loads the certificate before the start, so that a mistake is a message, not a traceback."""
    if place.certificate is None:
        if place.key is not None:
            raise Invalid("--tls-key needs --tls-cert", hint="give both")
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        for file in filter(None, (place.certificate, place.key)):
            os.close(open_regular(file, follow=True))  # OpenSSL would wait for a pipe
        # Without a password here OpenSSL would ask the terminal for one.
        context.load_cert_chain(place.certificate, place.key, password=lambda: "")
    except (OSError, ValueError) as exc:
        files = f"{place.certificate}" + (f" with {place.key}" if place.key else "")
        reason = getattr(exc, "reason", None) or exc.strerror if isinstance(exc, OSError) else exc
        hint = "use a matching pair of PEM files, the key without a password"
        if place.key is None and isinstance(exc, ssl.SSLError):  # which says only "PEM lib"
            reason, hint = "it, or the key in it, is not PEM", "name the key: --tls-key FILE"
        text = f"the certificate {files} cannot be used: {reason or exc}"
        raise Invalid(text, hint=hint) from exc


def pin_of(place: ServeOptions) -> str | None:
    """Returns the fingerprint of a certificate for which no authority of this system vouches; None
    if one does, or there is none. The two sides of a connection in memory find that out."""
    if place.certificate is None:
        return None
    client, server = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname = False
    server.load_cert_chain(place.certificate, place.key, password=lambda: "")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    for side in sides * 4:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            pem = place.certificate.read_text(errors="replace")
            begin = pem.index(ssl.PEM_HEADER)
            end = pem.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
            return fingerprint(ssl.PEM_cert_to_DER_cert(pem[begin:end]))
    return None


def url_of(place: ServeOptions, address: str, port: int) -> str:
    """The address to print and to link to."""
    scheme = "http" if place.certificate is None else "https"
    everywhere = address in ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
    name = socket.gethostname() if everywhere else address
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"
