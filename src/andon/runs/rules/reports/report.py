"""What a run used, device by device, from its record: the numbers of every form of its report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from andon.model.run.record import (
    GitState,
    ItemState,
    OutOfMemory,
    RunAlert,
    RunBegin,
    RunCurve,
    RunDevice,
    RunEvent,
    RunItem,
    RunLogged,
    RunSeries,
    RunState,
)
from andon.model.run.use import IdleSpells, MemoryPlateau, whole_sum
from andon.model.throttling import IDLE
from andon.model.utilisation import BARELY_BUSY_PERCENT
from andon.runs.rules.fold import RunFold

# The phases of a run on one device, from its series: idle before, at work, idle after.

LEAST_POINTS = 4


class Phases(Struct, frozen=True):
    """The idle seconds before the first and after the last work, and how busy it was in between."""

    idle_before_seconds: float
    working_seconds: float
    idle_after_seconds: float
    busy_percent: float | None  # between the two


def phases_of(
    at: Sequence[float], busy: Sequence[float | None], duration: float | None
) -> Phases | None:
    """Returns the phases; `at` are the starts of the spans. None if too little is known."""
    known = [(time, value) for time, value in zip(at, busy, strict=True) if value is not None]
    working = [place for place, (_, value) in enumerate(known) if value > BARELY_BUSY_PERCENT]
    if len(known) < LEAST_POINTS or not working or duration is None:
        return None
    first, last = working[0], working[-1]
    begins = known[first][0] if first else 0.0
    ends = known[last + 1][0] if last + 1 < len(known) else max(duration, known[-1][0])
    inner = [value for _, value in known[first : last + 1]]
    return Phases(
        idle_before_seconds=begins,
        working_seconds=ends - begins,
        idle_after_seconds=max(0.0, duration - ends),
        busy_percent=sum(inner) / len(inner),
    )


# How much a run got done: items by device, and steps by time.


class DeviceItems(Struct, frozen=True):
    """The items that one device worked through."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    mean_seconds: float | None = None  # of those that succeeded
    per_second: float | None = None  # over the whole run


def items_by_device(
    items: Iterable[RunItem], devices: Sequence[RunDevice], duration: float | None
) -> dict[str, DeviceItems]:
    """Counts items by uuid. An item without a device counts for the only device, and for none if
    there are several."""
    labels = {device.label: device.uuid for device in devices}
    only = devices[0].uuid if len(devices) == 1 else None
    found: dict[str, list[RunItem]] = {}
    for item in items:
        uuid = labels.get(item.device, only) if item.device is not None else only
        if uuid is not None and item.state is not ItemState.START:
            found.setdefault(uuid, []).append(item)
    return {uuid: _counted(listed, duration) for uuid, listed in found.items()}


def _counted(items: Sequence[RunItem], duration: float | None) -> DeviceItems:
    done = [item for item in items if item.state is ItemState.OK]
    times = [item.runtime_seconds for item in done if item.runtime_seconds is not None]
    return DeviceItems(
        done=len(done),
        failed=sum(item.state is ItemState.FAILED for item in items),
        retried=sum(item.state is ItemState.RETRY for item in items),
        mean_seconds=sum(times) / len(times) if times else None,
        per_second=len(done) / duration if duration else None,
    )


def steps_per_second(logged: Sequence[RunLogged]) -> float | None:
    """Returns the rate between the first and the last logged step; None if steps or time did not
    advance."""
    known = [(line.at, line.step) for line in logged if line.step is not None]
    if len(known) < 2:
        return None
    (began, first), (ended, last) = known[0], known[-1]
    if ended <= began or last <= first:
        return None
    return (last - first) / (ended - began)


JOULES_PER_KWH = 3.6e6
MOST_ALERTS = 50
MOST_EVENTS = 200
READINGS = (
    "utilization_percent", "memory_used_bytes", "memory_utilization_percent", "sm_active_percent",
    "temperature_celsius", "power_watts", "sm_clock_mhz", "memory_clock_mhz", "fan_percent",
)  # fmt: skip
"""The readings that a report lists, in its order."""


class Prices(Struct, frozen=True):
    """The prices of a kilowatt hour, as far as the settings have them."""

    per_kwh: float | None = None
    currency: str = ""
    co2_grams_per_kwh: float | None = None


NO_PRICES = Prices()


class ReadingFigures(Struct, frozen=True):
    """A reading over the whole run; None if it was never known."""

    min: float | None = None
    mean: float | None = None
    p95: float | None = None
    max: float | None = None


class DeviceReport(Struct, frozen=True):
    """One device of a run."""

    device: RunDevice
    samples: int | None = None
    readings: Mapping[str, ReadingFigures] = field(default_factory=dict)
    idle_share: float | None = None
    spells: IdleSpells | None = None
    throttle_share: float | None = None  # slowed down by power, heat or hardware
    throttle_shares: Mapping[str, float] = field(default_factory=dict)  # by reason, without idle
    peak_memory_bytes: int | None = None
    plateau: MemoryPlateau | None = None
    energy_joules: float | None = None
    energy_source: str | None = None
    held_seconds: float | None = None
    phases: Phases | None = None
    items: DeviceItems | None = None

    @property
    def wasted_seconds(self) -> float | None:
        """Returns how long the device was held and did nothing at all."""
        if self.idle_share is None or self.held_seconds is None:
            return None
        return self.idle_share * self.held_seconds

    def mean(self, reading: str) -> float | None:
        return self.readings.get(reading, ReadingFigures()).mean

    def most(self, reading: str) -> float | None:
        return self.readings.get(reading, ReadingFigures()).max


