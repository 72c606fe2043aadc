"""The parts that watch this machine: in every server, and in an agent."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from andon.alerts.self_monitor import SelfMonitor
from andon.alerts.watcher import Watcher
from andon.app.alerts import open_alert_store
from andon.app.history import open_store, retention_of, separate_history
from andon.app.leases import open_availability, open_lease_tracker, refuse_ambiguous_names
from andon.app.messages.digest import CHECK_SECONDS as DIGEST_SECONDS
from andon.app.messages.digest import DigestSender, Nodes
from andon.app.messages.personal import lease_warning, watching_notifiers
from andon.app.servers.reloading import SettingsInForce, in_force, reloads
from andon.app.slurm_reservations import slurm_reservations
from andon.app.thresholds import rulebook
from andon.failures.log import FailureLog
from andon.fleet.link import HubLink
from andon.history.notes import FILE, NoteBook
from andon.history.writer import Recorder
from andon.host.clock import offset
from andon.host.rules.service_variables import is_working
from andon.host.service_manager import ServiceManager, WatchdogFeed
from andon.host.state import server_file
from andon.leases.book.lease_book import Book
from andon.leases.idle.releaser import CHECK_SECONDS, IdleReleaser, may_release
from andon.leases.network import NetworkLeases
from andon.leases.tracker import LeaseTracker
from andon.model.device import Snapshot
from andon.node.watched.alerts import AlertJudge
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.live import WatchedLive
from andon.node.watched.node import WatchedNode
from andon.node.watched.recorded_past import NoPast, RecordedPast
from andon.node.watched.runs import ServedRuns
from andon.sampling.follower import Follower, SnapshotDelivery
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings
from andon.settings.store_url import MEMORY
from andon.web.transport.keys import Keys


def sole_server(folder: Path) -> Iterator[None]:
    """One agent or server runs for a user on a machine: both record the same history."""
    with server_file.sole_server(folder):
        yield


def distinct_names(settings: Settings, first_snapshot: Snapshot | None) -> Iterator[None]:
    """Refuses settings in which a name means several devices."""
    if first_snapshot is not None:
        refuse_ambiguous_names(settings, first_snapshot.devices)
    yield


def history(
    settings: Settings,
    sampler: Sampler,
    folder: Path,
    lease_tracker: LeaseTracker | None,
    keeps_history: bool = True,
) -> Iterator[RecordedPast | NoPast]:
    if not keeps_history:
        yield NoPast("history is disabled", "start without --no-history")
        return
    store_settings = separate_history(settings)
    session = sampler.subscribe(settings.interval_seconds)
    page = (lambda: None) if lease_tracker is None else lease_tracker.page
    book = NoteBook(folder / FILE, page)
    recorder = Recorder(
        lambda: open_store(store_settings),
        session,
        settings.history_flush_seconds,
        retention_of(settings),
        see=book.see,
    )
    yield RecordedPast(recorder, settings.history_max_megabytes * 1_000_000, book)
    recorder.close()


def lease_tracker(
    settings: Settings, sampler: Sampler, open_book: Callable[..., Book] | None = None
) -> LeaseTracker | None:
    """Follows the lease book; None for a recording, and where there are no locks."""
    return open_lease_tracker(settings, sampler, open_book)


def watcher(
    settings: Settings,
    sampler: Sampler,
    history: RecordedPast | NoPast,
    lease_tracker: LeaseTracker | None,
    keeps_history: bool = True,
    linked: Settings | None = None,
    link: HubLink | None = None,
) -> Watcher:
    """The alerts of this machine. A recording notifies no one; for a node of a hub the hub does,
    while it answers."""
    store_settings = (
        separate_history(settings) if keeps_history else replace(settings, history_store=MEMORY)
    )
    made = Watcher(
        sampler.subscribe(settings.interval_seconds),
        rulebook(settings),
        lambda: open_alert_store(store_settings),
        watching_notifiers(linked or settings, sampler.node.name),
        offset(settings.alerts_time_zone),
        sampler.node.boot,
        SelfMonitor(sampler.costs, history.vitals),
        book=None if lease_tracker is None else lease_tracker.page,
        has_hub=link is not None,
    )
    sampler.mark_by(made.lasting)
    return made


def idle_leases(
    settings: Settings, sampler: Sampler, lease_tracker: LeaseTracker | None
) -> Follower | None:
    """Releases idle leases, where this is root's server and root's policy says so."""
    if lease_tracker is None or settings.replay or not may_release():
        return None
    releaser = IdleReleaser(lease_tracker.page, partial(lease_warning, settings))
    return Follower(
        sampler.subscribe(CHECK_SECONDS),
        releaser.check,
        "idle leases",
        FailureLog("andon.idle_leases", "idle leases are not released; retrying"),
        taking=SnapshotDelivery.NEWEST,
    ).start()


def alerts(watcher: Watcher) -> Iterator[AlertJudge]:
    """The alerts that are shown: this machine's."""
    yield watcher


