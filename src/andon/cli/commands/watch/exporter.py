"""`andon exporter`: serves this node's metrics to Prometheus on its own port."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import click

from andon.app.servers.exporter import export
from andon.cli.options import chosen, interval_option, shared
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, notice
from andon.exporter.server import MetricsServer


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
    with end_signals() as wait_for_the_end:
        export(settings_of(choices), partial(_announce, choices=choices), wait_for_the_end)
    return 0


@contextmanager
def end_signals() -> Iterator[Callable[[], object]]:
    """Yields a function that waits for SIGTERM or Ctrl-C, the normal ways to stop a service.

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


def _announce(server: MetricsServer, choices: Choices) -> None:
    if not server.local_only:
        notice(
            "WARNING: anyone who can reach this machine can read these values, including user "
            "names; there is no password. Use a firewall, or --host 127.0.0.1"
        )
    with suppress(BrokenPipeError):
        notice(f"serving {server.url}; Ctrl-C stops", choices)
