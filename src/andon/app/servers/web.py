"""The parts that show a server's node, and let people act on it."""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from andon.access.gate import Rules
from andon.access.proxies import ProxyRules
from andon.alerts.watcher import Watcher
from andon.app.clusters import open_pollers
from andon.app.leases import labels_of
from andon.app.runs import open_run_finder
from andon.app.servers.reloading import SettingsInForce
from andon.exporter.exposition import Exposition
from andon.exporter.scrape import scraped
from andon.exporter.spreads import ServerCounts
from andon.jobs.dispatcher_guard import CHECK_SECONDS, DispatcherGuard
from andon.jobs.folder import JobsFolder, jobs_path
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.starting import start_dispatcher
from andon.leases.network import NetworkLeases
from andon.leases.tracker import LeaseTracker
from andon.leases.usage_meter import COUNT_SECONDS, UsageMeter
from andon.node.exact_desk import OwnDesk
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.leases import RECENT_SECONDS
from andon.node.watched.live import WatchedLive
from andon.node.watched.node import WatchedNode
from andon.node.watched.runs import ServedRuns
from andon.node.watched.users import SharedUsers
from andon.ports import RunIndex
from andon.runs.index import RunFinder
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings
from andon.web.answers.health import HealthPart, health
from andon.web.fleet.nodes import Fleet
from andon.web.job_opening import submit_document, why_not_submit
from andon.web.listening import Listening, ServeOptions, names
from andon.web.route_parts import RouteParts
from andon.web.run_opening import OpenRuns
from andon.web.transport.audit import Audit
from andon.web.transport.keys import Keys
from andon.web.transport.local_calls import LocalCalls
from andon.web.transport.local_sockets import RestSocket, local_socket
from andon.web.users.opening import UsersFiles, open_shared_files

if TYPE_CHECKING:  # few servers export
    from andon.exporter.exports import Exports


def usage_meter(sampler: Sampler, lease_tracker: LeaseTracker | None) -> UsageMeter | None:
    """Counts GPU hours per user, where this server may."""
    if lease_tracker is None:
        return None
    return UsageMeter(sampler.subscribe(COUNT_SECONDS, size=2), lease_tracker.page)


def rest_socket(
    settings: Settings, listening: Listening, keys: Keys, application: LocalCalls
) -> Iterator[str | None]:
    """The name of the socket at which this machine's commands read what REST shows them."""
    port, uid = listening.port, keys.owner.uid or 0
    with local_socket(
        lambda: RestSocket(port, uid, application, settings.server_sign_in),
        "commands read the devices themselves",
    ) as name:
        yield name


# Jobs and runs.


def users(keys: Keys, network_leases: NetworkLeases | None) -> UsersFiles | None:
    """The jobs and runs of other users, in a server of root."""
    leases = network_leases
    book = (lambda: None) if leases is None else partial(leases.listed, RECENT_SECONDS)
    return open_shared_files(keys.signed_in, book)


def runs(
    settings: Settings,
    keys: Keys,
    users: SharedUsers | None,
    keeps_history: bool,
    open_finder: Callable[[], RunFinder] | None = None,
    everywhere: Callable[[], RunIndex] | None = None,
) -> Iterator[ServedRuns]:
    """The runs of the user who runs this server, or of all nodes of a hub."""
    user = keys.owner.user or "this user"
    own = partial(open_run_finder, settings=settings if keeps_history else None)
    runs = OpenRuns(user, open_finder or own)
    runs.prepare()
    whose = (
        f"The runs of {user}, who runs this server, and the records of others that {user} added "
        "(andon runs add) and can read"
    )
    if everywhere is not None:
        whose = "The runs of all nodes that report here"
    yield ServedRuns(runs, whose, users=users, everywhere=everywhere)
    runs.close()


