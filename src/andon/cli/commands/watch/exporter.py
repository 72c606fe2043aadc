"""`andon exporter`: serves this node's metrics to Prometheus on its own port."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click

from andon.cli.options import chosen, interval_option, shared
from andon.cli.sources import sampling, settings_of
from andon.cli.terminal import Choices, notice
from andon.exporter.exposition import Exposition
from andon.exporter.scrape import scraped
from andon.exporter.server import MetricsServer
from andon.sampling.sampler import Sampler
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.settings.resolution import Settings

SWITCH_SECONDS = 0.0005  # a scrape during a sample must not wait for all of it


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="The port; 0 takes any free one; exporter.port if not given.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="The address to listen on; exporter.host if not given.",
)
@click.option(
    "--prefix",
    metavar="WORD",
    help="Prefix of every metric name; exporter.prefix if not given.",
)
@interval_option
@shared
def exporter(port: int | None, host: str | None, prefix: str | None, interval: float | None) -> int:
    """Serve /metrics for Prometheus, and /healthz, until Ctrl-C.

    It listens on 127.0.0.1, port 26367, unless a flag or a setting says otherwise. The devices are
    read at the interval, however often Prometheus scrapes; the age of the values is a metric too. A
    device that does not respond has a state and no readings. /metrics itself lists every name with
    its meaning.
    """
    choices = chosen()
    choices.interval_seconds = interval
    choices.overrides = {
        "exporter_port": port, "exporter_host": host, "exporter_prefix": prefix,
    }  # fmt: skip
    settings = settings_of(choices)
    exposition = Exposition(settings.exporter_prefix)
    address = (settings.exporter_host, settings.exporter_port)
    with asked_to_end() as wait_for_the_end, sampling(choices) as sampler:
        _serve(sampler, settings, exposition, address, choices, wait_for_the_end)
    return 0


@contextmanager
def asked_to_end() -> Iterator[Callable[[], object]]:
    """A function that waits for SIGTERM or Ctrl-C, the normal ways to stop a service.

    The kernel writes each signal into a pipe: one that comes just before a thread begins to wait on
    a lock does not wake it.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    descriptor = signal.set_wakeup_fd(writing)
    ends = (signal.SIGTERM, signal.SIGINT)
    old = {number: signal.signal(number, lambda *_: None) for number in ends}
    try:
        yield lambda: os.read(reading, 1)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)
        os.close(reading)
        os.close(writing)


def _serve(
    sampler: Sampler,
    settings: Settings,
    exposition: Exposition,
    address: tuple[str, int],
    choices: Choices,
    wait_for_the_end: Callable[[], object],
) -> None:
    """Open the port first: if it is taken, no device is read."""
    held: list[SnapshotFeed] = []
    server = MetricsServer(
        *address,
        text=lambda service: scraped(held[0], exposition, service),
        dropped=lambda: held[0].dropped,
    )
    try:
        session = sampler.subscribe(settings.interval_seconds, size=1)
        held.append(SnapshotFeed(session, settings, sampler.costs))
        sys.setswitchinterval(SWITCH_SECONDS)
        server.start()
        _announce(server, choices)
        wait_for_the_end()
    finally:
        server.stop()
        for feed in held:
            feed.close()


def _announce(server: MetricsServer, choices: Choices) -> None:
    if not server.local_only:
        notice(
            "WARNING: anyone who can reach this machine can read these values, including user "
            "names; there is no password. Use a firewall, or --host 127.0.0.1"
        )
    with suppress(BrokenPipeError):
        notice(f"serving {server.url}; Ctrl-C stops", choices)
