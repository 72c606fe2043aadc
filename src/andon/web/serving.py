"""Starts and stops the server: its port, its certificate and its parts in the right order."""

import errno
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from andon import app
from andon.core.access.policy import Rules, is_loopback
from andon.core.access.quotas import places_for
from andon.core.settings.resolution import Settings
from andon.engine.sampling.sampler import Sampler
from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.host.open_files import raised_limit
from andon.host.server import server_file
from andon.host.server.state_folder import open_state_folder
from andon.model.device import Snapshot
from andon.web.answers.health import HealthPart
from andon.web.server_history import ServerHistory, open_history
from andon.web.snapshot_feed import SnapshotFeed
from andon.web.transport import logs
from andon.web.transport.asgi import App
from andon.web.transport.audit import Audit
from andon.web.transport.keys import Keys, make_token

if TYPE_CHECKING:
    from andon.engine.alerting.watcher import Watcher
    from andon.engine.sharing.lease_tracker import LeaseTracker
    from andon.engine.sharing.remote_leases import RemoteLeases
    from andon.web.routes.api import AppState

FIRST_SNAPSHOT_SECONDS = 5.0
GRACE_SECONDS = 2
BACKLOG = 4096
"""Accepting is fast. When this queue is full the kernel drops everyone's attempts, and they retry
after a second: a short queue would favour whoever connects most often."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where to serve, and how."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    history: bool = True
    lends_simulated: bool = False  # whether simulated devices may be leased (--simulate was given)


@dataclass(frozen=True, slots=True)
class Started:
    """What is printed once the server is ready."""

    url: str
    port: int
    loopback: bool
    token_file: Path
    snapshot: Snapshot | None
    notifiers: tuple[str, ...] = ()


def serve(settings: Settings, place: ServeOptions, on_ready: Callable[[Started], None]) -> None:
    """Serve until a signal; invalid options are reported before anything starts."""
    folder = open_state_folder()
    check_certificate(place)
    with ExitStack() as stack:
        stack.enter_context(logs.bounded())
        stack.enter_context(server_file.sole_server(folder))
        listening = stack.enter_context(bound(place.host, place.port))
        keys, audit = Keys(make_token(folder)), Audit(folder)
        address, port = listening.getsockname()[:2]
        loopback = is_loopback(address)
        audit.write("started", address=address, port=port)
        sampler = stack.enter_context(app.open_sampler(settings))
        feed = SnapshotFeed(sampler, settings)
        stack.callback(feed.close)
        feed.wait_for_first(settings.deadline_seconds + FIRST_SNAPSHOT_SECONDS)
        if feed.last is not None:
            app.refuse_ambiguous_names(settings, feed.last.devices)
        rules = Rules(loopback, names(place, loopback))
        history = open_history(sampler, settings, place.history)
        stack.callback(history.close)
        url = _url(place, address, port)
        linked = settings if loopback else _linked(settings, url)
        leases = app.open_lease_tracker(settings, sampler)
        if leases is not None:
            stack.callback(leases.close)
        watcher = app.open_watcher(linked, sampler, history.vitals, place.history, leases)
        stack.callback(watcher.close)
        remote_leases = _remote_leases(
            sampler, feed, settings, watcher, leases, place.lends_simulated
        )
        if remote_leases is not None:
            stack.callback(remote_leases.close)
        state = _app_state(feed, history, keys, watcher, remote_leases, leases)
        built = _build(state, audit, rules)

        def ready() -> None:
            stack.callback(server_file.withdraw, folder)
            server_file.announce(folder, url, address)
            token = folder / "token"
            on_ready(Started(url, port, loopback, token, feed.last, watcher.notifiers))

        _run(built, place, listening, ready, lambda key: keys.grade(key).is_right)


def _linked(settings: Settings, url: str) -> Settings:
    """Notifications link to the board; a loopback address would be useless in them."""
    return replace(settings, alerts_board_url=settings.alerts_board_url or url)


def _app_state(
    feed: SnapshotFeed,
    history: ServerHistory,
    keys: Keys,
    watcher: "Watcher",
    remote_leases: "RemoteLeases | None",
    leases: "LeaseTracker | None",
) -> "AppState":
    from andon.web.routes.api import AppState

    parts: dict[str, HealthPart] = {"store": history, "alerts": watcher}
    if leases is not None:
        parts["leases"] = leases
    exposition = _exposition(feed)
    return AppState(
        feed,
        keys,
        history,
        parts,
        exposition,
        watcher=watcher,
        remote_leases=remote_leases,
        leases=leases,
    )


def _remote_leases(
    sampler: Sampler,
    feed: SnapshotFeed,
    settings: Settings,
    watcher: "Watcher",
    leases: "LeaseTracker | None",
    simulated: bool,
) -> "RemoteLeases | None":
    """It uses the sampler's snapshots: this process calls no driver."""
    if leases is None:
        return None  # a recording, or a system without locks
    from andon.engine.sharing.availability import Availability
    from andon.engine.sharing.remote_leases import RemoteLeases
    from andon.engine.sharing.turn_memory import TurnMemory

    availability = Availability(
        lambda: sampler.once(hasty=True),
        app.labels_of(settings),
        app.weights_of(settings),
        simulated=simulated,
        broken=watcher.broken_devices,
        memory=TurnMemory(),
    )
    remote_leases = RemoteLeases(availability, feed.latest, follows=leases.why_not)
    leases.listen(remote_leases.changed)
    return remote_leases


