"""An agent: watches, records and reports this node to a hub, without a server of its own."""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from andon.alerts.rules.self_checks import StoreStats
from andon.app.alerts import open_watcher
from andon.app.history import open_recorder
from andon.app.leases import open_lease_tracker, open_network_leases
from andon.app.pod_runs import PodRuns
from andon.app.runs import recording
from andon.app.sampler import open_sampler
from andon.app.uplink import hub_link, open_uplink, past_sender, report_sources
from andon.fleet.rules.digest import Digest
from andon.history.writer import Recorder
from andon.host.pod_resources import PodDevices, can_ask_kubelet
from andon.host.state import server_file
from andon.host.state.node_folder import open_node_folder
from andon.jobs.queue import Queue
from andon.model.job.facts import JobView
from andon.node.watched.node import WatchedNode
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.settings.resolution import Settings

FIRST_SNAPSHOT_SECONDS = 5.0


def report_to(
    settings: Settings, url: str, on_sent: Callable[[Digest], None], over: threading.Event
) -> None:
    """Reports until `over` is set. One agent or server runs for a user on a machine: both record
    the same history."""
    link = hub_link(settings, url)
    with ExitStack() as stack:
        folder = open_node_folder()
        stack.enter_context(server_file.sole_server(folder))
        sampler = stack.enter_context(open_sampler(settings))
        session = sampler.subscribe(settings.interval_seconds, size=8)
        feed = SnapshotFeed(session, settings, sampler.costs, sampler.reader_pids)
        stack.callback(feed.close)
        feed.wait_for_first(settings.deadline_seconds + FIRST_SNAPSHOT_SECONDS)
        recorder = open_recorder(settings, sampler.subscribe(settings.interval_seconds))
        stack.callback(recorder.close)
        leases = open_lease_tracker(settings, sampler)
        watcher = open_watcher(
            settings, sampler, partial(_stats, recorder), True, leases, has_hub=True
        )
        stack.callback(watcher.close)
        if leases is not None:
            stack.callback(leases.close)
        shown = open_network_leases(
            settings, sampler, feed.newest, watcher, leases, bool(settings.simulate)
        )
        if shown is not None:
            stack.callback(shown.close)
        node = WatchedNode(feed, lambda: recorder.store, watcher, shown, leases)
        sources = report_sources(node, watcher, UnfinishedJobs())
        past = past_sender(settings, folder, lambda: recorder.store, watcher)
        if can_ask_kubelet(root := Path(settings.root)):
            record = recording(settings, sampler, direct=True)
            pods, runs = PodDevices(root), PodRuns(record, feed.latest, past.hurry)
            sampler.mark_by(pods.marked)
            pods.listen(runs)
            pods.start()
            stack.callback(runs.close)
            stack.callback(pods.close)
        uplink = open_uplink(settings, sampler, link, sources, past, shown, on_sent)
        stack.callback(uplink.close)
        over.wait()


class UnfinishedJobs:
    """This user's jobs that wait or run; only what changed is read again."""

    def __init__(self) -> None:
        self._queue: Queue | None = None

    def __call__(self) -> Sequence[JobView]:
        if self._queue is None:
            self._queue = Queue()
        else:
            self._queue.refresh()
        return [one for one in self._queue.views() if one.ended is None]


def _stats(recorder: Recorder) -> StoreStats:
    health = recorder.health()
    return StoreStats(health.reason, health.hint or "", health.dropped_snapshots, health.size_bytes)
