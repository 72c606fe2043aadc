"""Equally busy devices of the same model run clearly faster; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.measures import (
    measured,
    peers,
    peers_sm_clock_mhz,
    peers_temperature_celsius,
)
from andon.explain.evidence.phrasing import LIKELY, POSSIBLE, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View

SLOWER_SHARE = 0.88  # of the clock of its peers
BUSY_PERCENT = 80
SLOWER_THAN_PEERS = ReasonKind(
    "slower_than_peers", "equally busy devices of the same model run clearly faster", 40
)
ADVICE = "Compare it with its peers: cooling, power limit, link. Synchronised work waits for it."


def explain(view: View) -> Description | None:
    """Explains a device that is clearly slower than equally busy ones of the same model."""
    own, others = view.sample.sm_clock_mhz, peers_sm_clock_mhz(view)
    if own is None or others is None or not view.at_least("utilization_percent", BUSY_PERCENT):
        return None
    if own >= SLOWER_SHARE * others:
        return None
    text = phrase(
        "Runs at {own}; equally busy GPUs of the same model run at {others}",
        own=view.read("sm_clock_mhz"),
        others=measured(view, peers_sm_clock_mhz),
    )
    count = len(peers(view))
    temperatures = [view.read("temperature_celsius"), measured(view, peers_temperature_celsius)]
    more = [view.read("utilization_percent"), view.derived("peers", count), *temperatures]
    return Description(text, more, advice=ADVICE, confidence=LIKELY if count > 1 else POSSIBLE)


CONDITION = Condition(
    name="slower_than_peers",
    title="Slower than its peers",
    why="Equally busy devices of the same model run clearly faster, and synchronised work waits "
    "for the slowest.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(SLOWER_THAN_PEERS,),
)
