"""Judges what devices report on their own: numbered errors, and error counters that rise."""

from collections.abc import Iterable, Mapping, Set

from andon.core.conditions.finding import ALL, Judgement
from andon.core.conditions.rules import BY_NAME
from andon.core.events.xids import explain_event
from andon.model.alert import Event, EventKind

SAME_SECONDS = 2.0  # the same event may arrive from two sources
OLD_SECONDS = 86_400.0

Taken = list[tuple[str, str, Judgement]]
_RUNGS = {rung.level: 1 << place for place, rung in enumerate(BY_NAME["xid"].rungs)}
_KNOWN_BEFORE, _ROSE = 0b01, 0b10


def judge_ecc_count(before: int | None, count: int) -> tuple[Judgement | None, bool]:
    """What an error count means after the previous one, and whether the counter was reset."""
    if before is None:
        return (Judgement(_KNOWN_BEFORE, ALL, count, details=(None,)) if count else None), False
    if count > before:
        return Judgement(_ROSE, ALL, count, details=(f"{count - before} new",)), False
    return (Judgement(_ROSE, ALL, count, details=(None,)) if count else None), not count


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
            found[subject, "ecc"] = Judgement(_ROSE, ALL, None, details=(event.detail,))
        elif _is_new(event, newest.setdefault(subject, {}), wall):
            key = (subject, "xid")
            found[key] = _worse(found.get(key), event)
    taken = [(subject, rule, finding) for (subject, rule), finding in found.items()]
    return taken, newest


def _is_new(event: Event, newest: dict[int, float], wall: float) -> bool:
    code = -1 if event.code is None else event.code
    seen = newest.get(code)
    if wall - event.at > OLD_SECONDS or (seen is not None and event.at <= seen + SAME_SECONDS):
        return False
    newest[code] = event.at
    for old in [c for c, at in newest.items() if wall - at > 2 * OLD_SECONDS]:
        del newest[old]
    return True


def _worse(found: Judgement | None, event: Event) -> Judgement:
    """The finding with this event added; its text comes from the latest of the worst events."""
    rung = _RUNGS[explain_event(event).level]
    holds = rung | (found.holds if found else 0)
    if found is None or rung == 1 << holds.bit_length() - 1:
        return Judgement(holds, ALL, event.code, details=(event,))
    return found._replace(holds=holds)
