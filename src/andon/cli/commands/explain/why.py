"""`andon why`: why a device is hot, slow, full, loud, idle or silent."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from andon.cli.commands.completing import complete_job
from andon.cli.options import (
    above_zero,
    chosen,
    duration,
    elsewhere,
    fresh_option,
    shared,
    with_devices,
)
from andon.cli.screen import in_color
from andon.cli.show.text import styled
from andon.cli.show.why import answer, answer_to_json, render_why
from andon.cli.sources import exit_code, node_of, rulebook_of
from andon.cli.terminal import Choices, Terminal, write
from andon.explain.evidence.departures import (
    NOTHING_KNOWN,
    EndedProcesses,
    departures,
    has_unexplained,
)
from andon.model.device import Snapshot
from andon.model.naming import device_named
from andon.units import human_seconds, sh

if TYPE_CHECKING:
    from andon.node.port import Node

SAMPLED_SECONDS = "2"
REMEMBERED_SECONDS = 120.0  # a server keeps these in memory
GRACE_SECONDS = 10.0
INTERVAL_SECONDS = 0.5  # five samples in two seconds: enough to tell bursts from idleness


@click.command()
@with_devices("The GPU to explain: index, 3:0, UUID or its prefix.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.why/1: UTC, bytes.")
@click.option(
    "--seconds",
    type=duration,
    default=SAMPLED_SECONDS,
    show_default=True,
    metavar="S",
    help="How long to sample: 10, 2m. Leaks take more than a minute.",
)
@click.option(
    "--job",
    metavar="JOB",
    shell_complete=complete_job,
    help="Explain why this job waits, and who is ahead.",
)
@click.option("--at", metavar="WHEN", help="What changed around this time: 03:10, '2 days ago'.")
@click.option(
    "--range",
    "around",
    type=above_zero,
    default="10m",
    show_default=True,
    metavar="S",
    help="With --at: how long a time around it.",
)
@fresh_option
@elsewhere
@shared
def why(
    devices: list[str],
    as_json: bool,
    seconds: float,
    job: str | None,
    at: str | None,
    around: float,
) -> int:
    """Say why a device is hot, slow, full, loud, idle or silent, and what to do.

    Without DEVICE (index, 3:0, UUID or its prefix, PCI address) the one that most needs attention
    is explained, and the others get a line each. Each reason comes with its evidence; a value that
    cannot be read counts as unknown. For a job of a cluster: andon why lab:4711

    With --at: what changed in the readings, processes, runs, leases, alerts, driver versions and
    notes of a GPU (or host) around a past time, against the time before it.
    """
    if job is None and len(devices) == 1 and ":" in devices[0]:
        from andon.cli.commands.explain.why_job import is_cluster_job

        job = devices.pop() if is_cluster_job(chosen(), devices[0]) else None
    elif job is not None and (devices or at is not None):
        raise click.UsageError("--job explains a job; leave out the GPU")
    if job is not None:
        from andon.cli.commands.explain.why_job import why_job

        return why_job(chosen(), job, as_json)
    if len(devices) > 1 and devices[0] == "job":
        raise click.UsageError(f"did you mean: andon why --job {sh(devices[1])}?")
    if len(devices) > 1:
        raise click.UsageError("name only one GPU")
    if at is not None:
        from andon.cli.commands.explain.why_then import why_then

        if not devices:
            raise click.UsageError("--at needs a GPU, or host: andon why 3 --at 03:10")
        return why_then(devices[0], at, around, as_json)
    device = devices[0] if devices else None
    node = node_of(chosen())
    snapshots = sampled(node, chosen(), seconds, device)
    lamps = node.live.lamps(snapshots[-1])
    uuid, left = _one(snapshots[-1], device), _departures(node, snapshots)
    found = answer(snapshots, uuid, rulebook_of(chosen()), lamps, left)
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show_json(answer_to_json(found))
    else:
        terminal.print(*render_why(found, terminal.width))
    return exit_code(snapshots[-1])


def sampled(
    node: "Node", choices: Choices, seconds: float, device: str | None = None
) -> list[Snapshot]:
    """Returns the snapshots that a server remembers, or samples for this many seconds; one
    sample is enough if there is no device."""
    if seconds <= REMEMBERED_SECONDS and (known := node.live.minutes()):
        return [*known]
    with node.live.subscribe(INTERVAL_SECONDS, watching=True) as snapshots:
        samples = iter(snapshots)
        first = next(samples)
        _one(first, device)  # a wrong name is reported before waiting
        found = [first, *_until(samples, first, seconds, choices)]
    found[-1] = node.live.with_driver_versions(found[-1])
    return found


def _departures(node: "Node", snapshots: Sequence[Snapshot]) -> EndedProcesses:
    """Returns the ended processes of devices whose memory no process accounts for; the history
    is opened only if there are such devices."""
    if not has_unexplained(snapshots[-1]):
        return NOTHING_KNOWN
    from andon.host.processes.facts import exited

    recorded = "replay" not in snapshots[-1].versions and node.past.recorded
    local = node.url is None and not snapshots[-1].simulated
    return departures(snapshots, node.past.usage if recorded else None, exited if local else None)


def _until(
    snapshots: Iterator[Snapshot], first: Snapshot, seconds: float, choices: Choices
) -> Iterator[Snapshot]:
    if not first.devices or seconds <= 0:
        return
    _notify(f"sampling for {human_seconds(seconds)}", choices)
    end = time.monotonic() + seconds  # a server's clock may stop, or run backwards
    for snapshot in snapshots:
        yield snapshot
        if snapshot.at - first.at >= seconds or time.monotonic() >= end + GRACE_SECONDS:
            return


def _notify(text: str, choices: Choices) -> None:
    if not choices.quiet:
        color = in_color(choices.color or "auto", sys.stderr)
        write(sys.stderr, styled(f"andon: {text}", "dim").paint(color) + "\n")


def _one(snapshot: Snapshot, name: str | None) -> str | None:
    """Returns the UUID of the named device, if one is named."""
    if name is None or not snapshot.devices:
        return None
    return device_named(name, snapshot.devices).device.uuid
