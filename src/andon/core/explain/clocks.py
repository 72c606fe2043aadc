"""Explains why a device is slow: throttling, fixed clocks, its link, and its peers."""

from andon.core.explain.heat import throttling
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
from andon.model.throttling import (
    CLOCKS_SET,
    DISPLAY_CLOCKS,
    HW_SLOWDOWN,
    IDLE,
    POWER_BRAKE,
    POWER_CAP,
    SYNC_BOOST,
)

LITTLE_PERCENT = 5.0
NOTABLE_PERCENT = 15.0
LOW_PERCENT = 30.0
PLAUSIBLE_PERCENT = 120.0  # no card draws more than this of its limit: the reading is wrong
LOWERED_PERCENT = 98.0
LINKED_PERCENT = 20  # below this load a card may slow its link
SLOWER_SHARE = 0.88
PEER_BUSY_PERCENT = 80

SET = {
    CLOCKS_SET.name: "they are set to a fixed value",
    SYNC_BOOST.name: "sync boost keeps them in step with other cards",
    DISPLAY_CLOCKS.name: "the display limits them",
}


def power_cap(view: View) -> Reason | None:
    """The power cap costs more of the clock than full load normally does."""
    figures = view.figures
    costly = (
        figures.clock_loss_default_limit_percent
        if _as_designed(view)
        else figures.clock_loss_percent
    )
    if not (view.held_back_by(POWER_CAP.name) and _loses(view, costly) and view.works):
        return None
    sentence = say(
        "Clock {loss} below maximum because of the power limit",
        loss=measured(view, clock_loss_percent),
    )
    sentence = sentence + after_colon(_power(view))
    worker = view.worker()
    more = [view.read("throttle"), *_clocks(view), *view.who(worker)]
    advice = "The work needs more power than the limit allows; only a higher limit would help."
    if _lowered(view):
        advice = "Raise the limit to the card's default, if power and cooling allow."
    return conclude(ReasonCode.POWER_CAP, CERTAIN, sentence, more, worker, advice)


def power_bound(view: View) -> Reason | None:
    """At its power limit, as designed: normal under full load."""
    share = power_percent(view)
    at_limit = share is not None and share >= view.figures.power_percent and view.works
    if not (view.held_back_by(POWER_CAP.name) or at_limit) or power_cap(view):
        return None
    hardware = view.held_back_by(HW_SLOWDOWN.name, POWER_BRAKE.name)
    if hardware or throttling(view) or _lowered(view):
        return None
    sentence = say("At its power limit, as designed") + after_colon(_power(view))
    more = [view.read("throttle"), measured(view, clock_loss_percent), *_clocks(view)]
    mild = not _loses(view, NOTABLE_PERCENT)
    advice = "Nothing to do: this is normal under full load."
    return conclude(ReasonCode.POWER_BOUND, CERTAIN, sentence, more, advice=advice, mild=mild)


def power_limit_lowered(view: View) -> Reason | None:
    """The limit is below the card's default; a problem only while it slows the card."""
    if not _lowered(view):
        return None
    limit, default = view.read("power_limit_watts"), view.limit("power_default_watts")
    sentence = say("Power limit {limit}, below the default of {d}", limit=limit, d=default)
    costs = view.held_back_by(POWER_CAP.name) and _loses(view, LITTLE_PERCENT) and view.works
    loss = measured(view, clock_loss_percent) if costs else None
    sentence = sentence + say("; clock {loss} below maximum", loss=loss)
    more = [measured(view, power_limit_percent), view.read("power_watts"), *_clocks(view)]
    advice = "Someone lowered it. " + _restore(
        view, f"-pl {view.status.device.limits.power_default_watts:.0f}"
    )
    return conclude(
        ReasonCode.POWER_LIMIT_LOWERED, CERTAIN, sentence, more, advice=advice, mild=not costs
    )


def power_brake(view: View) -> Reason | None:
    """The machine tells the card to draw less power."""
    if not view.held_back_by(POWER_BRAKE.name):
        return None
    sentence = say("Power brake: the power supply signals an emergency") + _slower(view)
    more = [view.read("throttle"), *_clocks(view), view.read("power_watts")]
    advice = "Check the power supplies, their cables and the rack's power budget."
    return conclude(ReasonCode.POWER_BRAKE, CERTAIN, sentence, more, advice=advice)


def hardware_slowdown(view: View) -> Reason | None:
    """The hardware throttles it, and reports neither heat nor the power brake."""
    if not view.held_back_by(HW_SLOWDOWN.name) or view.held_back_by(POWER_BRAKE.name):
        return None
    if throttling(view):
        return None
    sentence = say("The hardware throttles it without giving a reason") + _slower(view)
    more = [view.read("throttle"), *_clocks(view), view.read("temperature_celsius")]
    advice = "Check its power cables first, then the cooling: sudo nvidia-smi -q -d PERFORMANCE"
    return conclude(ReasonCode.HARDWARE_SLOWDOWN, CERTAIN, sentence, more, advice=advice)


