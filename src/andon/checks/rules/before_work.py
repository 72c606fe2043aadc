"""What follows from a check of leased cards before work begins: bad ones are given back, once."""

from collections.abc import Sequence
from enum import Enum, auto

from andon.model.check import CardResult, CheckVerdict


class AfterCheck(Enum):
    """What to do with the lease."""

    USE = auto()
    TAKE_OTHERS = auto()
    REFUSE = auto()


def after_check(results: Sequence[CardResult], is_second: bool) -> AfterCheck:
    """Returns what to do; `is_second`: bad ones were given back already, so slow ones are used."""
    bad = bad_cards(results)
    if not bad or (is_second and not unusable(bad)):
        return AfterCheck.USE
    return AfterCheck.REFUSE if is_second else AfterCheck.TAKE_OTHERS


def bad_cards(results: Sequence[CardResult]) -> list[CardResult]:
    return [one for one in results if one.verdict.is_bad]


def unusable(bad: Sequence[CardResult]) -> bool:
    """Whether one of them is worse than slow."""
    return any(one.verdict is not CheckVerdict.SLOW for one in bad)


def sentence(bad: Sequence[CardResult]) -> str:
    return "; ".join(f"GPU {one.label} failed its check: {one.text}" for one in bad)
