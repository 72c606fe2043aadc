"""The settings of the conditions' figures, derived from the catalogue.

Every command reads settings, and few need the catalogue: it is loaded if one of these is set, or if
all settings are listed.
"""

from functools import cache

from andon.core.conditions.catalogue import FIGURES
from andon.core.settings.kinds import NUMBER, NUMBER_OR_OFF, SECONDS, SECONDS_OR_OFF, ValueKind
from andon.core.settings.table import FIELDS, Field
from andon.model.thresholds import Figure

PREFIX = "alerts_"
_KINDS: dict[tuple[bool, bool], ValueKind] = {
    (False, False): NUMBER,
    (False, True): NUMBER_OR_OFF,
    (True, False): SECONDS,
    (True, True): SECONDS_OR_OFF,
}
"""By whether it is a time, and whether it can be off."""


@cache
def every_field() -> tuple[Field, ...]:
    """All settings: the figures come first among those of alerts."""
    first = next(n for n, field in enumerate(FIELDS) if field.place.startswith("alerts."))
    return (*FIELDS[:first], *map(setting_of, FIGURES.values()), *FIELDS[first:])


def setting_of(figure: Figure) -> Field:
    """The setting of a figure."""
    name = figure.name
    return Field(
        f"{PREFIX}{name}",
        f"alerts.{name}",
        f"ANDON_ALERTS_{name.upper()}",
        _KINDS[figure.unit == "seconds", figure.switch],
        figure.help,
        figure.low,
        figure.high,
        figure=figure.default,
    )
