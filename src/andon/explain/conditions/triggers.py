"""Cheap tests without which a condition cannot light a lamp: `status` loads only those that pass.

A condition names one of these as its `lit_if`; one without is judged at every look.
"""

from andon.explain.conditions.heat.limits import hot_from
from andon.model.device import DeviceStatus, Sample, State
from andon.model.thresholds import Thresholds
from andon.model.utilisation import ZERO_READING

_NO_READING = Sample(at=0.0)


def never(status: DeviceStatus, figures: Thresholds) -> bool:
    """Returns False: the condition follows from how readings change, which one reading does not
    show."""
    return False


def silent(status: DeviceStatus, figures: Thresholds) -> bool:
    return status.state is not State.OK


def hot(status: DeviceStatus, figures: Thresholds) -> bool:
    celsius = _sample(status).temperature_celsius
    return celsius is not None and celsius >= hot_from(
        status.device.limits.slowdown_celsius, figures
    )


def fan_stopped(status: DeviceStatus, figures: Thresholds) -> bool:
    sample = _sample(status)
    return sample.fan_percent == 0 and (sample.temperature_celsius or 0) >= figures.fan_celsius


def slowed(status: DeviceStatus, figures: Thresholds) -> bool:
    """Whether the clock is further below the maximum than any power limit may cost."""
    clock, highest = _sample(status).sm_clock_mhz, status.device.limits.sm_clock_mhz
    most = min(figures.clock_loss_percent, figures.clock_loss_default_limit_percent)
    return clock is not None and bool(highest) and 100.0 * (1 - clock / (highest or 1)) > most


def narrow(status: DeviceStatus, figures: Thresholds) -> bool:
    """Whether the link has fewer lanes than card and slot allow."""
    width, widest = _sample(status).pcie_width, status.device.limits.link_width
    return width is not None and widest is not None and width < widest


def unattributed(status: DeviceStatus, figures: Thresholds) -> bool:
    """Whether nothing works, and much memory is in use by no visible process."""
    spare = status.memory_unattributed_bytes
    idle = _sample(status).utilization_percent == ZERO_READING
    return idle and spare is not None and spare >= figures.unattributed_bytes


def memory_errors(status: DeviceStatus, figures: Thresholds) -> bool:
    return bool(_sample(status).ecc_uncorrected)


def _sample(status: DeviceStatus) -> Sample:
    return status.sample if status.answered and status.sample is not None else _NO_READING