def _build(state: "AppState", audit: Audit, rules: Rules) -> App:
    from andon.web.app import build

    return build(state, rules, audit)


def _exposition(feed: SnapshotFeed) -> Callable[[], str]:
    from andon.exporter import Exposition

    exposition = Exposition(feed.settings.exporter_prefix)

    def text() -> str:
        snapshot = feed.last
        if snapshot is None:
            raise Unavailable("no reading yet", hint="try again in a few seconds")
        return exposition.render(snapshot, feed.costs(), time.time())

    return text


def _run(
    application: App,
    place: ServeOptions,
    listening: socket.socket,
    ready: Callable[[], None],
    knows: Callable[[str], bool],
) -> None:
    import uvicorn

    from andon.web.bindings.quiet_server import QuietServer
    from andon.web.transport.places import Places
    from andon.web.transport.turns import RequestTurns

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
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
    places = Places(places_for(raised_limit()))
    # uvicorn raises the signal that stopped it again after its shutdown.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with suppress(KeyboardInterrupt):
        QuietServer(config, ready, places, RequestTurns(knows)).run([listening])


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


def _unbound(exc: OSError, host: str, port: int) -> AndonError:
    if exc.errno == errno.EADDRINUSE:
        hint = f"another andon? open http://{host}:{port}, or use: --port {port + 1}"
        return Conflict(f"port {port} on {host} is in use", hint=hint)
    if exc.errno in (errno.EACCES, errno.EPERM):
        return Denied(f"no permission to use port {port}", hint="use a port of 1024 or above")
    reason = f"cannot listen on {host} port {port}: {exc.strerror}"
    return Unavailable(reason, hint="--host takes an address of this machine")


def check_certificate(place: ServeOptions) -> None:
    """Load it once before the start, so that a mistake is an error message, not a traceback."""
    if place.certificate is None:
        if place.key is not None:
            raise Invalid("--tls-key needs --tls-cert", hint="give both")
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password here OpenSSL would ask the terminal for one.
        context.load_cert_chain(place.certificate, place.key, password=lambda: "")
    except (OSError, ValueError) as exc:
        files = f"{place.certificate}" + (f" with {place.key}" if place.key else "")
        reason = getattr(exc, "reason", None) or exc.strerror if isinstance(exc, OSError) else exc
        raise Invalid(
            f"the certificate {files} cannot be used: {reason or exc}",
            hint="use a matching pair of PEM files, the key without a password",
        ) from exc


def _url(place: ServeOptions, address: str, port: int) -> str:
    scheme = "http" if place.certificate is None else "https"
    everywhere = address in ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
    name = socket.gethostname() if everywhere else address
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"
