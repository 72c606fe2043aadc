"""The exporter alone: this node's metrics on a port of their own, without a server."""

import sys
from collections.abc import Callable, Iterator

from andon.app.parts import run_with
from andon.app.servers.devices import READINGS
from andon.exporter.exposition import Exposition
from andon.exporter.scrape import FIRST_SECONDS, scraped
from andon.exporter.server import MetricsServer
from andon.exporter.spreads import Service
from andon.node.watched.live import WatchedLive
from andon.settings.resolution import Settings

SWITCH_SECONDS = 0.0005  # a scrape during a sample must not wait for all of it


def export(
    settings: Settings,
    on_ready: Callable[[MetricsServer], None],
    wait_for_the_end: Callable[[], object],
) -> None:
    """Answers scrapes until the end."""
    run_with(
        EXPORTER,
        until_the_end,
        settings=settings,
        exposition=Exposition(settings.exporter_prefix),
        on_ready=on_ready,
        wait_for_the_end=wait_for_the_end,
    )


def until_the_end(
    metrics: MetricsServer,
    on_ready: Callable[[MetricsServer], None],
    wait_for_the_end: Callable[[], object],
) -> None:
    on_ready(metrics)
    wait_for_the_end()


def metrics_port(settings: Settings) -> Iterator[MetricsServer]:
    """Not answering yet. It is first: if the port is taken, no device is read."""
    server = MetricsServer(settings.exporter_host, settings.exporter_port)
    yield server
    server.stop()


def metrics(
    metrics_port: MetricsServer, live: WatchedLive, exposition: Exposition
) -> Iterator[MetricsServer]:
    sys.setswitchinterval(SWITCH_SECONDS)

    def text(service: Service) -> str:
        live.wait_for_first(FIRST_SECONDS)
        return scraped(live, exposition, service)

    metrics_port.start(text, lambda: live.dropped)
    yield metrics_port
    metrics_port.stop()  # before the readings: a scrape must not wait for one


EXPORTER = (metrics_port, *READINGS, metrics)
