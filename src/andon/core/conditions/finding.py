"""What a rule finds in one look at a subject."""

from typing import Final, NamedTuple


class Judgement(NamedTuple):
    """Which rungs of a rule hold and which are calm, as bits from the lowest rung on.

    A plain tuple: one is made for every rule that holds, at every tick. A judge gives None where no
    rung holds and all are calm, which is what it says of a healthy device.
    """

    holds: int
    calm: int = 0
    value: float | None = None
    threshold: float | None = None
    limit: float | None = None  # what the device itself states
    details: tuple[object, ...] = ()  # what the words need beyond the numbers
    blind: int = 0  # rungs that cannot tell


ALL = 0b1111
NEITHER: Final = Judgement(0)
"""Between its threshold and its clear threshold."""
UNKNOWN: Final = Judgement(0, blind=ALL)
"""A look that cannot tell: neither trouble nor recovery. Compare with `is`."""
ENDED: Final = Judgement(0, ALL)
"""Over, whatever the clear time says: the rule is off, or what it was about is gone."""
