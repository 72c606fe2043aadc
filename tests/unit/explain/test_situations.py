"""What `andon why` says in situations that were told without knowing how it decides."""

from andon.alerts.rules.alerts_from_sample import board_from_sample
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.phrasing import format_evidence
from andon.explain.evidence.reasons import Reason
from andon.explain.why import explain, explain_node, worst_first
from tests.situations.story import Situation
from tests.situations.table import SITUATIONS
from tests.support.rows import rows


@rows("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_the_expert_would_say_the_same(situation: Situation) -> None:
    reasons = _asked(situation)
    first, codes = reasons[0], {reason.code for reason in reasons}
    assert first.code == situation.expect, [(r.code, r.sentence) for r in reasons]
    assert situation.also <= codes, [(r.code, r.sentence) for r in reasons]
    assert not situation.never & codes, [(r.code, r.sentence) for r in reasons]
    blamed = first.process and first.process.pid
    assert situation.blames in (None, blamed), first.sentence
    assert not [words for words in situation.mentions if words not in _told(first)], _told(first)


def _asked(situation: Situation) -> tuple[Reason, ...]:
    """About the device, or about the node where none is named."""
    if situation.device:
        return explain(situation.snapshots, situation.device)
    found = explain_node(situation.snapshots)
    lamps = board_from_sample(situation.snapshots[-1], Rulebook()).devices if found else ()
    return explain(situation.snapshots, next(iter(worst_first(found, lamps)), ""))


def _told(reason: Reason) -> str:
    return " ".join([reason.sentence, *map(format_evidence, reason.evidence), reason.advice])
