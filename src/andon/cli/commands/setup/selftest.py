"""`andon selftest`: samples for some seconds and checks that the readings are plausible."""

import math
import sys
from itertools import islice
from pathlib import Path

import click
from msgspec.structs import replace

from andon.checks.load import loaded
from andon.cli.commands.setup.doctor import title_of
from andon.cli.options import chosen, duration, shared
from andon.cli.show.findings import findings_to_json, render_findings
from andon.cli.sources import availability_of, sampling, settings_of
from andon.cli.terminal import Choices, Terminal
from andon.doctor.rules.findings import CheckResult, exit_code, in_order
from andon.doctor.rules.selftest.load import FREE_BYTES, Load, choose, judge_load
from andon.doctor.rules.selftest.plausibility import judge
from andon.doctor.rules.selftest.trials import Sampling, SelftestTrial
from andon.errors import Unavailable
from andon.host.own_container import own_pids
from andon.leases.book.lease_book import Book
from andon.leases.rules.requests import checked
from andon.leases.rules.verdict import available_by_readings
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.utilisation import SCHEDULABLE_IDLE_PERCENT
from andon.model.verdict import VerdictKind
from andon.sampling.sampler import Costs, Sampler

SCHEMA = "andon.selftest/1"
LOADED_SECONDS = 8.0  # the load itself ends after ten


@click.command()
@click.option(
    "--seconds",
    type=duration,
    default="5",
    show_default=True,
    metavar="SECONDS",
    help="How long to sample.",
)
@click.option("--load", "with_load", is_flag=True, help="Also sample while a small load runs.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.selftest/1.")
@shared
def selftest(seconds: float, with_load: bool, as_json: bool) -> int:
    """Check that the readings are plausible and change; every check shows its numbers.

    --load multiplies matrices on an unused device, in its own process, for at most ten seconds,
    with nothing but NVIDIA's driver, and checks that utilisation and power rise and that the
    process is seen. Nothing is reset or reconfigured.
    The exit code is 0 if all is plausible, 3 if no device answers, else 1.
    """
    choices = chosen()
    snapshots, findings = examine(choices, seconds, with_load)
    terminal, code = Terminal.of(choices), exit_code(findings, SelftestTrial.NO_DEVICE)
    node, at = snapshots[-1].node, snapshots[-1].at
    if as_json:
        value = findings_to_json(SCHEMA, findings, node, at, code)
        terminal.show_json(value)
    else:
        title = title_of("selftest", node)
        terminal.print(*render_findings(findings, title, terminal.width, choices.quiet))
    return code


def examine(
    choices: Choices, seconds: float, with_load: bool
) -> tuple[list[Snapshot], list[CheckResult]]:
    """Sample, sample again under load if requested, and check both together."""
    interval = settings_of(choices).interval_seconds
    with sampling(choices) as sampler:
        before, readings = watch(sampler, seconds, interval)
        findings = judge(before, readings)
        if with_load:
            free = free_uuids(choices, sampler, before[-1])
            during, load = under_load(sampler, before[-1], free, seconds, interval)
            findings += judge_load(before, during, load)
    return before, in_order(findings)


def watch(sampler: Sampler, seconds: float, interval: float) -> tuple[list[Snapshot], Sampling]:
    """Sample at the real interval; starting the reader is not part of the cost."""
    count = max(2, math.ceil(seconds / interval))
    with sampler.subscribe(interval, watching=True) as session:
        samples = iter(session)
        first, before = next(samples), sampler.costs()
        snapshots = [first, *islice(samples, count)]
        after, missed, dropped = sampler.costs(), session.missed, session.dropped
    ticks, own, reader = _spent(before, after)
    return snapshots, Sampling(ticks, interval, missed, dropped, own, reader)


def _spent(before: Costs, after: Costs) -> tuple[int, float, float]:
    return (
        after.snapshots - before.snapshots,
        after.sampler_cpu_seconds - before.sampler_cpu_seconds,
        after.reader_cpu_seconds - before.reader_cpu_seconds,
    )


def free_uuids(choices: Choices, sampler: Sampler, latest: Snapshot) -> set[str]:
    """The devices that a lease would get: no job is disturbed by the load."""
    if sys.platform == "win32":  # no locks, so no leases
        found = available_by_readings(latest.devices, FREE_BYTES, SCHEDULABLE_IDLE_PERCENT)
        return {one.uuid for one in found}

    try:
        seen = replace(
            availability_of(choices, sampler), max_utilization_percent=SCHEDULABLE_IDLE_PERCENT
        )
        offered = seen.offer(Book(make=False), checked(DeviceRequest(1, 1, FREE_BYTES)))
    except Unavailable:
        return set()  # no device here can have it
    return {one.uuid for one in offered.verdicts if one.kind is VerdictKind.FREE}


def under_load(
    sampler: Sampler, latest: Snapshot, free: set[str], seconds: float, interval: float
) -> tuple[list[Snapshot], Load]:
    device, reason = choose(latest, free)
    if device is None or reason:
        return [], Load(reason=reason)
    uuid = device.device.uuid
    try:
        with loaded(uuid, LOADED_SECONDS + interval) as pid:
            during, _ = watch(sampler, min(seconds, LOADED_SECONDS), interval)
    except Unavailable as error:
        return [], Load(reason=error.reason)
    return during, Load(uuid, pid, own_pids(Path("/")) is True)
