"""One run for the board: what it was, what it used and when."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from andon.model.device import State
from andon.model.naming import models_text
from andon.model.run.record import (
    ItemState,
    RunAlert,
    RunBegin,
    RunDevice,
    RunEvent,
    RunItem,
    RunRow,
    RunSample,
    RunSeries,
)
from andon.model.wire import dumps
from andon.node.run_schemas import (
    ChosenDevice,
    CountedMonitoredSpread,
    GpuMonitoring,
    MonitoredGpu,
    MonitoredSpread,
    RecordExtent,
    RunColumns,
    RunDetails,
    RunDeviceChoice,
    RunEntry,
    RunGpuInfo,
    RunMark,
    RunMetrics,
    RunUse,
)
from andon.node.watched.run_list import entry_of
from andon.runs.rules.fold import RunFold
from andon.units import MIB, measured_seconds

DRAWN = ("utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
TABLED = (*DRAWN, "memory_percent")
MOST_MARKS = 1000
_LONGEST_DETAIL = 400
_ENTRY = RunEntry.__struct_fields__
_UNKNOWN = MonitoredSpread(None, None, None)

Summary = Mapping[str, Mapping[str, Any]]


def details_of(row: RunRow, fold: RunFold, read: RecordExtent, now: float) -> RunDetails:
    """Returns the details of a run. `fold` has at least the begin, and the end if there is one."""
    begin, end, facts = fold.begin, fold.end, fold.facts
    assert begin is not None
    entry = entry_of(row, now)
    summary = fold.summary()
    return RunDetails(
        **{name: getattr(entry, name) for name in _ENTRY},
        lease=begin.lease,
        working_directory=begin.working_directory,
        path=row.path,
        downloadable=True,
        git=None if facts is None else facts.git,
        git_reason=None if facts is None else facts.git_reason,
        versions={} if facts is None else facts.versions,
        versions_reason=None if facts is None else facts.versions_reason,
        gpu_info=gpu_info(begin),
        metrics=RunMetrics(gpu_monitoring(begin, summary, row, entry.duration_seconds or 0.0)),
        uses=uses_of(begin, summary),
        series=columns_of(fold.series()),
        curves=fold.curves(),
        signal=None if end is None else end.signal,
        dropped=0 if end is None else end.dropped,
        out_of_memory=None if end is None else end.out_of_memory,
        read=read,
    )


def details_without_record(row: RunRow, now: float) -> RunDetails:
    """Returns the details of a run whose record is on another node, as far as an index has them."""
    begin = RunBegin(
        row.began, row.id, row.name, row.kind, row.node, row.user, 0, None, None, row.devices,
        world_size=row.world_size,
    )  # fmt: skip
    fold = RunFold()
    fold.add(begin)
    found = details_of(row, fold, RecordExtent(0, 0, 0, None), now)
    return replace(
        found, path=None, downloadable=False, telemetry=False, telemetry_reason=where_recorded(row)
    )


def where_recorded(row: RunRow) -> str:
    return f"the record is on {row.node}: andon runs show {row.id}"


def gpu_info(begin: RunBegin) -> RunGpuInfo:
    """Returns the run's devices, and how they were chosen."""
    devices = begin.devices
    return RunGpuInfo(
        model=_model(devices),
        count=len(devices),
        device_ids=[device.label for device in devices],
        world_size=begin.world_size,
        gpu_info=RunDeviceChoice(
            count=len(devices),
            indices=[device.index for device in devices],
            allocation_method=begin.allocation_method,
            details=_candidates(begin),
        ),
    )


def _model(devices: Sequence[RunDevice]) -> str | None:
    names = {device.name for device in devices}
    return names.pop() if len(names) == 1 else models_text(d.name for d in devices) or None


def _candidates(begin: RunBegin) -> list[ChosenDevice]:
    uuids = {device.uuid for device in begin.devices}
    indices = {device.index for device in begin.devices}
    return [
        ChosenDevice(
            index=one.index,
            name=one.name,
            memory_free_mb=one.memory_free_mb,
            utilization_percent=one.utilization_percent,
            availability_score=one.availability_score,
            chosen=one.index in indices if one.uuid is None else one.uuid in uuids,
            obstacle=one.obstacle,
        )
        for one in begin.candidates
    ]


