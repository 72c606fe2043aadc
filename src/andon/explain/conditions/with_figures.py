"""Fills the thresholds in force into the texts of conditions."""

from collections.abc import Mapping

from msgspec.structs import replace

from andon.explain.conditions.condition import Condition, Rung
from andon.model.thresholds import Thresholds


def with_figures(condition: Condition, figures: Thresholds) -> Condition:
    """Fills thresholds and durations into a condition's texts."""
    numbers = _numbers(condition, figures)
    rungs = tuple(_rung(rung, figures, numbers) for rung in condition.rungs)
    return replace(condition, why=condition.why.format_map(numbers), rungs=rungs)


def _rung(rung: Rung, figures: Thresholds, numbers: Mapping[str, str]) -> Rung:
    return replace(
        rung,
        condition=rung.condition.format_map(numbers),
        clear_condition=rung.clear_condition.format_map(numbers),
        for_seconds=for_seconds(rung, figures),
    )


def for_seconds(rung: Rung, figures: Thresholds) -> float:
    """Returns how long a rung must hold, which for some is a figure."""
    if rung.for_figure is None:
        return rung.for_seconds
    found: float = getattr(figures, rung.for_figure)
    return found


def _numbers(condition: Condition, figures: Thresholds) -> Mapping[str, str]:
    own = {} if condition.numbers is None else condition.numbers(figures)
    found = {**figures.as_dict(), **own}
    return {name: v if isinstance(v, str) else f"{v:g}" for name, v in found.items()}
