"""The power limit costs more of the clock than a full load normally does."""

from andon.explain.conditions.clocks.phrases import (
    clocks,
    lowered,
)
from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description, lately
from andon.explain.conditions.finding import BETWEEN, CALM, NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.evidence.measures import clock_loss_percent, measured, power_percent
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Sample
from andon.model.thresholds import Figure, Thresholds
from andon.model.throttling import POWER_CAP as POWER_CAP_REASON

LOSS_PERCENT = Figure(
    "clock_loss_percent", 20.0, "how much of the clock a power limit may cost", 1, 100, switch=True
)
# A healthy H200 at dense full load runs 27 % below its maximum clock (`tests/recorded`).
LOSS_DEFAULT_LIMIT_PERCENT = Figure(
    "clock_loss_default_limit_percent", 35.0, "the same at the device's default power limit", 1, 100
)
CLEAR_PERCENT = 5
BUSY_PERCENT = 50
PLAUSIBLE_PERCENT = 120.0  # no card draws more than this of its limit: the reading is wrong
DESIGNED_SHARE = 0.98  # of its design power limit
CAP = POWER_CAP_REASON.name
POWER_CAP = ReasonKind("power_cap", "the cap costs more of the clock than full load does", 58)
RAISE = "Raise the limit to the card's default, if power and cooling allow."
NEEDS_MORE = "The work needs more power than the limit allows; only a higher limit would help."

CAPPED = (CAP,)


def judge(seen: View) -> Finding | None:
    """Judges how much of its clock the power cap costs; at the default limit more is normal."""
    reasons, sample, loss = seen.reasons, seen.sample, seen.status.clock_loss_percent
    if reasons is None or not seen.device.limits.sm_clock_mhz:
        return UNKNOWN
    if CAP not in reasons:
        return None
    busy = sample.utilization_percent
    if busy is not None and busy < BUSY_PERCENT:
        return None
    if loss is None:
        return UNKNOWN
    most, figures = _most(seen), seen.figures
    if loss > most:
        return Finding(ONE, loss, most, sample.power_limit_watts)
    near = loss > most - CLEAR_PERCENT
    if loss > figures.clock_loss_percent and not _draws_all(sample, figures):
        rungs = (BETWEEN if near else CALM,)  # something else holds it below its limit
        return Finding(rungs, loss, figures.clock_loss_percent, notable=True)
    return NEITHER if near else None


def _draws_all(sample: Sample, figures: Thresholds) -> bool:
    """Whether it draws as much power as its limit allows."""
    watts, limit = sample.power_watts, sample.power_limit_watts
    share = 100.0 * watts / limit if watts is not None and limit else None
    return share is not None and figures.power_percent <= share <= PLAUSIBLE_PERCENT


def _most(seen: View) -> float:
    """Returns how much of the clock the power limit may cost."""
    limit, default = seen.sample.power_limit_watts, seen.device.limits.power_default_watts
    if limit is not None and default is not None and limit < DESIGNED_SHARE * default:
        return seen.figures.clock_loss_percent
    return seen.figures.clock_loss_default_limit_percent


def describe(facts: ConditionFacts) -> Description:
    """What it costs, what is normal, and what would help."""
    loss, normal = facts.value("clock_loss_percent"), facts.threshold("%")
    text = phrase("{it} runs {loss} below its maximum clock", facts.it, loss=loss)
    text += Clause(" because of its power limit")
    if facts.finding.notable:
        text += phrase(", of which it draws {share}", share=measured(facts.device, power_percent))
    else:
        text += phrase(" (up to {normal} is normal)", normal=normal)
    view = facts.device
    text += lately(view, CAPPED)
    power = [view.read("power_watts"), view.read("power_limit_watts")]
    more = [view.read("throttle"), *power, *clocks(view)]
    return Description(text, more, view.worker, RAISE if lowered(view) else NEEDS_MORE)


def _slowed(t: PromTerms, fires: str) -> str:
    clock, loss = t.m("gpu_sm_clock_hertz"), t.clock_loss()
    limit, default = t.m("gpu_power_limit_watts"), t.m("gpu_power_default_limit_watts")
    least, designed = t.figures.clock_loss_percent, t.figures.clock_loss_default_limit_percent
    bound = (
        f"({least:g} + {designed - least:g}"
        f" * ({limit} >= bool {DESIGNED_SHARE:g} * {default})"
        f" or {clock} * 0 + {designed:g})"
    )
    unused = f"{t.m('gpu_utilization_percent')} < {BUSY_PERCENT}"
    capped = f"and on ({DEVICE}) {t.reason(CAP)} unless {unused}"
    near = f"{bound} - {CLEAR_PERCENT}"
    return f"({loss} > {bound} or ({loss} > {near} and {fires})) {capped}"


CONDITION = Condition(
    name="throttle_power",
    title="Slowed by its power limit",
    why="The power limit costs more clock speed than a full load normally does.",
    advice="Raise the limit to the device's default, if power and cooling allow.",
    judged=OnReading(judge, reasons=frozenset(CAPPED)),
    possible_if=(
        "clock_loss_percent >= clock_loss_percent or "
        "clock_loss_percent >= clock_loss_default_limit_percent",
    ),
    rungs=(
        Rung(
            WARNING,
            "in use, and more than {clock_loss_percent} % below its maximum clock because of its "
            "power limit, or {clock_loss_default_limit_percent} % at its default limit",
            300, f"{CLEAR_PERCENT} points less", 120,
        ),
    ),
    label="power limited",
    headline="is slowed by its power limit",
    describe=describe,
    measure=clock_loss_percent,
    figures=(LOSS_PERCENT, LOSS_DEFAULT_LIMIT_PERCENT),
    unit="percent",
    weight=8,
    kinds=(POWER_CAP,),
    promql=(_slowed,),
)  # fmt: skip
