"""What the explanations of clocks and power share."""

from andon.explain.evidence.measures import (
    clock_loss_percent,
    measured,
    power_limit_percent,
)
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Device
from andon.model.vendors import NVIDIA

LOWERED_PERCENT = 98.0  # of the card's default power limit
LEAST_LOSS_PERCENT = 1.0  # a smaller loss of the clock is not worth mentioning
CLOCKS_SET = ReasonKind(
    "clocks_set", "limited by application clocks, sync boost or a display", 45, mild=4
)
"""Milder: it costs little."""
LITTLE_PERCENT = 5.0  # a smaller loss of the clock is no problem


def loses(view: View, percent: float) -> bool:
    """Whether the device's clock is further below the maximum than this."""
    loss = clock_loss_percent(view)
    return loss is not None and loss > percent


def lowered(view: View) -> bool:
    """Whether the device's power limit is below the card's default."""
    share = power_limit_percent(view)
    return share is not None and share < LOWERED_PERCENT


def undo(device: Device, *options: str) -> str:
    """Returns how to undo a setting; andon itself changes nothing on a device."""
    if device.vendor != NVIDIA.name:
        return "To restore it, use the vendor's tool."
    commands = (f"sudo nvidia-smi -i {device.index} {option}" for option in options)
    return f"To restore: {', or '.join(commands)}"


def slower(view: View) -> Clause:
    """`, clock 12 % below maximum`, if that is worth mentioning."""
    if (clock_loss_percent(view) or 0) < LEAST_LOSS_PERCENT:
        return Clause()
    return phrase(", clock {loss} below maximum", loss=measured(view, clock_loss_percent))


def clocks(view: View) -> list[Evidence | None]:
    return [view.read("sm_clock_mhz"), view.limit("sm_clock_mhz")]