def jobs(
    settings: Settings,
    place: ServeOptions,
    listening: Listening,
    keys: Keys,
    live: WatchedLive,
    users: SharedUsers | None,
    in_force: SettingsInForce,
    desk: OwnDesk | None = None,
) -> ServedJobs | None:
    """None if there is no queue, as in a recording or on a system without locks. `desk` has the
    server user's own jobs, if they are not in the usual folder."""
    if settings.replay or sys.platform == "win32":
        return None
    encrypted = listening.loopback or place.certificate is not None
    queue = QueueDesk(
        user=keys.owner.user or "this user",
        wake=start_dispatcher,
        sample=live.latest,
        labels=lambda: labels_of(in_force.settings),
    )
    return ServedJobs(
        desk or queue,
        lambda: why_not_submit(settings.jobs_submit_over_http, os.getuid(), encrypted),
        partial(submit_document, queue),
        users,
        open_pollers(settings, everyone=users is not None),
    )


def dispatcher_guard(sampler: Sampler, jobs: ServedJobs | None) -> DispatcherGuard | None:
    """Keeps a dispatcher running for the jobs of the server's user, from when it is started."""
    if jobs is None:
        return None
    session = sampler.subscribe(CHECK_SECONDS, size=2, at_once=False)
    return DispatcherGuard(session, JobsFolder(jobs_path()), lambda: Queue().statuses)


# Metrics.


def counts(node: WatchedNode, fleet: Fleet | None = None) -> Iterator[Callable[[], ServerCounts]]:
    """Counts from memory: a scrape reads neither the store nor the lease book, only reports of a
    hub's nodes where their GPUs are exported."""

    def count() -> ServerCounts:
        refused = None if fleet is None else dict(fleet.hub.refused)
        size, held = node.past.vitals().size_bytes, node.leases.held()
        nodes = None if fleet is None else fleet.metrics()
        return ServerCounts(size, node.alerts.firing(), held, refused, fleet=nodes)

    yield count


def exports(
    settings: Settings, node: WatchedNode, folder: Path, counts: Callable[[], ServerCounts]
) -> "Exports | None":
    """Sends the metrics to other systems; a recording is sent nowhere."""
    if not settings.exports or settings.replay:
        return None
    from andon.exporter.exports import open_exports

    return open_exports(settings, node.name, node.live, folder, counts)


def metrics(
    settings: Settings,
    node: WatchedNode,
    counts: Callable[[], ServerCounts],
    exports: "Exports | None" = None,
) -> Iterator[Callable[[], str]]:
    """Makes the text of a scrape."""
    exposition = Exposition(settings.exporter_prefix)

    def expose() -> str:
        found = counts() if exports is None else exports.added_to(counts())
        return scraped(node.live, exposition, counts=found)

    yield expose


# The application.


def route_parts(
    settings: Settings,
    sampler: Sampler,
    live: WatchedLive,
    node: WatchedNode,
    keys: Keys,
    watcher: Watcher,
    lease_tracker: LeaseTracker | None,
    metrics: Callable[[], str],
    sign_in: str | None,
    fleet: Fleet | None = None,
    leader_duties: HealthPart | None = None,
    exports: HealthPart | None = None,
    uplink: HealthPart | None = None,
) -> Iterator[RouteParts]:
    parts: dict[str, HealthPart | None] = {
        "store": node.past, "alerts": watcher, "leases": lease_tracker, "nodes": leader_duties,
        "exports": exports, "hub": uplink,
    }  # fmt: skip
    known = {name: part for name, part in parts.items() if part is not None}
    state = partial(health, live, sampler, settings)
    yield RouteParts(node, keys, settings, state, known, metrics, sign_in, fleet=fleet)


def application(
    settings: Settings,
    place: ServeOptions,
    listening: Listening,
    proxy: ProxyRules | None,
    audit: Audit,
    route_parts: RouteParts,
) -> Iterator[LocalCalls]:
    from andon.web.app import build  # once nothing else can fail: it takes a while

    own, others = names(place, listening.loopback), frozenset(settings.server_allow_origins)
    rules = Rules(listening.loopback, own, others, proxy)
    yield LocalCalls(build(route_parts, rules, audit))


WEB = (runs, jobs, counts, metrics, route_parts, application)
