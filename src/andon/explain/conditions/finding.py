"""What a condition finds about a subject in one sample."""

from enum import Enum
from typing import Any, Final, NamedTuple


class RungState(Enum):
    """What one sample says about one rung."""

    HOLDS = "holds"
    BETWEEN = "between"  # neither bad enough to hold nor good enough to be calm
    CALM = "calm"
    UNKNOWN = "unknown"  # no data: neither trouble nor recovery
    EVENT = "event"  # it happened, and is over: calm counts from now


HOLDS, BETWEEN, CALM = RungState.HOLDS, RungState.BETWEEN, RungState.CALM
NO_DATA, EVENT = RungState.UNKNOWN, RungState.EVENT
Rungs = tuple[RungState, ...]


class Finding(NamedTuple):
    """The state of every rung, from the lowest up, and the numbers behind it.

    A plain tuple, because one is created for every condition that holds in every sample. A judge
    returns None if all rungs are calm, as for a healthy device.
    """

    rungs: Rungs
    value: float | None = None
    threshold: float | None = None
    limit: float | None = None  # as stated by the device
    about: Any = None  # what the condition's own texts need; each condition names its fields
    notable: bool = False  # no rung holds, but `why` mentions it

    @property
    def holds(self) -> bool:
        """Whether a rung holds now, or an event happened."""
        return HOLDS in self.rungs or EVENT in self.rungs

    @property
    def is_unknown(self) -> bool:
        """Whether no rung can be judged: `why` may mention it, an alert has no data."""
        return NO_DATA in self.rungs and len(set(self.rungs)) == 1


def rung(holds: bool, calm: bool) -> RungState:
    """The state of a rung that can be judged."""
    return HOLDS if holds else CALM if calm else BETWEEN


ONE: Final[Rungs] = (HOLDS,)
"""The rungs of a condition with only one, which holds."""
NEITHER: Final = Finding(())
"""Between the threshold and the clear threshold. Compare with `is`."""
UNKNOWN: Final = Finding(())._replace(about="unknown")
"""Cannot be judged: neither trouble nor recovery. Compare with `is`."""
ENDED: Final = Finding(())._replace(about="ended")
"""Over, whatever the clear time: it is off, or its subject no longer exists. Compare with `is`."""
