"""The settings of the conditions' figures, derived from the catalogue.

Every command reads settings, and few need the catalogue: it is loaded if one of these is set, or if
all settings are listed.
"""

from collections.abc import Mapping
from functools import cache

from andon.errors import Invalid
from andon.explain.conditions.catalogue import FIGURES
from andon.model.thresholds import Figure
from andon.settings.kinds import NUMBER, NUMBER_OR_OFF, SECONDS, SECONDS_OR_OFF, ValueKind
from andon.settings.table import FIELDS, Field

PREFIX = "alerts_"
_KINDS: dict[tuple[bool, bool], ValueKind] = {
    (False, False): NUMBER,
    (False, True): NUMBER_OR_OFF,
    (True, False): SECONDS,
    (True, True): SECONDS_OR_OFF,
}
"""By whether it is a time, and whether it can be off."""


def flags_of(thresholds: Mapping[str, object]) -> dict[str, object]:
    """Thresholds by their names, as flags of the settings; Invalid names those that do not exist.

    Their values are checked with the other settings.
    """
    mistakes = [_unknown(name) for name in thresholds if name not in FIGURES]
    if mistakes:
        raise Invalid(mistakes[0], hint="list them: andon alerts rules", mistakes=tuple(mistakes))
    return {f"{PREFIX}{name}": value for name, value in thresholds.items()}


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # only if there is a mistake

    near = get_close_matches(name, FIGURES, n=1)
    return f"there is no threshold {name[:40]!r}" + (f": did you mean {near[0]}?" if near else "")


@cache
def every_field() -> tuple[Field, ...]:
    """Returns all settings: the figures come first among those of alerts."""
    first = next(n for n, field in enumerate(FIELDS) if field.place.startswith("alerts."))
    return (*FIELDS[:first], *map(setting_of, FIGURES.values()), *FIELDS[first:])


def setting_of(figure: Figure) -> Field:
    """Returns the setting of a figure."""
    name = figure.name
    return Field(
        f"{PREFIX}{name}",
        f"alerts.{name}",
        f"ANDON_ALERTS_{name.upper()}",
        _KINDS[figure.unit == "seconds", figure.switch],
        figure.help,
        figure.low,
        figure.high,
        option=f"--threshold {name}",
        figure=figure.default,
    )
