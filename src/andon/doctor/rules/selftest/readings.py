"""Checks single readings against physics and against the device's own limits."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from andon.doctor.rules.findings import CheckResult, failure, ok, unknown
from andon.doctor.rules.selftest.trials import DOCTOR, REPORT, SHOWN, History, SelftestTrial
from andon.model.device import MemoryKind, Sample, reading_label
from andon.sampling.rules.readings import IMPOSSIBLE, MEMORY_MISSING, SHARES_MISSING
from andon.units import counted

HOTTEST_CELSIUS = 120
POWER_FACTOR = 1.5  # short peaks exceed the limit
CLOCK_FACTOR = 1.1
MEMORY_SHARE = 0.01
ENERGY_FACTOR = 3.0  # power is an average over a second, or an instant
BUSY_PERCENT = 10
_SHARES = (
    "utilization_percent", "memory_utilization_percent", "encoder_percent", "decoder_percent",
    "sm_active_percent", "tensor_active_percent",
)  # fmt: skip


class TrialResult(Struct, frozen=True):
    """One trial of one device: what was wrong, and the values seen."""

    wrong: tuple[str, ...] = ()
    seen: tuple[float, ...] = ()


class ReadingTrial(Struct, frozen=True):
    """One trial of the readings: its name, its unit, and its check."""

    trial: SelftestTrial
    name: str
    unit: str
    judge: Callable[[History], TrialResult]
    fields: tuple[str, ...]
    """Fields whose impossible values may have been left out."""


def judge_readings(histories: Sequence[History]) -> Iterator[CheckResult]:
    """Yields every row of the table, then whether any reading changes at all."""
    for row in ROWS:
        yield from _findings(row, histories)
    yield _movement(histories)


def _values(samples: Iterable[Sample], name: str) -> list[float]:
    found = (getattr(sample, name) for sample in samples)
    return [float(value) for value in found if value is not None]


def _within(values: Sequence[float], low: float, high: float, name: str, unit: str) -> list[str]:
    bad = [v for v in values if not (math.isfinite(v) and low <= v <= high)]
    return [f"{name} {bad[0]:g} {unit} is not within {low:g} to {high:g}"] if bad else []


def _shares(history: History) -> TrialResult:
    wrong: list[str] = []
    for name in _SHARES:
        wrong += _within(_values(history.samples, name), 0, 100, reading_label(name), "%")
    return TrialResult(tuple(wrong), tuple(_values(history.samples, "utilization_percent")))


def _temperature(history: History) -> TrialResult:
    wrong: list[str] = []
    for name in ("temperature_celsius", "memory_temperature_celsius"):
        found = _values(history.samples, name)
        wrong += _within(found, 1, HOTTEST_CELSIUS - 1, reading_label(name), "°C")
    return TrialResult(tuple(wrong), tuple(_values(history.samples, "temperature_celsius")))


def _power(history: History) -> TrialResult:
    limits = _values(history.samples, "power_limit_watts")
    limits += [history.device.limits.power_default_watts or 0.0]
    high = POWER_FACTOR * max(limits) if any(limits) else math.inf
    watts = _values(history.samples, "power_watts")
    return TrialResult(tuple(_within(watts, 0, high, "power", "W")), tuple(watts))


def _clocks(history: History) -> TrialResult:
    most = history.device.limits.sm_clock_mhz
    high = CLOCK_FACTOR * most if most else math.inf
    clocks = _values(history.samples, "sm_clock_mhz")
    wrong = _within(clocks, 0, high, "SM clock", "MHz")
    wrong += _within(_values(history.samples, "memory_clock_mhz"), 0, 1e5, "memory clock", "MHz")
    return TrialResult(tuple(wrong), tuple(clocks))


def _link(history: History) -> TrialResult:
    limits, wrong = history.device.limits, []
    for name, most in (("generation", limits.pcie_generation), ("width", limits.pcie_width)):
        values = _values(history.samples, f"pcie_{name}")
        wrong += _within(values, 0, most or 64, f"PCIe {name}", "")
    return TrialResult(tuple(wrong), tuple(_values(history.samples, "pcie_width")))


def _memory(history: History) -> TrialResult:
    total, samples = history.device.memory_total_bytes, history.samples
    used = _values(samples, "memory_used_bytes")
    if total is None or not used:
        return TrialResult()
    wrong = [] if total > 0 else ["the memory size is 0"]
    if any(not 0 <= value <= total * (1 + MEMORY_SHARE) for value in used):
        wrong.append(f"{max(used):.0f} bytes used of {total}")
    if history.device.memory_kind is MemoryKind.DEVICE:
        wrong += [w for sample in samples if (w := _unbalanced(sample, total))][:1]
    return TrialResult(tuple(wrong), tuple(100 * value / max(1, total) for value in used))


def _unbalanced(sample: Sample, total: int) -> str:
    parts = (sample.memory_used_bytes, sample.memory_free_bytes, sample.memory_reserved_bytes)
    if any(part is None for part in parts):
        return ""
    whole = sum(part for part in parts if part is not None)
    if abs(whole - total) <= MEMORY_SHARE * total:
        return ""
    return f"used + free + reserved is {100 * whole / total:.1f} % of the total"


def _processes(history: History) -> TrialResult:
    """Checks processes; one that is in two lists is counted once."""
    total = history.device.memory_total_bytes
    if total is None or history.divided or history.device.memory_kind is not MemoryKind.DEVICE:
        return TrialResult()
    wrong, seen = [], []
    for status, sample in history.answered:
        held: dict[int, int] = {}
        for process in status.processes:
            held[process.pid] = max(held.get(process.pid, 0), process.memory_bytes or 0)
        used = (sample.memory_used_bytes or 0) + (sample.memory_reserved_bytes or 0)
        if sum(held.values()) > used + MEMORY_SHARE * total:
            wrong.append(f"its processes hold {sum(held.values())} bytes of {used} in use")
        seen.append(float(len(held)))
    return TrialResult(tuple(wrong[:1]), tuple(seen))


def _energy(history: History) -> TrialResult:
    """Checks energy; the counter is read rarely, so only different times are useful."""
    reads = {
        s.read_at.get("energy_joules", s.at): s.energy_joules
        for s in history.samples
        if s.energy_joules is not None
    }
    if len(reads) < 2:
        return TrialResult()
    (began, first), (ended, last) = min(reads.items()), max(reads.items())
    watts = _values(history.samples, "power_watts")
    mean, shown = (last - first) / (ended - began), f"{last - first:.0f} J in {ended - began:.1f} s"
    if last < first:
        return TrialResult((f"the energy counter decreased: {shown}",), (mean,))
    if watts and ended - began >= 1 and not _alike(mean, min(watts), max(watts)):
        message = f"energy grew by {shown}, but power was {min(watts):.0f} to {max(watts):.0f} W"
        return TrialResult((message,), (mean,))
    return TrialResult((), (mean,))


def _alike(mean: float, low: float, high: float) -> bool:
    return low / ENERGY_FACTOR - 1 <= mean <= high * ENERGY_FACTOR + 1


ROWS = (
    ReadingTrial(SelftestTrial.SHARES, "utilisation", "%", _shares, (*_SHARES, "fan_percent")),
    ReadingTrial(SelftestTrial.MEMORY, "memory in use", "%", _memory,
        ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes", "memory_total_bytes",
         "ecc_uncorrected")),
    ReadingTrial(
        SelftestTrial.PROCESSES, "processes", "", _processes, (MEMORY_MISSING, SHARES_MISSING)
    ),
    ReadingTrial(SelftestTrial.TEMPERATURE, "temperature", "°C", _temperature,
        ("temperature_celsius", "memory_temperature_celsius", "limits.slowdown_celsius")),
    ReadingTrial(SelftestTrial.POWER, "power", "W", _power,
        ("power_watts", "power_limit_watts", "limits.power_default_watts")),
    ReadingTrial(SelftestTrial.ENERGY, "energy, as mean power", "W", _energy, ("energy_joules",)),
    ReadingTrial(SelftestTrial.CLOCKS, "SM clock", "MHz", _clocks,
        ("sm_clock_mhz", "memory_clock_mhz", "limits.sm_clock_mhz", "performance_state")),
    ReadingTrial(SelftestTrial.LINK, "PCIe width", "", _link,
        ("pcie_generation", "pcie_width", "limits.pcie_generation", "limits.pcie_width")),
)  # fmt: skip


def _findings(row: ReadingTrial, histories: Sequence[History]) -> Iterator[CheckResult]:
    """Yields a finding per device that is wrong, or one for all that are right."""
    outcomes = [(history.label, row.judge(history)) for history in histories]
    wrong = [(h.label, message) for h in histories for message in _left_out(row, h)[:1]]
    reported = {label for label, _ in wrong}
    wrong += [(label, o.wrong[0]) for label, o in outcomes if o.wrong and label not in reported]
    for label, message in wrong[:SHOWN]:
        yield failure(row.trial, f"{label}: {message}", REPORT)
    if len(wrong) > SHOWN:
        yield failure(row.trial, f"{row.name}: and {len(wrong) - SHOWN} more devices", REPORT)
    seen = [value for _, outcome in outcomes for value in outcome.seen]
    if wrong:
        return
    if not seen:
        yield unknown(row.trial, f"{row.name}: {_why_unseen(row.trial)}")
        return
    low, high = min(seen), max(seen)
    shown = f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} to {high:.4g}"
    yield ok(row.trial, f"{row.name} {shown} {row.unit}".rstrip(), low=low, high=high)


def _left_out(row: ReadingTrial, history: History) -> list[str]:
    """Returns why values of this kind that the driver reported were left out as impossible."""
    reasons = (s.missing.get(name, "") for s in history.statuses for name in row.fields)
    return [reason for reason in reasons if reason.endswith(IMPOSSIBLE)]


def _why_unseen(trial: SelftestTrial) -> str:
    if trial is SelftestTrial.ENERGY:
        return "the counter was read once; it is read every minute: --seconds 70"
    return "not reported by any device"


def _movement(histories: Sequence[History]) -> CheckResult:
    """Checks that readings change: a busy device whose power never changes returns old readings."""
    frozen = [h.label for h in histories if _is_frozen(h.samples)]
    moving = sum(len({_moving(s) for s in h.samples}) > 1 for h in histories)
    if frozen:
        message = f"{', '.join(frozen[:SHOWN])}: busy, but no reading changes"
        return failure(SelftestTrial.MOVEMENT, message, DOCTOR)
    if moving:
        return ok(
            SelftestTrial.MOVEMENT,
            f"the readings of {counted(moving, 'device')} change",
            moving=moving,
        )
    used = [value for h in histories for value in _values(h.samples, "utilization_percent")]
    if (busy := max(used, default=0.0)) >= BUSY_PERCENT:  # too few samples, or busy in some of them
        message = f"nothing changes, at up to {busy:.0f} % utilisation: try --seconds 10"
        return unknown(SelftestTrial.MOVEMENT, message)
    return ok(SelftestTrial.MOVEMENT, "nothing changes, but nothing is busy: try --load", moving=0)


def _is_frozen(samples: list[Sample]) -> bool:
    busy = len(samples) >= 4 and min(_values(samples, "utilization_percent"), default=0)
    return bool(busy) and busy >= BUSY_PERCENT and len({_moving(s) for s in samples}) == 1


def _moving(sample: Sample) -> tuple[object, ...]:
    return (
        sample.utilization_percent, sample.power_watts, sample.temperature_celsius,
        sample.memory_used_bytes, sample.sm_clock_mhz, sample.memory_utilization_percent,
    )  # fmt: skip
