"""The report of one run as a document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from andon.cli.show.reports.document import (
    ChartLine,
    ChartMark,
    Document,
    Facts,
    Grid,
    LineChart,
    Section,
    Sentences,
    facts,
    section,
    sections,
    sentences,
)
from andon.cli.show.reports.figures import (
    energy,
    hours,
    percent,
    rate,
    reading,
    seconds_text,
    size,
    three,
    when,
)
from andon.cli.show.runs.cells import number
from andon.cli.show.runs.curves import extreme_text, remarks_text
from andon.cli.show.text import UNKNOWN
from andon.model.device import reading_label
from andon.model.naming import title
from andon.model.run.energy import POWER
from andon.model.run.record import WAITED, OutOfMemory, RunState
from andon.model.throttling import reason_of
from andon.runs.rules.curves import MOST_NAMES, REFUSED
from andon.runs.rules.reports.advice import Advice
from andon.runs.rules.reports.report import READINGS, DeviceReport, RunReport
from andon.units import GIB, counted, fixed, human_bytes, symbol_of, unit_of

MOST_MARKS = 40
MOST_PARAMS = 30
MOST_CURVES, MOST_LOGGED = 24, 100
FREQUENT_MARKS = 12  # of one name, as of every step: they would cover the chart
CHARTS = ("utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
HOTTEST = 100.0


def run_document(report: RunReport, advice: Sequence[Advice]) -> Document:
    """The report as a document; advice comes before the tables, because people read it for that."""
    begin = report.begin
    return Document(
        title=f"{begin.name}: {state_text(report)}",
        subtitle=_subtitle(report),
        warning="SIMULATED" if begin.simulated else None,
        sections=sections(
            section("Summary", _summary(report)),
            section("Out of memory", _out_of_memory(report.out_of_memory)),
            section("What to improve", _advice(report, advice)),
            section("Over time", *_charts(report), *_value_charts(report), _no_charts(report)),
            section("Logged values", _logged(report)),
            section("Devices", _devices(report)),
            section("Readings", _readings(report)),
            section("Throughput", _throughput(report)),
            section("Throttling", _throttling(report)),
            section("Alerts during the run", _alerts(report), _more_alerts(report)),
            _where_from(report),
        ),
    )


def state_text(report: RunReport) -> str:
    state = report.state.replace("_", " ")
    took = seconds_text(report.duration_seconds)
    if report.state is RunState.RUNNING:
        return f"running for {took}"
    return f"{state} after {took}"


def devices_of(report: RunReport) -> str:
    """`2 × NVIDIA H200`."""
    counts = Counter(device.device.name for device in report.devices)
    return ", ".join(f"{count} × {name}" for name, count in counts.items()) or "no device"


def _subtitle(report: RunReport) -> str:
    begin = report.begin
    labels = ", ".join(device.device.label for device in report.devices)
    at = f"{devices_of(report)}" + (f" (GPU {labels})" if labels else "")
    who = f"{begin.user} on {begin.node}" if begin.user else begin.node
    return f"run {begin.id} · {at} · {who} · {when(begin.at)}"


def _summary(report: RunReport) -> Facts | None:
    wasted = report.wasted_seconds
    held = hours(report.device_seconds) if report.devices else None
    idle = "" if wasted is None else f", of which {hours(wasted)} wasted (nothing ran)"
    return facts(
        [
            ("Duration", seconds_text(report.duration_seconds)),
            ("Ended", report.message),
            ("GPU hours", held and held + idle),
            ("Energy", _energy(report)),
            ("Cost", _cost(report)),
            ("CO2", _co2(report)),
            ("Items", _items(report)),
            ("Begun twice", _repeated_items(report)),
            ("Steps", _steps(report)),
            ("Waited for data", _waited_for_data(report)),
            (
                "Waited for GPUs",
                seconds_text(report.begin.waited_seconds) if _waited(report) else None,
            ),
            ("Samples", None if report.samples is None else str(report.samples)),
            ("No samples", report.no_samples_reason),
            ("Not recorded", _refused(report)),
            ("Dropped", f"{report.dropped} lines could not be written" if report.dropped else None),
        ]
    )


def _refused(report: RunReport) -> str | None:
    names = [str(one.data.get("names", "")) for one in report.events if one.name == REFUSED]
    return f"values beyond {MOST_NAMES:,} names: {', '.join(names)}" if names else None


def _waited_for_data(report: RunReport) -> str | None:
    share = report.last_values.get(WAITED)
    return None if share is None else f"{fixed(share)} % of the training"


def _waited(report: RunReport) -> bool:
    return (report.begin.waited_seconds or 0.0) >= 1.0


def _energy(report: RunReport) -> str:
    if report.energy_joules is None:
        return f"{UNKNOWN} (not known for every device)" if report.devices else UNKNOWN
    if all(device.energy_source != POWER for device in report.devices):
        return energy(report.energy_joules)
    return energy(report.energy_joules, POWER) + " (an estimate from readings of power)"


def _cost(report: RunReport) -> str | None:
    prices = report.prices
    if report.cost is None:
        return None
    each = f"{three(prices.per_kwh or 0.0)} {prices.currency}".strip()
    return f"{fixed(report.cost, 2)} {prices.currency}".strip() + f" at {each} per kWh"


def _co2(report: RunReport) -> str | None:
    if report.co2_grams is None:
        return None
    grams = report.co2_grams
    amount = f"{three(grams / 1000)} kg" if grams >= 1000 else f"{three(grams)} g"
    return f"{amount} at {three(report.prices.co2_grams_per_kwh or 0.0)} g per kWh"


def _items(report: RunReport) -> str | None:
    if not report.items_done:
        return None
    return f"{report.items_done}, {rate(report.items_per_second, 'items')}"


def _repeated_items(report: RunReport) -> str | None:
    count = report.begun_twice
    if not count:
        return None
    return f"{counted(count, 'item')}, which ran when the map that this one resumes was killed"


def _steps(report: RunReport) -> str | None:
    found = report.steps_per_second
    return None if found is None else rate(found, "steps")


def _out_of_memory(found: OutOfMemory | None) -> Facts | None:
    if found is None:
        return None
    growth = {"leak": "memory grew until it was full", "step": "one large step"}
    sizes = [
        ("Wanted", found.wanted_bytes),
        ("Free", found.free_bytes),
        ("Held by this run", found.held_by_run_bytes),
        ("Held by others", found.held_by_others_bytes),
        ("Held by the cache", found.held_by_cache_bytes),
    ]
    return facts(
        [
            ("Reported by", found.reported_by),
            *((name, "not known" if n is None else human_bytes(n)) for name, n in sizes),
            ("Cause", growth.get(found.growth or "", found.growth or "not known")),
        ]
    )


def _advice(report: RunReport, advice: Sequence[Advice]) -> Sentences | None:
    if advice:
        return sentences([one.text if one.text.endswith("?") else f"{one.text}." for one in advice])
    if not any(device.readings for device in report.devices):
        return None
    return sentences(["Nothing stands out."], quiet=True)


def _charts(report: RunReport) -> Iterator[LineChart]:
    """Yields the charts for which there is data."""
    series = report.series
    if series is None:
        return
    marks = _marks(report)
    for name in CHARTS:
        lines = [
            ChartLine(title(d.device.label), _scaled(name, values))
            for d in report.devices
            if (values := series.devices.get(d.device.uuid, {}).get(name))
            and any(value is not None for value in values)
        ]
        if lines:
            until = max(report.duration_seconds or 0.0, series.at[-1])
            unit = "GiB" if unit_of(name) == "bytes" else symbol_of(name)
            label = reading_label(name).capitalize()
            high = _top(name, report.devices)
            yield LineChart(label, unit, series.at, tuple(lines), until, 0.0, high, marks)


def _value_charts(report: RunReport) -> Iterator[LineChart]:
    """Yields a chart for each logged value; where several were joined, of their mean."""
    for name, curve in islice(report.curves.items(), MOST_CURVES):
        if len(curve.at) > 1:
            until = max(report.duration_seconds or 0.0, curve.at[-1])
            line = ChartLine("", curve.mean or curve.last)
            unit, marks = symbol_of(name), _marks(report)
            yield LineChart(name, unit, curve.at, (line,), until, None, None, marks)


def _logged(report: RunReport) -> Grid | None:
    rows = []
    for name, curve in islice(report.curves.items(), MOST_LOGGED):
        last = report.last_values.get(name)
        shown = UNKNOWN if last is None else number(last)
        ends = (extreme_text(curve.lowest), extreme_text(curve.highest))
        rows.append((name, shown, *ends, remarks_text(curve)))
    columns = ("value", "last", "lowest", "highest", "")
    return Grid(columns, tuple(rows)) if rows else None


def _scaled(name: str, values: Sequence[float | None]) -> tuple[float | None, ...]:
    if unit_of(name) != "bytes":
        return tuple(values)
    return tuple(None if value is None else value / GIB for value in values)


def _top(name: str, devices: Sequence[DeviceReport]) -> float | None:
    """Returns the highest possible value of a reading: all of the memory, the power limit."""
    if name == "memory_used_bytes":
        totals = [d.device.memory_total_bytes for d in devices if d.device.memory_total_bytes]
        return max(totals) / GIB if totals else None
    if name == "power_watts":
        return max((d.device.power_limit_watts or 0 for d in devices), default=0) or None
    return HOTTEST


def _marks(report: RunReport) -> tuple[ChartMark, ...]:
    """Returns events as marks on the axis; frequent ones are left out."""
    names = [event.name for event in report.events]
    rare = [event for event in report.events if names.count(event.name) <= FREQUENT_MARKS]
    return tuple(
        ChartMark(event.at - report.begin.at, _event_text(event.name, event.data))
        for event in rare[:MOST_MARKS]
    )


def _event_text(name: str, data: object) -> str:
    pairs = list(data.items())[:4] if isinstance(data, dict) else []
    more = ", ".join(f"{key} {value}" for key, value in pairs)
    return f"{name} ({more})" if more else name


def _no_charts(report: RunReport) -> Sentences | None:
    if report.series is not None or not report.devices:
        return None
    none = "its end has no series" if report.samples else "the record has no samples"
    none = "only its two ends were read" if report.samples is None else none
    why = report.no_samples_reason or none
    return sentences([f"No charts: {why}."], quiet=True)


def _devices(report: RunReport) -> Grid | None:
    if not report.devices:
        return None
    columns = (
        "GPU", "utilisation", "idle", "slowed", "peak memory", "plateau", "energy", "wasted",
    )  # fmt: skip
    rows = tuple(_device_row(device) for device in report.devices)
    if len({device.device.name for device in report.devices}) == 1:  # the heading has it
        return Grid(columns, rows)
    named = (d.device.name for d in report.devices)
    mixed = tuple((row[0], name, *row[1:]) for row, name in zip(rows, named, strict=True))
    return Grid(("GPU", "model", *columns[1:]), mixed, text_columns=2)


def _device_row(found: DeviceReport) -> tuple[str, ...]:
    device, busy = found.device, found.mean("utilization_percent")
    total = device.memory_total_bytes
    return (
        device.label,
        UNKNOWN if busy is None else f"{fixed(busy)} %",
        percent(found.idle_share),
        percent(found.throttle_share),
        size(found.peak_memory_bytes) + (f" of {human_bytes(total)}" if total else ""),
        _plateau(found),
        energy(found.energy_joules, found.energy_source),
        seconds_text(found.wasted_seconds),
    )


def _plateau(found: DeviceReport) -> str:
    level = found.plateau
    if level is None:
        return UNKNOWN
    return f"{human_bytes(level['bytes'])} after {seconds_text(level['since_seconds'])}"


def _readings(report: RunReport) -> Grid | None:
    rows = []
    for device in report.devices:
        for name in READINGS:
            if (read := device.readings.get(name)) is not None:
                spread = (read.min, read.mean, read.p95, read.max)
                unit = "GiB" if unit_of(name) == "bytes" else symbol_of(name)
                cells = (reading(name, value) for value in spread)
                rows.append((device.device.label, reading_label(name), *cells, unit))
    cpu = report.cpu
    if cpu.mean is not None:
        cells = (reading("cpu_percent", v) for v in (cpu.min, cpu.mean, cpu.p95, cpu.max))
        rows.append(("node", "CPU", *cells, "%"))
    columns = ("GPU", "reading", "min", "mean", "p95", "max", "unit")
    return Grid(columns, tuple(rows), text_columns=2) if rows else None


def _throughput(report: RunReport) -> Grid | None:
    """Returns throughput beside utilisation: a device that does little may be waiting, or slow."""
    rows = []
    for device in report.devices:
        items, busy = device.items, device.mean("utilization_percent")
        if items is not None:
            rows.append(
                (
                    device.device.label,
                    str(items.done),
                    rate(items.per_second, "items"),
                    seconds_text(items.mean_seconds),
                    str(items.failed),
                    str(items.retried),
                    UNKNOWN if busy is None else f"{fixed(busy)} %",
                )
            )
    columns = ("GPU", "items", "rate", "mean time", "failed", "retried", "utilisation")
    return Grid(columns, tuple(rows)) if rows else None


def _throttling(report: RunReport) -> Grid | None:
    rows = [
        (device.device.label, reason_of(name).title, percent(share))
        for device in report.devices
        for name, share in device.throttle_shares.items()
    ]
    return Grid(("GPU", "cause", "share of time"), tuple(rows), text_columns=2) if rows else None


def _alerts(report: RunReport) -> Grid | None:
    rows = tuple(
        (_after(report, alert.at), alert.level, alert.state, alert.message)
        for alert in report.alerts
    )
    return Grid(("after", "level", "state", "alert"), rows, text_columns=4) if rows else None


def _more_alerts(report: RunReport) -> Sentences | None:
    more = report.alert_count - len(report.alerts)
    return sentences([f"And {more} before these."], quiet=True) if more > 0 else None


def _after(report: RunReport, at: float) -> str:
    return seconds_text(max(0.0, at - report.begin.at))


def _where_from(report: RunReport) -> Section | None:
    begin, git = report.begin, report.git
    dirty = {True: " with changes", False: "", None: ""}[git.dirty] if git else ""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    params = list(begin.params.items())[:MOST_PARAMS]
    ranks = None if begin.rank is None else f"{begin.rank} of {begin.world_size or '?'}"
    return section(
        "Where it came from",
        facts(
            [
                ("Command", begin.command),
                ("Folder", begin.working_directory),
                ("Commit", f"{git.commit[:12]}{dirty}" if git else report.git_reason),
                ("Versions", versions),
                ("Parameters", ", ".join(f"{name}={value}" for name, value in params)),
                ("Tags", ", ".join(begin.tags)),
                ("Group", begin.group),
                ("Rank", ranks),
                ("Part of", begin.parent),
                ("Chosen by", begin.allocation_method),
            ]
        ),
    )
