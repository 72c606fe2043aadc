"""Numbers derived from readings: functions of the view, None if an input is unknown.

The name of a function is that of its number as evidence.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from andon.explain.evidence.forecast import median
from andon.explain.evidence.reasons import Evidence
from andon.explain.evidence.view import RECENT_SECONDS, View
from andon.model.device import DeviceStatus, Process, Sample
from andon.model.utilisation import BARELY_BUSY_PERCENT

GAP_SECONDS = 90.0  # after a longer gap a state is not known to have lasted


def temperature_celsius(view: View) -> int | None:
    """Returns how hot it is."""
    return view.sample.temperature_celsius


def utilization_percent(view: View) -> int | None:
    """Returns how busy it is."""
    return view.sample.utilization_percent


def clock_loss_percent(view: View) -> float | None:
    """Returns how far the SM clock is below the device's maximum."""
    loss = view.status.clock_loss_percent if view.status.answered else None
    return None if loss is None else max(0.0, round(loss, 1))


def memory_percent(view: View) -> float | None:
    """Used memory in percent of the total."""
    return view.status.memory_percent if view.status.answered else None


def power_percent(view: View) -> float | None:
    """Power in percent of the current limit."""
    return view.status.power_percent if view.status.answered else None


def power_limit_percent(view: View) -> float | None:
    """Returns the current power limit in percent of the card's default."""
    limit, default = view.sample.power_limit_watts, view.device.limits.power_default_watts
    return None if limit is None or not default else round(100.0 * limit / default, 1)


def memory_unattributed_bytes(view: View) -> int | None:
    """Memory in use by no visible process."""
    return view.status.memory_unattributed_bytes if view.status.answered else None


def slowdown_margin_celsius(view: View) -> int | None:
    """Returns how far it is from its slowdown temperature."""
    return view.status.slowdown_margin_celsius if view.status.answered else None


def state_seconds(view: View) -> float | None:
    """Returns how long it has been in its state."""
    lasted = view.at - view.status.since
    return lasted if lasted >= 0 else None


def recent_seconds(view: View) -> float | None:
    """Returns the time span of the samples of the last minute."""
    recent = _recent(view)
    return recent[-1].at - recent[0].at if len(recent) > 1 else None


def utilization_mean_percent(view: View) -> float | None:
    """Returns the mean utilisation of the last minute."""
    shares = _shares(view)
    return round(sum(shares) / len(shares), 1) if shares else None


def utilization_min_percent(view: View) -> int | None:
    """Returns the minimum utilisation of the last minute."""
    return min(_shares(view), default=None)


def utilization_max_percent(view: View) -> int | None:
    """Returns the maximum utilisation of the last minute."""
    return max(_shares(view), default=None)


def idle_seconds(view: View) -> float | None:
    """Returns for how long every sample has been idle; None if the latest is not."""
    return _lasted(view, _is_idle)


def process_idle_seconds(view: View, process: Process) -> float | None:
    """For how long every sample has shown this process as idle."""
    return _lasted(view, lambda status: _does_nothing(status, process))


def graphics_memory_bytes(view: View) -> int | None:
    """Returns the total memory of all graphics processes; None if one is unknown."""
    sizes = [process.memory_bytes for process in view.graphics]
    return sum(size or 0 for size in sizes) if sizes and None not in sizes else None


def temperature_fall_celsius(view: View) -> int | None:
    """Returns how far it has cooled since the warmest sample of the last minute."""
    warm = [s.temperature_celsius for s in _recent(view) if s.temperature_celsius is not None]
    now = view.sample.temperature_celsius
    return max(warm) - now if warm and now is not None else None


def ecc_rise(view: View) -> int | None:
    """Returns how many errors occurred since the first sample; None if the counter was reset."""
    counts = [c for s in _samples(view) if (c := s.ecc_uncorrected) is not None]
    return counts[-1] - counts[0] if len(counts) > 1 and counts[-1] >= counts[0] else None


def peers(view: View) -> list[Sample]:
    """Returns the samples of the other busy devices of the same model."""
    own = view.device
    return [
        status.sample
        for status in view.snapshot.devices
        if status.device.uuid != own.uuid
        and (status.device.vendor, status.device.name) == (own.vendor, own.name)
        and status.device.parent is None
        and status.answered
        and status.sample is not None
        and (status.sample.utilization_percent or 0) >= 80
    ]


def peers_sm_clock_mhz(view: View) -> float | None:
    """Returns the median clock of the busy devices of the same model."""
    clocks = [s.sm_clock_mhz for s in peers(view) if s.sm_clock_mhz is not None]
    return median(clocks) if clocks else None


def peers_temperature_celsius(view: View) -> float | None:
    """Returns the median temperature of the busy devices of the same model."""
    found = [s.temperature_celsius for s in peers(view) if s.temperature_celsius is not None]
    return median(found) if found else None


Measure = Callable[[View], float | int | None]


def measured(view: View, measure: Measure) -> Evidence | None:
    """Returns a measure as evidence, under its name."""
    return view.derived(measure.__name__, measure(view))


def _samples(view: View) -> list[Sample]:
    return [status.sample for status in view.past if status.sample is not None]


def _recent(view: View) -> list[Sample]:
    samples = _samples(view)
    return [s for s in samples if samples[-1].at - s.at <= RECENT_SECONDS]


def _shares(view: View) -> list[int]:
    return [u for s in _recent(view) if (u := s.utilization_percent) is not None]


def _is_idle(status: DeviceStatus) -> bool:
    share = status.sample.utilization_percent if status.sample else None
    return share is not None and share <= BARELY_BUSY_PERCENT


def _does_nothing(status: DeviceStatus, process: Process) -> bool:
    """Whether a process is idle, by its own utilisation, or the device's if that is unknown."""
    same = (p for p in status.processes if (p.pid, p.started) == (process.pid, process.started))
    found = next(same, None)
    if found is None:
        return False
    return _is_idle(status) if found.utilization_percent is None else not found.utilization_percent


def _lasted(view: View, holds: Callable[[DeviceStatus], bool]) -> float | None:
    """Returns for how long a condition has held without interruption or gaps."""
    times = list(_while(view, holds))
    return times[0] - times[-1] if times else None


def _while(view: View, holds: Callable[[DeviceStatus], bool]) -> Iterator[float]:
    if not view.status.answered:
        return
    answers = [(s, s.sample.at) for s in reversed(view.past) if s.sample is not None]
    before = [answers[0][1] if answers else 0.0, *(at for _, at in answers)]
    for (status, at), (later, _) in zip(answers, pairwise(before), strict=False):
        if not holds(status) or later - at > GAP_SECONDS:
            return
        yield at