def gpu_monitoring(
    begin: RunBegin, summary: Summary, row: RunRow, seconds: float
) -> GpuMonitoring | None:
    """Returns what `stop_monitoring` would return; None if nothing was sampled."""
    stats = {
        device.label: _monitored(device, summary[device.uuid])
        for device in begin.devices
        if summary.get(device.uuid, {}).get("samples")
    }
    if not stats:
        return None
    counted = row.samples or max(one.utilization.samples for one in stats.values())
    return GpuMonitoring(seconds, counted, stats)


def _monitored(device: RunDevice, used: Mapping[str, Any]) -> MonitoredGpu:
    busy = spread_in(used, "utilization_percent")
    return MonitoredGpu(
        name=device.name,
        utilization=CountedMonitoredSpread(busy.min, busy.max, busy.mean, used["samples"]),
        memory_used_mb=spread_in(used, "memory_used_bytes", 1 / MIB),
        memory_usage_percent=spread_in(used, "memory_percent"),
        temperature_c=spread_in(used, "temperature_celsius"),
        power_draw_w=spread_in(used, "power_watts"),
    )


def spread_in(used: Mapping[str, Any], name: str, scale: float = 1.0) -> MonitoredSpread:
    found = used.get(name)
    if not isinstance(found, Mapping):
        return _UNKNOWN
    low, high, mean = (found.get(one) for one in ("min", "max", "mean"))
    return MonitoredSpread(*(None if one is None else one * scale for one in (low, high, mean)))


def uses_of(begin: RunBegin, summary: Summary) -> list[RunUse]:
    """Returns the rows of the table: every device, including one that was never read."""
    return [_use(device, summary.get(device.uuid, {})) for device in begin.devices]


def _use(device: RunDevice, used: Mapping[str, Any]) -> RunUse:
    return RunUse(
        uuid=device.uuid,
        index=device.index,
        label=device.label,
        name=device.name,
        samples=used.get("samples"),
        idle_share=used.get("idle_share"),
        energy_joules=used.get("energy_joules"),
        energy_source=used.get("energy_source"),
        peak_memory_bytes=used.get("peak_memory_bytes"),
        readings={name: spread_in(used, name) for name in TABLED},
    )


def columns_of(series: RunSeries | None) -> RunColumns:
    """Returns the columns that the charts draw."""
    if series is None:
        return RunColumns([], {})
    return RunColumns(
        list(series.at),
        {
            uuid: {name: list(named[name]) for name in DRAWN if name in named}
            for uuid, named in series.devices.items()
        },
    )


def columns_between(begin: RunBegin, samples: Sequence[RunSample]) -> RunColumns:
    """Returns each sample as one point, not averaged."""
    devices: dict[str, dict[str, list[float | None]]] = {
        device.uuid: {name: [] for name in DRAWN} for device in begin.devices
    }
    for sample in samples:
        for uuid, named in devices.items():
            readings = sample.devices.get(uuid, {})
            found = readings if readings.get("state") == State.OK else {}
            for name, column in named.items():
                column.append(_number(found.get(name)))
    return RunColumns([round(sample.at - begin.at, 3) for sample in samples], devices)


def _number(value: object) -> float | None:
    """Returns a number from a record, which is untrusted input; None if it is not one."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def marks_of(begin: RunBegin, lines: Iterable[RunEvent | RunItem | RunAlert]) -> list[RunMark]:
    """Returns events, items and alerts."""
    return sorted((_mark(begin, line) for line in lines), key=lambda mark: mark.at)


def _mark(begin: RunBegin, line: RunEvent | RunItem | RunAlert) -> RunMark:
    at = round(max(0.0, line.at - begin.at), 3)
    match line:
        case RunAlert():
            return RunMark(at, "alert", line.message, line.state, line.level, False)
        case RunItem():
            title = f"item {line.index} {line.state}"
            detail = f"{line.item}{_seconds(line.runtime_seconds)}"
            return RunMark(at, "item", title, _cut(detail), None, line.state is ItemState.FAILED)
        case RunEvent():
            data = _cut(dumps(dict(line.data))) if line.data else None
            return RunMark(at, "event", line.name, data, None, False)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f" ({measured_seconds(seconds)})"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"
