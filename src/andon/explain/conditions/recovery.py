"""How alerts speak of what no longer holds: how bad it was, how it is, and when it clears."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from andon.model.thresholds import Thresholds
from andon.units import fixed, human_seconds


class Recovery(NamedTuple):
    """What a sentence about a recovered alert may use: it no longer holds, but is not clear yet."""

    it: str
    worst: float | None  # the highest value while it held
    value: float | None  # now
    clear_seconds: float  # how long it must be clear
    clears_in_seconds: float | None = None  # how long it must still stay so, if it is clear


def was(what: str, unit: str, subject: str = "{it}") -> Callable[[Recovery], str]:
    """A sentence about a recovery: `GPU 3 was too hot (99 °C); now 82 °C, clears in 80 s`."""

    def sentence(recovery: Recovery) -> str:
        worst = "" if recovery.worst is None else f" ({_shown(recovery.worst)} {unit})"
        now = "; " if recovery.value is None else f"; now {_shown(recovery.value)} {unit}, "
        return f"{subject.format(it=recovery.it)} was {what}{worst}{now}{clears(recovery)}"

    return sentence


def _shown(value: float) -> str:
    """The value as its evidence was shown while it held."""
    return fixed(round(value, 1))


def clears_below(figure: str, by: float) -> Callable[[Thresholds], Mapping[str, float | str]]:
    """Returns the function for the number `clear`: so much below a figure a condition ends."""
    return lambda figures: {"clear": getattr(figures, figure) - by}


def clears(recovery: Recovery) -> str:
    """`clears in 80 s`; `clears after 2 min` if it is not clear yet."""
    left = recovery.clears_in_seconds
    if left is not None:
        return f"clears in {human_seconds(left)}"
    return f"clears after {human_seconds(recovery.clear_seconds)}"