class RunReport(Struct, frozen=True):
    """A run and its devices."""

    begin: RunBegin
    state: RunState
    duration_seconds: float | None
    samples: int | None  # None where only the two ends of an unfinished record were read
    devices: tuple[DeviceReport, ...]
    git: GitState | None = None
    git_reason: str | None = None  # why there is none
    versions: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    message: str | None = None
    no_samples_reason: str | None = None
    dropped: int = 0
    cpu: ReadingFigures = ReadingFigures()
    energy_joules: float | None = None  # of all devices
    cost: float | None = None
    co2_grams: float | None = None
    prices: Prices = NO_PRICES
    out_of_memory: OutOfMemory | None = None
    alerts: tuple[RunAlert, ...] = ()  # the latest `MOST_ALERTS`
    alert_count: int = 0
    events: tuple[RunEvent, ...] = ()
    last_values: Mapping[str, float] = field(default_factory=dict)
    steps_per_second: float | None = None
    begun_twice: int = 0  # items that a killed map had begun, and this one began again
    series: RunSeries | None = None
    curves: Mapping[str, RunCurve] = field(default_factory=dict)  # of the logged values

    @property
    def device_seconds(self) -> float | None:
        """Returns the sum of the devices' seconds."""
        return whole_sum(device.held_seconds for device in self.devices)

    @property
    def wasted_seconds(self) -> float | None:
        """Returns the wasted time of all devices; None if it is unknown for any of them."""
        return whole_sum(device.wasted_seconds for device in self.devices)

    @property
    def items_done(self) -> int:
        return sum(device.items.done for device in self.devices if device.items is not None)

    @property
    def items_per_second(self) -> float | None:
        if not self.items_done or not self.duration_seconds:
            return None
        return self.items_done / self.duration_seconds


def report_of(
    fold: RunFold,
    alive: bool = False,
    now: float = 0.0,
    prices: Prices = NO_PRICES,
    whole: bool = True,
) -> RunReport:
    """Returns the report of a record that has its first line; `whole`: whether every line of it was
    folded."""
    begin, end, tallies = fold.begin, fold.end, fold.tallies
    assert begin is not None
    duration = fold.duration_seconds(alive, now)
    series = fold.series()
    done = items_by_device(fold.items, begin.devices, duration)
    summary = fold.summary()
    node: Mapping[str, Any] = end.node if end else tallies.node() if tallies else {}
    devices = tuple(
        _device(device, summary.get(device.uuid, {}), series, duration, done.get(device.uuid))
        for device in begin.devices
    )
    energy = whole_sum(device.energy_joules for device in devices)
    curves = fold.curves()
    went_back = any(curve.restarts for curve in curves.values())
    return RunReport(
        begin=begin,
        state=fold.state(alive),
        duration_seconds=duration,
        samples=end.samples if end else fold.samples if whole else None,
        devices=devices,
        git=fold.facts.git if fold.facts else None,
        git_reason=fold.facts.git_reason if fold.facts else None,
        versions=fold.facts.versions if fold.facts else {},
        exit_code=end.exit_code if end else None,
        message=end.message if end else None,
        no_samples_reason=end.no_samples_reason if end else None,
        dropped=end.dropped if end else 0,
        cpu=_figures(node.get("cpu_percent", {})),
        energy_joules=energy,
        cost=_priced(energy, prices.per_kwh),
        co2_grams=_priced(energy, prices.co2_grams_per_kwh),
        prices=prices,
        out_of_memory=end.out_of_memory if end else None,
        alerts=tuple(fold.alerts)[-MOST_ALERTS:],
        alert_count=len(fold.alerts),
        events=tuple(fold.events)[-MOST_EVENTS:],
        last_values=dict(fold.last_values),
        steps_per_second=None if went_back else steps_per_second(fold.step_lines),
        begun_twice=len({item.index for item in fold.items if item.begun_before}),
        series=series,
        curves=curves,
    )


def _device(
    device: RunDevice,
    used: Mapping[str, Any],
    series: RunSeries | None,
    duration: float | None,
    items: DeviceItems | None,
) -> DeviceReport:
    busy = series.devices.get(device.uuid, {}).get("utilization_percent") if series else None
    return DeviceReport(
        device=device,
        samples=used.get("samples"),
        readings=_readings(used),
        idle_share=used.get("idle_share"),
        spells=used.get("idle_spells"),
        throttle_share=used.get("throttle_share"),
        throttle_shares=_shares(used.get("throttle_by_cause") or {}),
        peak_memory_bytes=used.get("peak_memory_bytes"),
        plateau=used.get("memory_plateau"),
        energy_joules=used.get("energy_joules"),
        energy_source=used.get("energy_source"),
        held_seconds=duration if used.get("held_seconds") is None else used["held_seconds"],
        phases=phases_of(series.at, busy, duration) if series and busy else None,
        items=items,
    )


def _figures(spread: Mapping[str, float | None]) -> ReadingFigures:
    return ReadingFigures(*(spread.get(name) for name in ("min", "mean", "p95", "max")))


def _readings(used: Mapping[str, Any]) -> dict[str, ReadingFigures]:
    found = {name: _figures(used.get(name) or {}) for name in READINGS}
    return {name: read for name, read in found.items() if read.mean is not None}


def _shares(by_cause: Mapping[str, float]) -> dict[str, float]:
    """Returns the shares of throttling reasons, largest first; idleness is left out."""
    known = {name: share for name, share in by_cause.items() if share > 0 and name != IDLE.name}
    return dict(sorted(known.items(), key=lambda pair: (-pair[1], pair[0])))


def _priced(joules: float | None, per_kwh: float | None) -> float | None:
    return None if joules is None or per_kwh is None else joules / JOULES_PER_KWH * per_kwh
