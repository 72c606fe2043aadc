"""Assembles the server: starts its parts in the right order, and stops them in reverse order."""

import logging
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from andon.access.gate import Rules, is_loopback
from andon.access.proxies import ProxyRules, proxy_rules
from andon.alerts.watcher import Watcher
from andon.app.alerts import open_fleet_watcher, open_watcher
from andon.app.history import maintainer_of, open_recorder, store_kind, store_url
from andon.app.leases import (
    open_lease_tracker,
    open_network_leases,
    open_usage_meter,
    refuse_ambiguous_names,
)
from andon.app.runs import open_run_finder
from andon.app.sampler import open_sampler
from andon.app.uplink import REPORTED_SECONDS, hub_link, open_uplink, past_sender, report_sources
from andon.errors import Conflict, Denied, Unavailable
from andon.exporter import Exposition
from andon.exporter.scrape import scraped
from andon.exporter.spreads import ServerCounts
from andon.fleet.link import HubLink
from andon.host.machine_id import node_name
from andon.host.state import server_file
from andon.host.state.node_folder import open_node_folder
from andon.host.state.user_folder import TOKEN, state_folder
from andon.leases.network import NetworkLeases
from andon.leases.tracker import LeaseTracker
from andon.model.lease_list import LeaseList
from andon.sampling.sampler import Sampler
from andon.sampling.snapshot_feed import PAST_SNAPSHOTS, PlacedFeed, SnapshotFeed
from andon.settings.resolution import Settings
from andon.web.answers.health import HealthPart
from andon.web.fleet.hub import Hub
from andon.web.fleet.reported import Fleet
from andon.web.jobs.opening import open_dispatcher_guard, open_server_jobs
from andon.web.jobs.seen import ServerJobs
from andon.web.listening import (
    ServeOptions,
    Started,
    bound,
    check_certificate,
    names,
    pin_of,
    run,
    url_of,
)
from andon.web.runs.opening import open_server_runs
from andon.web.runs.shown import ServerRuns
from andon.web.server_history import NoHistory, Recorded, ServerHistory
from andon.web.transport import logs
from andon.web.transport.audit import Audit
from andon.web.transport.keys import Keys, make_token
from andon.web.transport.local_calls import LocalCalls
from andon.web.transport.local_sockets import RestSocket, local_sign_in, local_socket
from andon.web.transport.session_file import SessionFile
from andon.web.users.opening import open_shared_files

if TYPE_CHECKING:
    from andon.web.app_state import AppState
    from andon.web.fleet.keeper import Keeper
    from andon.web.lab.filling import OpenLab

FIRST_SNAPSHOT_SECONDS = 5.0
DEMO_CODE_SECONDS = 86_400.0
NODES_KEPT_SECONDS = 30  # between two requests of a node on one connection
log = logging.getLogger("andon.serve")


