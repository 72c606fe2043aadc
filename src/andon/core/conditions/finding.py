"""What a rule finds about a subject in one sample."""

from typing import Final, NamedTuple


class Judgement(NamedTuple):
    """Which rungs of a rule hold and which are calm, as bits from the lowest rung up.

    A plain tuple, because one is created for every rule that holds in every sample. A judge returns
    None if no rung holds and all are calm, as for a healthy device.
    """

    holds: int
    calm: int = 0
    value: float | None = None
    threshold: float | None = None
    limit: float | None = None  # as stated by the device
    details: tuple[object, ...] = ()  # what the text needs beyond the numbers
    blind: int = 0  # rungs that cannot be judged


ALL = 0b1111
NEITHER: Final = Judgement(0)
"""Between the threshold and the clear threshold."""
UNKNOWN: Final = Judgement(0, blind=ALL)
"""Cannot be judged: neither trouble nor recovery. Compare with `is`."""
ENDED: Final = Judgement(0, ALL)
"""Over, whatever the clear time: the rule is off, or its subject no longer exists."""
