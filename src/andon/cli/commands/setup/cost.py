"""`andon cost`: measures what sampling costs, compared with nvidia-smi."""

import os
import shutil
import subprocess
import time
from itertools import islice

import click
from msgspec import Struct

from andon.cli.options import chosen, duration, shared, whole
from andon.cli.show.entries import unreal
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, styled
from andon.cli.sources import sampling, settings_of
from andon.cli.terminal import Terminal
from andon.leases.rules.eligibility import no_gpu
from andon.model.codec import JsonDocument, document
from andon.sampling.sampler import Sampler

QUERY = (
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.used,temperature.gpu,power.draw",
    "--format=csv,noheader",
)
DEADLINE_SECONDS = 10.0


class Cost(Struct, frozen=True):
    """The mean cost of one sample."""

    json_members = ("cpu_seconds", "wall_seconds", "core_percent")
    name: str
    cpu_seconds: float
    wall_seconds: float
    interval_seconds: float

    @property
    def core_percent(self) -> float:
        """The CPU time in per cent of one core at this interval."""
        return round(100.0 * self.cpu_seconds / self.interval_seconds, 4)


class CostReport(JsonDocument, frozen=True):
    """The cost of both tools over the same number of samples."""

    schema = "andon.cost/1"
    json_members = (
        "snapshots", "devices", "simulated", "interval_seconds", "sampler", "reader", "total", ...
    )  # fmt: skip
    snapshots: int
    devices: int
    simulated: bool
    interval_seconds: float
    sampler: Cost
    reader: Cost
    nvidia_smi: Cost | None
    reason: str | None  # why nvidia-smi is not known

    @property
    def total(self) -> Cost:
        cpu = self.sampler.cpu_seconds + self.reader.cpu_seconds
        wall = self.sampler.wall_seconds + self.reader.wall_seconds
        return Cost("andon", cpu, wall, self.interval_seconds)


@click.command()
@click.option(
    "--count",
    "-n",
    type=whole,
    default="20",
    show_default=True,
    metavar="N",
    help="How many samples to measure.",
)
@click.option(
    "--interval",
    "-i",
    type=duration,
    metavar="SECONDS",
    help="Time between samples; sampling.interval if not given.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.cost/1: seconds.")
@shared
def cost(count: int, interval: float | None, as_json: bool) -> int:
    """Measure what one sample costs: CPU and wall time, andon's own and its reader's.

    andon bench is the same command.

    If nvidia-smi is installed, it is run just as often for comparison. This takes N times the
    interval: samples in a tight loop would be answered from the driver's caches and seem cheaper
    than they are. The exit code is 3 if there is no device to sample.
    """
    choices = chosen()
    choices.interval_seconds = interval
    report = measure(sampling(choices), count, settings_of(choices).interval_seconds)
    terminal = Terminal.of(choices)
    if as_json:
        terminal.show_json(document(report))
    else:
        terminal.print(*render_cost(report, terminal.width))
    return 0


def measure(opened: Sampler, count: int, interval: float) -> CostReport:
    """Sample at the real interval: the driver's caches expire between two samples."""
    with opened as sampler, sampler.subscribe(interval) as snapshots:
        samples = iter(snapshots)
        first = next(samples)  # starting the reader is not part of the cost
        if not first.devices:
            raise no_gpu(first.faults)
        before = sampler.costs()
        for _ in islice(samples, count):
            pass
        after = sampler.costs()
    taken = max(1, after.snapshots - before.snapshots)
    own, reader = (
        Cost(
            name,
            (getattr(after, f"{part}_cpu_seconds") - getattr(before, f"{part}_cpu_seconds"))
            / taken,
            (getattr(after, f"{part}_wall_seconds") - getattr(before, f"{part}_wall_seconds"))
            / taken,
            interval,
        )
        for name, part in (("andon itself", "sampler"), ("its reader", "reader"))
    )
    peer, why = _peer(count, interval)
    simulated = bool(unreal(first))
    return CostReport(taken, len(first.devices), simulated, interval, own, reader, peer, why)


def _peer(count: int, interval: float) -> tuple[Cost | None, str | None]:
    if shutil.which(QUERY[0]) is None:
        return None, "nvidia-smi is not installed: nothing to compare with"
    used, began = os.times(), time.perf_counter()
    try:
        for _ in range(count):
            subprocess.run(QUERY, capture_output=True, check=True, timeout=DEADLINE_SECONDS)
    except (OSError, subprocess.SubprocessError) as exc:
        return None, f"nvidia-smi does not work here: {_first_line(exc)}"
    spent, now = os.times(), time.perf_counter()
    cpu = sum(spent[2:4]) - sum(used[2:4])
    return Cost("nvidia-smi", cpu / count, (now - began) / count, interval), None


def _first_line(exc: Exception) -> str:
    return (str(exc).splitlines() or [type(exc).__name__])[0]


def render_cost(report: CostReport, width: int) -> list[Text]:
    """A table of the parts, then a sentence that compares the tools."""
    costs = filter(None, (report.sampler, report.reader, report.total, report.nvidia_smi))
    columns: list[TableColumn[Cost]] = [
        TableColumn("", lambda c: styled(c.name, "bold" if c.name == "andon" else "")),
        TableColumn("CPU PER READING", lambda c: _time(c.cpu_seconds), right=True),
        TableColumn("TIME PER READING", lambda c: _time(c.wall_seconds), right=True),
        TableColumn(f"CPU AT {report.interval_seconds:g} s INTERVAL",
                    lambda c: styled(f"{c.core_percent:.2f} %"), right=True),
    ]  # fmt: skip
    lines = [
        _title(report),
        *draw(columns, [TableRow(cost) for cost in costs], width),
        _verdict(report),
    ]
    return [line for line in lines if line.spans]


def _title(report: CostReport) -> Text:
    kind = "SIMULATED devices" if report.simulated else "devices"
    return styled(f"{report.snapshots} readings of {report.devices} {kind}", "dim")


def _verdict(report: CostReport) -> Text:
    if report.nvidia_smi is None:
        return styled(report.reason or "", "dim")
    text = [
        _ratio(getattr(report.total, name), getattr(report.nvidia_smi, name), word)
        for name, word in (("cpu_seconds", "CPU time"), ("wall_seconds", "wall time"))
    ]
    return styled(f"andon takes {text[0]} and {text[1]} than nvidia-smi")


def _ratio(ours: float, theirs: float, word: str) -> str:
    """Compares two amounts as text; without a ratio if one is too short for the clock."""
    if ours <= 0 or theirs <= 0:
        return f"{'more' if ours > theirs else 'no more'} {word}"
    times = theirs / ours
    return f"{times:.3g} times less {word}" if times >= 1 else f"{1 / times:.3g} times more {word}"


def _time(seconds: float) -> Text:
    if seconds < 0.001:
        return styled(f"{seconds * 1e6:.0f} µs")
    return styled(f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s")
