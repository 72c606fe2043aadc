"""Stories that people told about their GPUs, and what `andon why` should answer first.

The stories come from public reports (see `source`); the numbers are theirs where they gave any, and
those of a card of that kind otherwise. A comment says where the answer can be disputed.
"""

from tests.situations.busy import BUSY
from tests.situations.checked import CHECKED
from tests.situations.healthy import HEALTHY
from tests.situations.heat import HEAT
from tests.situations.held import HELD
from tests.situations.memory import MEMORY
from tests.situations.power import POWER
from tests.situations.silent import OUT
from tests.situations.story import Situation
from tests.situations.unknown import UNKNOWN

SITUATIONS: tuple[Situation, ...] = (
    *HEALTHY,
    *OUT,
    *HEAT,
    *POWER,
    *BUSY,
    *MEMORY,
    *HELD,
    *UNKNOWN,
    *CHECKED,
)
