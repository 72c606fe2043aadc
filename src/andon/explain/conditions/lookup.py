"""Conditions by name, each loaded when it is needed, and their thresholds without loading any.

What is known of a condition that is not loaded comes from `index`, which is made from the files of
the conditions. `catalogue` loads all of them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from andon.explain.conditions.index import FIGURES, LIT, PLACES, PRESENT, THROTTLED
from andon.explain.conditions.index import RULES_OF as RULES_OF
from andon.model.device import DeviceStatus
from andon.model.thresholds import NOTHING_OFF, Thresholds

if TYPE_CHECKING:
    from andon.explain.conditions.condition import Condition

DEFAULTS = Thresholds(FIGURES)


class _ByName(Mapping[str, "Condition"]):
    """Every condition by its name; its module is imported on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Condition] = {}

    def __getitem__(self, name: str) -> "Condition":
        found = self._loaded.get(name)
        if found is None:
            module = import_module(f"{__package__}.{PLACES[name]}")
            found = self._loaded[name] = module.CONDITION
        return found

    def __contains__(self, name: object) -> bool:
        return name in PLACES

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


BY_NAME: Mapping[str, "Condition"] = _ByName()


def thresholds(off: frozenset[str] = NOTHING_OFF, **figures: float) -> Thresholds:
    """The defaults with these figures instead."""
    if unknown := figures.keys() - FIGURES.keys():
        raise TypeError(f"there is no figure {', '.join(sorted(unknown))}")
    return DEFAULTS.changed(figures, off)


def may_light(status: DeviceStatus, figures: Thresholds) -> Iterator[str]:
    """The names of the conditions that a single reading of a device may show."""
    sample = status.sample if status.answered else None
    throttle = None if sample is None else sample.throttle
    for name in LIT:
        reasons = THROTTLED.get(name, "").split()
        gated = bool(reasons) and throttle is not None and not set(reasons) & set(throttle)
        if not gated and _passes(name, status, figures):
            yield name


def may_be_present(status: DeviceStatus) -> Iterator["Condition"]:
    """The conditions that may light its lamp as long as a reading shows them."""
    return (BY_NAME[name] for name in PRESENT if _passes(name, status, DEFAULTS))


def _passes(name: str, status: DeviceStatus, figures: Thresholds) -> bool:
    from andon.explain.conditions import triggers  # thresholds alone need none

    trigger = LIT[name]
    passed: bool = trigger is None or getattr(triggers, trigger)(status, figures)
    return passed
