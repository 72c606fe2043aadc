"""The thresholds in force, from the settings or from a caller's own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.settings.resolution import Settings, resolve

if TYPE_CHECKING:  # with its catalogue of conditions, which not every command needs
    from andon.explain.conditions.rulebook import Rulebook


def rulebook(settings: Settings) -> "Rulebook":
    """The thresholds from the settings; a threshold that is off turns its rule off."""
    from andon.explain.conditions.index import RULES_OF
    from andon.explain.conditions.rulebook import Override, Rulebook, thresholds

    given = settings.alerts_figures
    off = {RULES_OF[name] for name, figure in given if figure is None}
    figures = {name: figure for name, figure in given if figure is not None}
    overrides = [
        Override(one.device, one.model, one.figures, frozenset(one.disabled_rules))
        for one in settings.alerts_overrides
    ]
    in_force = thresholds(frozenset(off | set(settings.alerts_disabled_rules)), **figures)
    return Rulebook(in_force, overrides, settings.alerts_renotify_seconds)


def with_thresholds(settings: Settings, given: Mapping[str, object]) -> Settings:
    """The settings with some thresholds of a caller's own; Invalid names every mistake."""
    if not given:
        return settings
    from andon.settings.figures import flags_of

    own = resolve(None, {}, flags_of(given)).settings.alerts_figures
    figures = {**dict(settings.alerts_figures), **dict(own)}
    return replace(settings, alerts_figures=tuple(figures.items()))
