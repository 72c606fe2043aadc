"""An agent: watches, records and reports this node to a hub, without a server of its own."""

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from andon.app.parts import run_with
from andon.app.pod_runs import PodRuns
from andon.app.runs import open_run_finder, recording
from andon.app.servers.devices import DEVICES
from andon.app.servers.node import WATCHING, sole_server
from andon.app.uplink import hub_link, past, uplink
from andon.fleet.rules.digest import Digest
from andon.fleet.sending import PastSender
from andon.fleet.uplink import Uplink
from andon.host.pod_resources import PodDevices, can_ask_kubelet
from andon.host.service_manager import ServiceManager, WatchdogFeed, taken
from andon.host.state.node_folder import open_node_folder
from andon.host.users import user_name
from andon.jobs.queue_desk import QueueDesk
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.live import WatchedLive
from andon.node.watched.runs import ServedRuns
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings
from andon.web.run_opening import OpenRuns


def report_to(
    settings: Settings,
    url: str,
    on_sent: Callable[[Digest], None],
    over: threading.Event,
    reread: Callable[[], Settings],
) -> None:
    """Reports until `over` is set. `reread` reads the settings again, for SIGHUP."""
    run_with(
        AGENT,
        until_over,
        settings=settings,
        link=hub_link(settings, url),
        folder=open_node_folder(),
        on_sent=on_sent,
        over=over,
        service=taken(),
        reread=reread,
        lends_simulated=bool(settings.simulate),
    )


def until_over(
    uplink: Uplink,
    over: threading.Event,
    service: ServiceManager,
    watchdog_feed: WatchdogFeed | None,
) -> None:
    service.ready("reporting to the hub")
    while not over.wait(None if watchdog_feed is None else watchdog_feed.every_seconds):
        assert watchdog_feed is not None
        watchdog_feed.call()
    service.stopping()


def runs(settings: Settings) -> Iterator[ServedRuns]:
    """This user's runs; their index is opened when they are first asked for."""
    user = user_name(os.getuid())
    runs = OpenRuns(user, partial(open_run_finder, settings=settings))
    yield ServedRuns(runs, f"The runs of {user}")
    runs.close()


def jobs() -> ServedJobs:
    """The jobs of this user; an agent takes no new ones."""
    queue = QueueDesk(user=user_name(os.getuid()))
    return ServedJobs(queue, lambda: "an agent takes no jobs", lambda _: ())


def pod_devices(
    settings: Settings, sampler: Sampler, live: WatchedLive, past: PastSender
) -> Iterator[PodDevices | None]:
    """What the kubelet gave to which pod, and the records of andon's own pods."""
    if not can_ask_kubelet(root := Path(settings.root)):
        yield None
        return
    record = recording(settings, sampler, direct=True)
    pods, runs = PodDevices(root), PodRuns(record, live.latest, past.hurry)
    sampler.mark_by(pods.marked)
    pods.listen(runs)
    pods.start()
    yield pods
    pods.close()
    runs.close()


AGENT = (sole_server, *DEVICES, *WATCHING, runs, jobs, past, pod_devices, uplink)
