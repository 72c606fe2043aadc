"""Why it is slow: what holds the clocks down, and what the link and the neighbours show."""

from andon.core.explain.heat import heat
from andon.core.explain.measures import (
    clock_loss_percent,
    measured,
    peers,
    peers_sm_clock_mhz,
    peers_temperature_celsius,
    power_limit_percent,
    power_percent,
)
from andon.core.explain.phrasing import CERTAIN, LIKELY, POSSIBLE, Clause, conclude, say
from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.core.explain.view import View, after_colon, part_of_whole

LITTLE_PERCENT = 5.0
NOTABLE_PERCENT = 15.0
COSTLY_PERCENT = 20.0  # a full load holds every card somewhat below its highest clock
DENSE_PERCENT = 35.0  # an H200 at its own 700 W was measured 27 % below: dense work, and healthy
LOW_PERCENT = 30.0
BOUND_PERCENT = 95.0
PLAUSIBLE_PERCENT = 120.0  # more than this of its limit no card draws: the reading is at fault
LOWERED_PERCENT = 98.0
LINKED_PERCENT = 20  # below this load a card may rest its link
SLOWER_SHARE = 0.88
PEER_BUSY_PERCENT = 80

SET = {
    "applications_clocks_setting": "its clocks are set to a fixed value",
    "sync_boost": "it keeps in step with other cards (sync boost)",
    "display_clock_setting": "its display holds the clocks",
}
HEAT_OR_BRAKE = (
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
)


def power_cap(view: View) -> Reason | None:
    """The power cap costs more than a fifth of the clock; at the card's own limit, a third."""
    costly = DENSE_PERCENT if _as_designed(view) else COSTLY_PERCENT
    if not (view.held_back_by("sw_power_cap") and _loses(view, costly) and view.works):
        return None
    told = say(
        "The power cap costs it {loss} of its clock", loss=measured(view, clock_loss_percent)
    )
    told = told + after_colon(_power(view))
    worker = view.worker()
    more = [view.read("throttle"), *_clocks(view), *view.who(worker)]
    advice = "The work needs more power than the card may take. Without a higher limit it stays so."
    if _lowered(view):
        advice = "Raise the limit to the card's default, if power and cooling allow it."
    return conclude(ReasonCode.POWER_CAP, CERTAIN, told, more, worker, advice)


def power_bound(view: View) -> Reason | None:
    """At its power limit, as designed: a full load looks like this."""
    share = power_percent(view)
    at_limit = share is not None and share >= BOUND_PERCENT and view.works
    if not (view.held_back_by("sw_power_cap") or at_limit) or power_cap(view):
        return None
    if view.held_back_by("hw_slowdown", *HEAT_OR_BRAKE) or _lowered(view):
        return None
    told = say("It works at its power limit, as designed") + after_colon(_power(view))
    more = [view.read("throttle"), measured(view, clock_loss_percent), *_clocks(view)]
    mild = not _loses(view, NOTABLE_PERCENT)
    advice = "Nothing: a full load does this."
    return conclude(ReasonCode.POWER_BOUND, CERTAIN, told, more, advice=advice, mild=mild)


def power_limit_lowered(view: View) -> Reason | None:
    """The limit is below the card's default; a trouble only while it holds the card back."""
    if not _lowered(view):
        return None
    limit, default = view.read("power_limit_watts"), view.limit("power_default_watts")
    told = say("Its power limit is {limit}, below its default of {d}", limit=limit, d=default)
    costs = view.held_back_by("sw_power_cap") and _loses(view, LITTLE_PERCENT) and view.works
    loss = measured(view, clock_loss_percent) if costs else None
    told = told + say(", which costs it {loss} of its clock", loss=loss)
    more = [measured(view, power_limit_percent), view.read("power_watts"), *_clocks(view)]
    advice = "Somebody set it. " + _undo(
        view, f"-pl {view.status.device.limits.power_default_watts:.0f}"
    )
    return conclude(
        ReasonCode.POWER_LIMIT_LOWERED, CERTAIN, told, more, advice=advice, mild=not costs
    )


def power_brake(view: View) -> Reason | None:
    """The machine asks the card to take less power."""
    if not view.held_back_by("hw_power_brake_slowdown"):
        return None
    told = say("The machine brakes it: its power supply signals an emergency") + _slower(view)
    more = [view.read("throttle"), *_clocks(view), view.read("power_watts")]
    advice = "Look at the power supplies, their cables and the rack's power budget."
    return conclude(ReasonCode.POWER_BRAKE, CERTAIN, told, more, advice=advice)


def hardware_slowdown(view: View) -> Reason | None:
    """The hardware slows it down, and neither heat nor the power brake is named."""
    if not view.held_back_by("hw_slowdown") or view.held_back_by(*HEAT_OR_BRAKE) or heat(view):
        return None
    told = say("The hardware slows it down, and does not say why") + _slower(view)
    more = [view.read("throttle"), *_clocks(view), view.read("temperature_celsius")]
    advice = (
        "Look at its power cables first, then at the cooling: sudo nvidia-smi -q -d PERFORMANCE"
    )
    return conclude(ReasonCode.HARDWARE_SLOWDOWN, CERTAIN, told, more, advice=advice)


