"""Takes in what devices report on their own: numbered errors, and error counters that rise."""

from collections.abc import Iterable, Mapping, Set

from andon.explain.conditions.judgement import Judgement
from andon.explain.conditions.memory import ecc
from andon.explain.conditions.state import xid
from andon.model.alert import Event, EventKind

SAME_SECONDS = 2.0  # the same event may arrive from two sources
OLD_SECONDS = 86_400.0

Taken = list[tuple[str, str, Judgement]]


def judge_events(
    events: Iterable[Event],
    wall: float,
    known: Set[str],
    before: Mapping[str, Mapping[int, float]],
) -> tuple[Taken, Mapping[str, Mapping[int, float]]]:
    """The findings of new events, and the newest event of each code; an event that names no known
    device belongs to the node."""
    newest = {subject: dict(codes) for subject, codes in before.items()}
    found: dict[tuple[str, str], Judgement] = {}
    for event in sorted(events, key=lambda event: event.at):
        subject = event.uuid if event.uuid is not None and event.uuid in known else "node"
        if event.kind is EventKind.ECC:
            found[subject, ecc.CONDITION.name] = ecc.judge_ecc_event(event.detail)
        elif _is_new(event, newest.setdefault(subject, {}), wall):
            key = (subject, xid.CONDITION.name)
            found[key] = xid.with_event(found.get(key), event)
    taken = [(subject, rule, finding) for (subject, rule), finding in found.items()]
    return taken, newest


def _is_new(event: Event, newest: dict[int, float], wall: float) -> bool:
    code = -1 if event.code is None else event.code
    seen = newest.get(code)
    if seen is not None and seen > wall + SAME_SECONDS:
        seen = None  # the clock was set back since: it must not hide what happens now
    if wall - event.at > OLD_SECONDS or (seen is not None and event.at <= seen + SAME_SECONDS):
        return False
    newest[code] = event.at
    for old in [c for c, at in newest.items() if wall - at > 2 * OLD_SECONDS]:
        del newest[old]
    return True
