"""Starts a server from the list of its parts, and ends it."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from andon.access.proxies import proxy_rules
from andon.alerts.watcher import Watcher
from andon.app.history import store_kind, store_url
from andon.app.parts import run_with
from andon.app.servers import kinds
from andon.host.service_manager import ServiceManager, WatchdogFeed, taken
from andon.host.state import server_file
from andon.host.state.node_folder import open_node_folder
from andon.host.state.user_folder import TOKEN, state_folder
from andon.jobs.dispatcher_guard import DispatcherGuard
from andon.node.watched.live import PAST_SNAPSHOTS, WatchedLive
from andon.settings.resolution import Settings
from andon.web.fleet.nodes import Fleet
from andon.web.listening import Listening, ServeOptions, Started, check_certificate, run
from andon.web.transport.keys import Keys
from andon.web.transport.local_calls import LocalCalls

NODE_KEEP_ALIVE_SECONDS = 30  # between two requests of a node on one connection


def serve(
    settings: Settings,
    place: ServeOptions,
    on_ready: Callable[[Started], None],
    reread: Callable[[], Settings],
) -> None:
    """Serve until a signal; invalid options are reported before anything starts. `reread` reads the
    settings again, for SIGHUP."""
    parts = kinds.hub() if _keeps_nodes(settings, place) else kinds.PLAIN
    _serve(parts, settings, place, on_ready, reread=reread)


def serve_demo(
    settings: Settings, place: ServeOptions, on_ready: Callable[[Started], None]
) -> None:
    """Serve the demo until a signal. The stores of the settings must be new."""
    _serve(kinds.demo(), settings, place, on_ready)


def _serve(
    parts: kinds.Parts,
    settings: Settings,
    place: ServeOptions,
    on_ready: Callable[[Started], None],
    **given: object,
) -> None:
    check_certificate(place)
    proxy = proxy_rules(settings.server_proxy, settings.server_proxy_roles)
    if place.hub is not None:
        from andon.app.uplink import hub_link

        parts = kinds.with_hub(parts)
        given["link"] = hub_link(settings, place.hub, waits=True)
    signal.signal(signal.SIGINT, _interrupted)
    run_with(
        parts,
        until_signal,
        settings=settings,
        place=place,
        proxy=proxy,
        folder=open_node_folder(),
        on_ready=on_ready,
        service=taken(),
        keeps_history=place.history,
        lends_simulated=place.lends_simulated,
        past_snapshots=PAST_SNAPSHOTS,
        **given,
    )


def _keeps_nodes(settings: Settings, place: ServeOptions) -> bool:
    """Whether it is a hub: its store has a place for nodes. Invalid if there is no such store."""
    if not place.history:
        return False
    return hasattr(store_kind(store_url(settings)), "open_nodes") and not settings.replay


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Handles the first Ctrl-C before the server runs; a second must not stop the cleanup."""
    signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def until_signal(
    application: LocalCalls,
    place: ServeOptions,
    listening: Listening,
    keys: Keys,
    folder: Path,
    live: WatchedLive,
    watcher: Watcher,
    on_ready: Callable[[Started], None],
    service: ServiceManager,
    dispatcher_guard: DispatcherGuard | None = None,
    fleet: Fleet | None = None,
    watchdog_feed: WatchdogFeed | None = None,
    code: str = "",
) -> None:
    """Serves; the server is announced once it accepts requests."""

    def ready() -> None:
        server_file.announce(folder, listening.url, listening.address)
        if dispatcher_guard is not None:
            dispatcher_guard.start()
        token_file = state_folder() / TOKEN
        on_ready(
            Started(
                listening.url, listening.port, listening.loopback, token_file, live.last,
                watcher.notifiers, code,
            )
        )  # fmt: skip
        service.ready(f"serving {listening.url}")

    def knows(key: str) -> bool:
        is_reporter = fleet is not None and fleet.hub.reporter(key) is not None
        return is_reporter or keys.grade(key).is_right

    keep_alive_seconds = None if fleet is None else NODE_KEEP_ALIVE_SECONDS
    try:
        run(application, place, listening.socket, ready, knows, keep_alive_seconds, watchdog_feed)
    finally:
        service.stopping()
        server_file.withdraw(folder)
