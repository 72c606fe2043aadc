"""Every condition: all modules beside this one that define `CONDITION`."""

from importlib import import_module
from pkgutil import walk_packages

from andon.core import conditions
from andon.core.conditions.condition import Condition, Subject
from andon.core.conditions.state.phrases import HEALTHY
from andon.core.evidence.reasons import Explanation, ReasonKind
from andon.model.thresholds import NOTHING_OFF, Thresholds

_ORDER = tuple(Subject)


def _found() -> tuple[Condition, ...]:
    here = walk_packages(conditions.__path__, f"{conditions.__name__}.")
    modules = [import_module(one.name) for one in here if one.name.count(".") > 3]
    found = [module.CONDITION for module in modules if hasattr(module, "CONDITION")]
    return tuple(sorted(found, key=_place))


def _place(condition: Condition) -> tuple[int, int, str]:
    """By what they are about, then the most urgent first."""
    return _ORDER.index(condition.subject_kind), -condition.weight, condition.name


CONDITIONS = _found()
"""Every condition, those that `why` alone mentions included."""
BY_NAME = {condition.name: condition for condition in CONDITIONS}
RULES = tuple(condition for condition in CONDITIONS if condition.rungs)
"""The conditions that can become alerts: the alert rules."""
PRESENT = tuple(rule for rule in RULES if rule.present is not None)
"""The conditions that light a lamp as long as a reading shows them."""
EXPLANATIONS: tuple[Explanation, ...] = tuple(
    explanation for condition in CONDITIONS for explanation in condition.reasons
)
REASON_KINDS: dict[str, ReasonKind] = {
    kind.code: kind for explanation in EXPLANATIONS for kind in explanation.kinds
} | {HEALTHY.code: HEALTHY}
"""Every kind of reason by its code."""
LIT_REASONS = frozenset(
    kind.code
    for condition in CONDITIONS
    if condition.lights or any(BY_NAME[name].lights for name in condition.explains)
    for explanation in condition.reasons
    for kind in explanation.kinds
)
"""The reasons that explain a lamp; all others are hints."""
FIGURES = {figure.name: figure for condition in CONDITIONS for figure in condition.figures}
RULES_OF = {rule.threshold: rule.name for rule in RULES if rule.threshold is not None}
"""The rule of each main figure: setting the figure to "off" turns its rule off."""
DEFAULTS = Thresholds({figure.name: figure.default for figure in FIGURES.values()})


def thresholds(off: frozenset[str] = NOTHING_OFF, **figures: float) -> Thresholds:
    """The defaults with these figures instead."""
    if unknown := figures.keys() - FIGURES.keys():
        raise TypeError(f"there is no figure {', '.join(sorted(unknown))}")
    return DEFAULTS.changed(figures, off)
