"""Every condition: all modules beside this one that define `CONDITION`."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple

from andon.errors import Gone
from andon.explain import conditions
from andon.explain.conditions.condition import Condition, Subject
from andon.explain.conditions.state.phrases import ALERT
from andon.model.thresholds import Thresholds

_ORDER = tuple(Subject)


class Group(NamedTuple):
    """A folder of conditions: its name, what its conditions are about, and the conditions."""

    name: str
    about: str
    conditions: tuple[Condition, ...]


def _groups() -> Iterator[Group]:
    for folder in iter_modules(conditions.__path__):
        if folder.ispkg:
            package = import_module(f"{conditions.__name__}.{folder.name}")
            names = [one.name for one in iter_modules(package.__path__)]
            modules = [import_module(f"{package.__name__}.{name}") for name in names]
            found = [module.CONDITION for module in modules if hasattr(module, "CONDITION")]
            yield Group(folder.name, package.__doc__ or "", tuple(sorted(found, key=_place)))


def _place(condition: Condition) -> tuple[int, int, str]:
    """Orders conditions by what they are about, then the most urgent first."""
    return _ORDER.index(condition.subject_kind), -condition.weight, condition.name


GROUPS = tuple(_groups())
"""The folders beside this module, each with its conditions."""
GROUP_OF = {one.name: group.name for group in GROUPS for one in group.conditions}
CONDITIONS = tuple(sorted((one for group in GROUPS for one in group.conditions), key=_place))
"""Every condition, those that `why` alone mentions included."""
BY_NAME = {condition.name: condition for condition in CONDITIONS}
RULES = tuple(condition for condition in CONDITIONS if condition.rungs)
"""The conditions that can become alerts: the alert rules."""
SHOWN_REASONS = frozenset(
    kind.code
    for condition in CONDITIONS
    if condition.lights or any(BY_NAME[name].lights for name in condition.explains)
    for kind in condition.kinds
) | {ALERT.code}
"""The reasons that explain a lamp; all others are hints."""
CODES_OF: dict[str, frozenset[str]] = {
    rule.name: frozenset(
        kind.code
        for condition in CONDITIONS
        if condition is rule or rule.name in condition.explains
        for kind in condition.kinds
    )
    for rule in RULES
}
"""The reasons that explain the lamp of each rule."""
FIGURES = {figure.name: figure for condition in CONDITIONS for figure in condition.figures}
RULES_OF = {rule.threshold: rule.name for rule in RULES if rule.threshold is not None}
"""The rule of each main figure: setting the figure to "off" turns its rule off."""
DEFAULTS = Thresholds({figure.name: figure.default for figure in FIGURES.values()})


def condition_named(name: str) -> Condition:
    """Returns the condition of this name; raises Gone with the most similar name."""
    if (found := BY_NAME.get(name)) is not None:
        return found
    from difflib import get_close_matches  # only if there is a mistake

    near = get_close_matches(name, BY_NAME, n=1)
    hint = f"did you mean {near[0]}?" if near else "to list them: andon alerts rules --all"
    raise Gone(f"there is no rule {name[:40]!r}", hint=hint)
