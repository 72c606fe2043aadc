"""What an earlier `andon check` found, on cards whose readings say nothing."""

from msgspec.structs import replace

from andon.model.device import DeviceStatus, LastCheck
from tests.situations.shared import training
from tests.situations.story import DAY, H200, NOW, Situation, card, still


def checked(verdict: str, text: str) -> DeviceStatus:
    return replace(training(H200), check=LastCheck(NOW - DAY, verdict, text))


CHECKED = (
    Situation(
        name="A card that computed wrong results yesterday trains again",
        source="docs/check.md",
        snapshots=still(checked("wrong_results", "WRONG RESULTS on SM 41: 3 of 270,336 results")),
        device=card(H200).uuid,
        expect="failed_check",
        never=frozenset({"healthy", "slower_than_before"}),
        mentions=("SM 41",),
    ),
    Situation(
        name="A card that was a fifth slower than its siblings yesterday",
        source="docs/check.md",
        snapshots=still(checked("slow", "slow: tensor cores 21 % below the others")),
        device=card(H200).uuid,
        expect="slower_than_before",
        never=frozenset({"healthy", "failed_check"}),
        mentions=("21 % below the others",),
    ),
    Situation(
        name="A card whose check found nothing",
        source="counter-example",
        snapshots=still(checked("ok", "as fast as 3 others of its model here")),
        device=card(H200).uuid,
        expect="healthy",
        never=frozenset({"slower_than_before", "failed_check"}),
    ),
)