def serve(
    settings: Settings,
    place: ServeOptions,
    on_ready: Callable[[Started], None],
    demo: "OpenLab | None" = None,
) -> None:
    """Serve until a signal; invalid options are reported before anything starts. `demo` is a
    simulated lab to show."""
    link, proxy = _checked(settings, place)
    folder, person = open_node_folder(), state_folder()
    signal.signal(signal.SIGINT, _interrupted)
    with ExitStack() as stack:
        stack.enter_context(logs.bounded())
        stack.enter_context(server_file.sole_server(folder))
        listening = stack.enter_context(bound(place.host, place.port))
        token, audit = make_token(person), Audit(folder)
        sessions = SessionFile(folder, token)
        keys = Keys(token, file=sessions, demo_user=None if demo is None else demo.jobs.user)
        stack.callback(sessions.close)
        address, port = listening.getsockname()[:2]
        loopback = is_loopback(address)
        say_started(audit, address, port)
        origin = None if demo is None else demo.lab.origin
        sampler = stack.enter_context(open_sampler(settings, origin=origin, host=demo))
        feed = _feed(sampler, settings)
        stack.callback(feed.close)
        feed.wait_for_first(settings.deadline_seconds + FIRST_SNAPSHOT_SECONDS)
        if feed.last is not None:
            refuse_ambiguous_names(settings, feed.last.devices)
        rules = Rules(
            loopback, names(place, loopback), frozenset(settings.server_allow_origins), proxy
        )
        fleet = _fleet(settings, place, keys, stack) if place.history and demo is None else None
        history = _history(sampler, settings, place.history)
        stack.callback(history.close)
        url = url_of(place, address, port)
        linked = settings if loopback else _linked(settings, url)
        open_book = None if demo is None else demo.open_book
        leases = open_lease_tracker(settings, sampler, open_book)
        if leases is not None:
            stack.callback(leases.close)
        if leases is not None and demo is None:
            stack.callback(open_usage_meter(sampler, leases).close)
        watcher = open_watcher(
            linked, sampler, history.vitals, place.history, leases, link is not None
        )
        stack.callback(watcher.close)
        watcher, nodes = _with_nodes(watcher, fleet, linked, sampler.node.name, stack)
        remote_leases = open_network_leases(
            settings, sampler, feed.newest, watcher, leases, place.lends_simulated, open_book
        )
        if remote_leases is not None:
            stack.callback(remote_leases.close)
        here = server_file.local_url(url, address)
        sign_in = stack.enter_context(local_sign_in(keys, here, port, settings.server_sign_in))

        book = partial(_listed, remote_leases)
        recent_book = partial(_listed, remote_leases, REPORTED_SECONDS)
        users = None if demo else open_shared_files(keys.signed_in, recent_book)
        if users is not None:
            stack.callback(users.close)
        files = users if demo is None else demo.users
        own = partial(open_run_finder, settings=settings if place.history else None)
        found = own if demo is None else demo.open_finder
        everywhere = None if fleet is None else lambda: fleet.pasts.runs(None)
        whose = keys.owner.user or "this user"
        runs, close_runs = open_server_runs(whose, files, found, everywhere)
        stack.callback(close_runs)
        jobs, close_jobs = open_server_jobs(
            settings,
            whose,
            book,
            files,
            feed.latest,
            encrypted=loopback or place.certificate is not None,
            own=None if demo is None else demo.jobs,
        )
        stack.callback(close_jobs)
        placed = PlacedFeed(sampler, feed)
        state = _app_state(
            feed, placed, history, keys, watcher, remote_leases, leases, sign_in, runs, jobs,
            fleet, nodes,
        )  # fmt: skip
        counts = partial(_counts, history, watcher, leases, fleet)
        state = _with_exports(state, sampler, folder, counts, stack)
        if link is not None:
            running = (lambda: ()) if jobs is None else jobs.unfinished
            sources = report_sources(watcher, recent_book, running)
            past = past_sender(settings, folder, history.store, watcher)
            uplink = open_uplink(settings, sampler, link, sources, past, remote_leases)
            state.parts["hub"] = uplink
            stack.callback(uplink.close)
        from andon.web.app import build

        built = LocalCalls(build(state, rules, audit))
        stack.enter_context(
            local_socket(
                lambda: RestSocket(port, keys.owner.uid or 0, built, settings.server_sign_in),
                "commands read the devices themselves",
                demo is None,
            )
        )

        def ready() -> None:
            stack.callback(server_file.withdraw, folder)
            server_file.announce(folder, url, address)
            if jobs is not None and demo is None:
                stack.callback(open_dispatcher_guard(sampler).close)
            code = "" if demo is None else keys.new_code(seconds=DEMO_CODE_SECONDS)
            told = (url, port, loopback, person / TOKEN, feed.last, watcher.notifiers, code)
            on_ready(Started(*told))

        run(
            built,
            place,
            listening,
            ready,
            lambda key: keys.grade(key).is_right or _reports(fleet, key),
            NODES_KEPT_SECONDS if fleet is not None else None,
        )


def _listed(leases: NetworkLeases | None, within_seconds: float = 0.0) -> LeaseList | None:
    return None if leases is None else leases.listed(within_seconds)


def _checked(settings: Settings, place: ServeOptions) -> tuple[HubLink | None, ProxyRules | None]:
    """Raises what is wrong before anything starts; returns the link to the hub that is named, and
    which proxy is believed."""
    if place.history:
        store_kind(store_url(settings))  # raises Invalid for one that does not exist
    check_certificate(place)
    proxy = proxy_rules(settings.server_proxy, settings.server_proxy_roles)
    return None if place.hub is None else hub_link(settings, place.hub, waits=True), proxy


def _fleet(settings: Settings, place: ServeOptions, keys: Keys, stack: ExitStack) -> Fleet | None:
    """Returns the nodes that report here: those of a server whose store keeps nodes. Its named
    tokens are keys from now on."""
    url = store_url(settings)
    kind: Any = store_kind(url)
    if not hasattr(kind, "open_nodes") or settings.replay:
        return None

    own = settings.node or node_name()
    hub = Hub(partial(kind.open_nodes, url), bool(settings.alerts_notifiers), pin_of(place), own)
    fleet = Fleet(hub, partial(kind.open_pasts, url), settings)
    with suppress(Unavailable, Conflict, Denied):  # it may be back later
        hub.nodes()
        fleet.tokens.refresh()
    keys.named, keys.named_hash = fleet.tokens.identify, fleet.tokens.hashed
    keys.named_are_read, fleet.tokens.ended = lambda: fleet.tokens.is_read, keys.named_ended
    stack.callback(fleet.close)
    return fleet