def clocks_set(view: View) -> Reason | None:
    """Somebody, a group of cards or a display holds the clocks; a trouble where it costs much."""
    names = [name for name in SET if view.held_back_by(name)]
    if not names or (clock_loss_percent(view) or 0) < LITTLE_PERCENT:
        return None
    told = Clause("Its clocks are held: " + " and ".join(SET[name] for name in names))
    costs = view.busy and _loses(view, COSTLY_PERCENT)
    more = [view.read("throttle"), measured(view, clock_loss_percent), *_clocks(view)]
    advice = _undo(view, "-rac")
    return conclude(
        ReasonCode.CLOCKS_SET, CERTAIN, told + _slower(view), more, advice=advice, mild=not costs
    )


def low_clocks(view: View) -> Reason | None:
    """Low clocks under load, and no reason given."""
    given = [name for name in view.sample.throttle or () if name != "gpu_idle"]
    if given or not view.busy or not _loses(view, LOW_PERCENT):
        return None
    told = say(
        "Its clock is {loss} below its highest although it works ({u}), and no reason is given",
        loss=measured(view, clock_loss_percent),
        u=view.read("utilization_percent"),
    )
    worker = view.worker()
    more = [view.read("throttle"), *_clocks(view), view.read("performance_state")]
    confidence = LIKELY if view.sample.throttle is not None else POSSIBLE
    advice = "Look for a power-saving mode and for locked clocks. " + _undo(view, "-rgc")
    return conclude(
        ReasonCode.LOW_CLOCKS, confidence, told, [*more, *view.who(worker)], worker, advice
    )


def narrow_link(view: View) -> Reason | None:
    """The PCIe link is narrower or slower than the card's, while it works."""
    width, generation = _short(view, "pcie_width"), _short(view, "pcie_generation")
    if not (width or generation):
        return None
    told = say("Its PCIe link") + (
        say(" has {w} of {most} lanes", w=width[0], most=width[1]) if width else Clause()
    )
    if generation:
        told = told + (Clause(" and") if width else Clause())
        told = told + say(" runs at generation {g} of {m}", g=generation[0], m=generation[1])
    told = told + say(" while it works ({u})", u=view.read("utilization_percent"))
    advice = "Seat the card anew, look at the riser, and at the slot's lanes in the firmware."
    return conclude(ReasonCode.NARROW_LINK, CERTAIN, told, advice=advice)


def slower_than_peers(view: View) -> Reason | None:
    """Devices of the same model, as busy, run clearly faster."""
    own, others = view.sample.sm_clock_mhz, peers_sm_clock_mhz(view)
    if own is None or others is None or not view.at_least("utilization_percent", PEER_BUSY_PERCENT):
        return None
    if own >= SLOWER_SHARE * others:
        return None
    told = say(
        "It runs at {own}, the others of its model, as busy, at {others}",
        own=view.read("sm_clock_mhz"),
        others=measured(view, peers_sm_clock_mhz),
    )
    count = view.derived("peers", len(peers(view)))
    warm = [view.read("temperature_celsius"), measured(view, peers_temperature_celsius)]
    more = [view.read("utilization_percent"), count, *warm]
    confidence = LIKELY if len(peers(view)) > 1 else POSSIBLE
    advice = (
        "Compare it with its neighbours: cooling, power limit, link. Work in step waits for it."
    )
    return conclude(ReasonCode.SLOWER_THAN_PEERS, confidence, told, more, advice=advice)


def _loses(view: View, percent: float) -> bool:
    loss = clock_loss_percent(view)
    return loss is not None and loss > percent


def _as_designed(view: View) -> bool:
    """Whether it takes all the power that it was built for."""
    share, limit = power_percent(view), power_limit_percent(view)
    full = share is not None and BOUND_PERCENT <= share <= PLAUSIBLE_PERCENT
    return full and limit is not None and limit >= LOWERED_PERCENT


def _undo(view: View, option: str) -> str:
    """How a setting is taken back; andon itself sets nothing on a device."""
    if view.status.device.vendor != "nvidia":
        return "If that is not wanted, take it back with the vendor's tool."
    return f"If that is not wanted: sudo nvidia-smi -i {view.status.device.index} {option}"


def _lowered(view: View) -> bool:
    share = power_limit_percent(view)
    return share is not None and share < LOWERED_PERCENT


def _power(view: View) -> Clause:
    return part_of_whole(view, "power_watts", view.read("power_limit_watts"))


def _slower(view: View) -> Clause:
    return say("; its clock is {loss} below its highest", loss=measured(view, clock_loss_percent))


def _clocks(view: View) -> list[Evidence | None]:
    return [view.read("sm_clock_mhz"), view.limit("sm_clock_mhz")]


def _short(view: View, name: str) -> tuple[Evidence, Evidence] | None:
    """The link and what it could be, if it is less and was read while the device worked."""
    now, most = view.read(name), view.limit(name)
    if (
        now is None
        or most is None
        or getattr(view.sample, name) >= getattr(view.status.device.limits, name)
    ):
        return None
    return (now, most) if _worked_at(view, now.at) else None


def _worked_at(view: View, at: float | None) -> bool:
    """Whether it works now and did when the link was read: an idle card rests its link."""
    before = [s.sample for s in view.past if s.sample is not None and s.sample.at <= (at or 0.0)]
    then = before[-1].utilization_percent if before else None
    now_works = view.at_least("utilization_percent", LINKED_PERCENT)
    return now_works and then is not None and then >= LINKED_PERCENT
