"""The recent readings of utilisation that a driver keeps itself, closer together than samples."""

from andon.model.json_fields import MOST_ITEMS, Wrong, number_in

Ring = tuple[tuple[float, float], ...]
"""Time and percent, oldest first."""


def ring_from_json(value: object) -> Ring:
    """Raises Wrong if it is none."""
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise Wrong("ring", "is not a list")
    return tuple(_point(point) for point in value)


def _point(value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise Wrong("ring", "has a point that is not a time and a number")
    named = dict(zip(("at", "percent"), value, strict=True))
    return float(number_in(named, "at", 0) or 0.0), float(number_in(named, "percent", 0, 100) or 0)
