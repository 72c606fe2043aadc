"""All rules: functions from a view to a reason or None. Add new rules here."""

from collections.abc import Callable

from andon.core.explain import clocks, heat, memory, states, use
from andon.core.explain.reasons import Reason
from andon.core.explain.view import View

Rule = Callable[[View], Reason | None]

RULES: tuple[Rule, ...] = (
    states.lost,
    states.hung,
    states.asleep,
    states.partitioned,
    states.unified,
    states.unreadable,
    heat.heat,
    heat.hot,
    heat.memory_heat,
    heat.fan,
    heat.fan_idle,
    heat.fan_failed,
    clocks.power_cap,
    clocks.power_bound,
    clocks.power_limit_lowered,
    clocks.power_brake,
    clocks.hardware_slowdown,
    clocks.clocks_set,
    clocks.low_clocks,
    clocks.narrow_link,
    clocks.slower_than_peers,
    memory.memory_full,
    memory.idle_memory,
    memory.unattributed_memory,
    memory.memory_leak,
    memory.graphics,
    memory.ecc,
    use.idle_held,
    use.starved,
    use.low_occupancy,
    use.shared,
)
"""In any order: the weights in `phrasing` rank what they find."""