def clocks_set(view: View) -> Reason | None:
    """A setting, sync boost or a display limits the clocks; a problem if it costs much."""
    names = [name for name in SET if view.held_back_by(name)]
    if not names or (clock_loss_percent(view) or 0) < LITTLE_PERCENT:
        return None
    sentence = Clause("Clocks are limited: " + " and ".join(SET[name] for name in names))
    costs = view.busy and _loses(view, view.figures.clock_loss_percent)
    more = [view.read("throttle"), measured(view, clock_loss_percent), *_clocks(view)]
    advice = _restore(view, "-rac")
    return conclude(
        ReasonCode.CLOCKS_SET,
        CERTAIN,
        sentence + _slower(view),
        more,
        advice=advice,
        mild=not costs,
    )


def low_clocks(view: View) -> Reason | None:
    """Low clocks under load, without a reason."""
    reasons = [name for name in view.sample.throttle or () if name != IDLE.name]
    if reasons or not view.busy or not _loses(view, LOW_PERCENT):
        return None
    sentence = say(
        "Clock {loss} below maximum although the GPU is {u} busy; the driver gives no reason",
        loss=measured(view, clock_loss_percent),
        u=view.read("utilization_percent"),
    )
    worker = view.worker()
    more = [view.read("throttle"), *_clocks(view), view.read("performance_state")]
    confidence = LIKELY if view.sample.throttle is not None else POSSIBLE
    advice = "Check for a power-saving mode and for locked clocks. " + _restore(view, "-rgc")
    return conclude(
        ReasonCode.LOW_CLOCKS, confidence, sentence, [*more, *view.who(worker)], worker, advice
    )


def narrow_link(view: View) -> Reason | None:
    """The PCIe link is narrower or slower than the card supports, while busy."""
    width, generation = _short(view, "pcie_width"), _short(view, "pcie_generation")
    if not (width or generation):
        return None
    sentence = say("PCIe link") + (
        say(" has {w} of {most} lanes", w=width[0], most=width[1]) if width else Clause()
    )
    if generation:
        sentence = sentence + (Clause(" and") if width else Clause())
        sentence = sentence + say(
            " runs at generation {g} of {m}", g=generation[0], m=generation[1]
        )
    sentence = sentence + say(" while {u} busy", u=view.read("utilization_percent"))
    advice = "Reseat the card; check the riser and the slot's lanes in the firmware settings."
    return conclude(ReasonCode.NARROW_LINK, CERTAIN, sentence, advice=advice)


def slower_than_peers(view: View) -> Reason | None:
    """Equally busy devices of the same model run clearly faster."""
    own, others = view.sample.sm_clock_mhz, peers_sm_clock_mhz(view)
    if own is None or others is None or not view.at_least("utilization_percent", PEER_BUSY_PERCENT):
        return None
    if own >= SLOWER_SHARE * others:
        return None
    sentence = say(
        "Runs at {own}; equally busy GPUs of the same model run at {others}",
        own=view.read("sm_clock_mhz"),
        others=measured(view, peers_sm_clock_mhz),
    )
    count = view.derived("peers", len(peers(view)))
    temperatures = [view.read("temperature_celsius"), measured(view, peers_temperature_celsius)]
    more = [view.read("utilization_percent"), count, *temperatures]
    confidence = LIKELY if len(peers(view)) > 1 else POSSIBLE
    advice = (
        "Compare it with its peers: cooling, power limit, link. Synchronised work waits for it."
    )
    return conclude(ReasonCode.SLOWER_THAN_PEERS, confidence, sentence, more, advice=advice)


def _loses(view: View, percent: float) -> bool:
    loss = clock_loss_percent(view)
    return loss is not None and loss > percent


def _as_designed(view: View) -> bool:
    """Whether it draws its full default power."""
    share, limit = power_percent(view), power_limit_percent(view)
    full = share is not None and view.figures.power_percent <= share <= PLAUSIBLE_PERCENT
    return full and limit is not None and limit >= LOWERED_PERCENT


def _restore(view: View, option: str) -> str:
    """How to undo a setting; andon itself changes nothing on a device."""
    if view.status.device.vendor != "nvidia":
        return "To restore it, use the vendor's tool."
    return f"To restore: sudo nvidia-smi -i {view.status.device.index} {option}"


def _lowered(view: View) -> bool:
    share = power_limit_percent(view)
    return share is not None and share < LOWERED_PERCENT


def _power(view: View) -> Clause:
    return part_of_whole(view, "power_watts", view.read("power_limit_watts"))


def _slower(view: View) -> Clause:
    return say("; clock {loss} below maximum", loss=measured(view, clock_loss_percent))


def _clocks(view: View) -> list[Evidence | None]:
    return [view.read("sm_clock_mhz"), view.limit("sm_clock_mhz")]


def _short(view: View, name: str) -> tuple[Evidence, Evidence] | None:
    """The link and its maximum, if it is below that and was read while the device was busy."""
    now, most = view.read(name), view.limit(name)
    if (
        now is None
        or most is None
        or getattr(view.sample, name) >= getattr(view.status.device.limits, name)
    ):
        return None
    return (now, most) if _worked_at(view, now.at) else None


def _worked_at(view: View, at: float | None) -> bool:
    """Whether it is busy now and was when the link was read: an idle card slows its link."""
    before = [s.sample for s in view.past if s.sample is not None and s.sample.at <= (at or 0.0)]
    then = before[-1].utilization_percent if before else None
    now_works = view.at_least("utilization_percent", LINKED_PERCENT)
    return now_works and then is not None and then >= LINKED_PERCENT
