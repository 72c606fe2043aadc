"""The device is so cold that water may condense on it."""

from andon.explain.conditions.condition import WARNING, Condition, Rung
from andon.explain.conditions.description import compared
from andon.explain.conditions.finding import NEITHER, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure

CLEAR_CELSIUS = 3  # above the threshold
HELP = "the temperature up to which a device is shown as too cold"
COLD = ReasonKind("cold", "so cold that water may condense on it", 50)
ADVICE = "Let it warm up before it is opened or moved, and check the room's air."


def judge(seen: View) -> Finding | None:
    now, most = seen.sample.temperature_celsius, seen.figures.cold_celsius
    if not now:
        return UNKNOWN  # 0 is what a broken sensor reads
    if now >= most + CLEAR_CELSIUS:
        return None
    return Finding(ONE, now, most) if now <= most else NEITHER


def query(t: PromTerms, fires: str) -> str:
    now, most = t.m("gpu_temperature_celsius"), t.figures.cold_celsius
    return f"{now} <= {most:g} or ({now} < {most + CLEAR_CELSIUS:g} and {fires})"


CONDITION = Condition(
    name="cold",
    title="Too cold",
    why="Water condenses on a card that is colder than the air around it.",
    advice=ADVICE,
    judged=OnReading(judge),
    rungs=(Rung(WARNING, "at {cold_celsius} °C or less", 5, "3 °C above that", 60),),
    label="too cold",
    headline="is too cold",
    describe=compared("{it} is too cold: {now}", "temperature_celsius"),
    figures=(Figure("cold_celsius", 5.0, HELP, 0, 100, switch=True),),
    unit="celsius",
    weight=11,
    kinds=(COLD,),
    promql=(query,),
)