def network_leases(
    settings: Settings,
    sampler: Sampler,
    live: WatchedLive,
    watcher: Watcher,
    lease_tracker: LeaseTracker | None,
    lends_simulated: bool,
    open_book: Callable[..., Book] | None = None,
) -> NetworkLeases | None:
    """Everyone's leases, as they are listed and granted over the network; None without a book. It
    uses the sampler's snapshots, so this process calls no driver."""
    if lease_tracker is None:
        return None
    availability = open_availability(
        settings,
        lambda: sampler.once(with_host=False),
        simulated=lends_simulated,
        broken=watcher.broken_devices,
        ask_places=sampler.ask_places,
    )
    made = NetworkLeases(
        availability,
        live.newest,
        follows=lease_tracker.why_not,
        open_book=open_book,
        watched=lease_tracker.opened,
        others=None if open_book else slurm_reservations(),
    )
    lease_tracker.listen(made.changed)
    return made


def node(
    settings: Settings,
    sampler: Sampler,
    live: WatchedLive,
    history: RecordedPast | NoPast,
    watcher: Watcher,
    alerts: AlertJudge,
    network_leases: NetworkLeases | None,
    lease_tracker: LeaseTracker | None,
    runs: ServedRuns,
    keys: Keys | None = None,
    jobs: ServedJobs | None = None,
    simulation: object | None = None,
) -> Iterator[WatchedNode]:
    """This machine as a node."""
    user = None if keys is None else keys.owner.user
    yield WatchedNode(
        sampler.node.name, settings, live, history, alerts, runs, network_leases,
        lease_tracker, user, jobs, watcher, simulation is not None,
    )  # fmt: skip


def digests(
    settings: Settings,
    sampler: Sampler,
    watcher: Watcher,
    node: WatchedNode,
    in_force: SettingsInForce,
    reported_nodes: Callable[[], Nodes] = dict,
) -> Follower | None:
    """Sends the digest of each week, on a hub of all its nodes, where [reports] says so."""
    if settings.replay:
        return None
    nodes = lambda: {**reported_nodes(), node.name: node}  # noqa: E731
    return Follower(
        sampler.subscribe(DIGEST_SECONDS),
        DigestSender(watcher, lambda: in_force.settings, nodes).check,
        "digests",
        FailureLog("andon.digests", "the digest was not made; retrying"),
        taking=SnapshotDelivery.NEWEST,
    ).start()


def watchdog_feed(service: ServiceManager, sampler: Sampler) -> Iterator[WatchdogFeed | None]:
    """Feeds the watchdog of the service manager while the sampler works; a driver that hangs does
    not stop it."""
    seconds = service.feed_seconds

    def call() -> None:
        if is_working(sampler.turn_seconds(), sampler.runs):
            service.works()

    yield None if seconds is None else WatchdogFeed(seconds, call)


WATCHING = (
    in_force,
    lease_tracker,
    history,
    idle_leases,
    watcher,
    alerts,
    network_leases,
    node,
    digests,
    reloads,
    watchdog_feed,
)
