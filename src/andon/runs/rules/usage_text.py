"""Describes what a run used, in one line for the person who started it."""

from collections.abc import Mapping, Sequence
from typing import Any

from andon.model.naming import title
from andon.model.run.energy import POWER, energy_source_of
from andon.model.run.record import RunBegin, RunEnd
from andon.model.run.use import known_of, mean_of, sum_of
from andon.model.throttling import reason_of
from andon.runs.rules.summary import SLOWED
from andon.units import counted, fixed, human_bytes, human_joules, measured_seconds


def usage_text(where: str, seconds: float, devices: Sequence[Mapping[str, Any]]) -> str:
    """Returns `12 min on GPU 6: mean 87 %, peak 41.0 GiB, 0.09 kWh`; unknown values are left
    out.

    `devices` is the summary of each of the run's devices. Utilisation is the mean over them,
    memory the peak of any one, energy the sum of all.
    """
    began = f"{measured_seconds(seconds)} on {where}"
    busy, peaks = mean_of(devices, "utilization_percent"), known_of(devices, "peak_memory_bytes")
    parts = [] if busy is None else [f"mean {fixed(busy)} %"]
    if peaks:
        each = " a GPU" if len(peaks) > 1 else ""
        parts.append(f"peak {human_bytes(max(peaks))}{each}")
    parts += _energy(devices)
    return f"{began}: {', '.join(parts)}" if parts else f"{began}: nothing was read in this time"


def end_text(begin: RunBegin, end: RunEnd, recorded: bool) -> str:
    """Returns what a run used, and the command that shows more of it, if something was recorded."""
    where = title(", ".join(device.label for device in begin.devices))
    used = f"{measured_seconds(end.duration_seconds)} without a GPU{_why(end)}"
    if begin.devices:
        used = usage_text(where, end.duration_seconds, list(end.summary.values()))
    return f"{used}; {report_text(begin.name, begin.id)}" if recorded else used


def loop_text(begin: RunBegin, end: RunEnd, waiting_share: float | None) -> str:
    """Returns `run k3fh2m8p · 2 GPUs · 41 min · 88 % busy · 0.8 kWh · throttled 12 % (power cap) ·
    waited for data 9 % · andon runs show k3fh2m8p`; unknown values are left out."""
    devices = list(end.summary.values())
    busy, throttled = mean_of(devices, "utilization_percent"), mean_of(devices, "throttle_share")
    count = counted(len(begin.devices), "GPU")
    parts = [f"run {begin.id}", count if begin.devices else f"{count}{_why(end)}"]
    parts.append(measured_seconds(end.duration_seconds))
    if busy is not None:
        parts.append(f"{fixed(busy)} % busy")
    parts += _energy(devices)
    if throttled:
        parts.append(f"throttled {fixed(100 * throttled)} %{_main_cause(devices)}")
    if waiting_share is not None:
        parts.append(f"waited for data {fixed(100 * waiting_share)} %")
    return " · ".join([*parts, f"andon runs show {begin.id}"])


def cell_texts(begin: RunBegin, end: RunEnd) -> list[str]:
    """Returns `GPU 1 · 3 min 12 s busy of 3 min 40 s · peak 31.2 GiB · 0.04 kWh` for each device
    and, where there is none, how long it took."""
    took = measured_seconds(end.duration_seconds)
    lines = []
    for device in begin.devices:
        used = end.summary.get(device.uuid, {})
        busy = used.get("utilization_percent", {}).get("mean")
        known = None if busy is None else measured_seconds(end.duration_seconds * busy / 100)
        parts = [title(device.label), took if known is None else f"{known} busy of {took}"]
        if used.get("peak_memory_bytes") is not None:
            parts.append(f"peak {human_bytes(used['peak_memory_bytes'])}")
        parts += _energy([used])
        lines.append(" · ".join(parts))
    return lines or [f"{took} without a GPU{_why(end)}"]


def _energy(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    joules = sum_of(devices, "energy_joules")
    return [] if joules is None else [human_joules(joules, energy_source_of(devices) == POWER)]


def _why(end: RunEnd) -> str:
    """Returns why nothing was sampled, in parentheses."""
    return f" ({end.no_samples_reason})" if end.no_samples_reason else ""


def _main_cause(devices: Sequence[Mapping[str, Any]]) -> str:
    """Returns the reason that slowed the devices down for longest, in parentheses."""
    shares = [
        (share, name)
        for one in devices
        for name, share in one["throttle_by_cause"].items()
        if reason_of(name).kind in SLOWED
    ]
    return f" ({reason_of(max(shares)[1]).label})" if shares else ""


def report_text(name: str, identity: str) -> str:
    """Returns `run train.py: andon runs report kqzab…`."""
    return f"run {name}: andon runs report {identity}"