def _with_nodes(
    own: Watcher, fleet: Fleet | None, settings: Settings, name: str, stack: ExitStack
) -> "tuple[Watcher, Keeper | None]":
    """Returns the alerts of a server, of a hub with those of its nodes, and what keeps these."""
    if fleet is None:
        return own, None
    from andon.web.fleet.keeper import Keeper
    from andon.web.fleet.telling import FleetAlerts

    alerts = FleetAlerts(own, name, lambda: fleet.pasts, partial(open_fleet_watcher, settings))
    stack.callback(alerts.close)
    keeper = Keeper(fleet, alerts, partial(maintainer_of, settings))
    stack.callback(keeper.close)
    return cast("Watcher", alerts), keeper


def _reports(fleet: Fleet | None, key: str) -> bool:
    return fleet is not None and fleet.hub.reporter(key) is not None


def say_started(audit: Audit, address: str, port: int) -> None:
    """Writes the start to the audit log; a server that cannot write it changes nothing."""
    try:
        audit.write("started", address=address, port=port)
    except Unavailable as exc:
        log.warning("%s; every change is refused until it can", exc.reason)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Handles the first Ctrl-C before the server runs; a second must not stop the cleanup."""
    signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def _feed(sampler: Sampler, settings: Settings) -> SnapshotFeed:
    session = sampler.subscribe(settings.interval_seconds, size=8)
    return SnapshotFeed(session, settings, sampler.costs, sampler.reader_pids, PAST_SNAPSHOTS)


def _linked(settings: Settings, url: str) -> Settings:
    """Returns the settings with the board's URL, unless it is a loopback address."""
    return replace(settings, alerts_board_url=settings.alerts_board_url or url)


def _app_state(
    feed: SnapshotFeed,
    placed: PlacedFeed,
    history: ServerHistory,
    keys: Keys,
    watcher: Watcher,
    remote_leases: NetworkLeases | None,
    leases: LeaseTracker | None,
    sign_in: str | None,
    runs: ServerRuns,
    jobs: ServerJobs | None,
    fleet: Fleet | None,
    keeper: "Keeper | None",
) -> "AppState":
    from andon.web.app_state import AppState

    parts: dict[str, HealthPart] = {"store": history, "alerts": watcher}
    if leases is not None:
        parts["leases"] = leases
    if keeper is not None:
        parts["nodes"] = keeper
    exposition = _exposition(feed, lambda: _counts(history, watcher, leases, fleet))
    return AppState(
        feed,
        keys,
        history,
        parts,
        exposition,
        watcher=watcher,
        remote_leases=remote_leases,
        leases=leases,
        sign_in=sign_in,
        runs=runs,
        jobs=jobs,
        fleet=fleet,
        placed=placed.latest,
    )


def _counts(
    history: ServerHistory,
    watcher: Watcher,
    leases: LeaseTracker | None,
    fleet: Fleet | None,
) -> ServerCounts:
    """Returns counts from memory: a scrape reads neither the store nor the lease book."""
    book = None if leases is None else leases.page()
    held = None if book is None else len(book.claims)
    refused = None if fleet is None else dict(fleet.hub.refused)
    return ServerCounts(history.vitals().size_bytes, watcher.firing(), held, refused)


def _with_exports(
    state: "AppState",
    sampler: Sampler,
    folder: Path,
    counts: Callable[[], ServerCounts],
    stack: ExitStack,
) -> "AppState":
    """Starts the exports if there are any; their health and counts are then shown, too. What is
    shown in a demonstration or from a recording is sent nowhere."""
    settings = state.feed.settings
    if not settings.exports or settings.replay or state.keys.is_demo:
        return state
    from andon.exporter.exports import open_exports

    exports = open_exports(settings, sampler, folder, counts)
    stack.callback(exports.close)
    state.parts["exports"] = exports
    return replace(state, expose=_exposition(state.feed, lambda: exports.added_to(counts())))


def _exposition(feed: SnapshotFeed, counts: Callable[[], ServerCounts]) -> Callable[[], str]:
    exposition = Exposition(feed.settings.exporter_prefix)
    # The event loop must not wait.
    return lambda: scraped(feed, exposition, wait_seconds=0, counts=counts())


def _history(sampler: Sampler, settings: Settings, wanted: bool) -> ServerHistory:
    """The recorder, or NoHistory if history is disabled."""
    if not wanted:
        return NoHistory("history is disabled", "start without --no-history")
    recorder = open_recorder(settings, sampler.subscribe(settings.interval_seconds))
    return Recorded(recorder, settings.history_max_megabytes * 1_000_000)
