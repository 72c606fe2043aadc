"""Several users compete for the device; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.conditions.memory.phrases import hoarder, is_full
from andon.explain.conditions.use.phrases import active_users, competing, parts
from andon.explain.evidence.measures import measured, memory_percent
from andon.explain.evidence.phrasing import Clause, listed, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View

PART_SHARE = 0.1
SHARED = ReasonKind("shared", "several users compete", 34)
ADVICE = (
    "Take turns, share by memory (--shared), or move one job: andon free shows what is available."
)


def explain(view: View) -> Description | None:
    """Explains a device whose time or memory several users compete for."""
    by_time = competing(view)
    kind = "utilization_percent" if by_time else "memory_bytes"
    users = active_users(view) if by_time else _crowding(view)
    if len(users) < 2:
        return None
    text = phrase("{n} users compete for it: ", n=view.derived("users", len(users)))
    text = text + listed(_part(view, user, kind, part) for user, part in users)
    more = [view.read("utilization_percent"), measured(view, memory_percent)]
    return Description(text, more, advice=ADVICE)


def _crowding(view: View) -> list[tuple[str, int]]:
    """Users with a large part of nearly full memory, if none of them is idle."""
    total = view.device.memory_total_bytes
    if total is None or not is_full(view) or hoarder(view) is not None:
        return []
    return [one for one in parts(view, "memory_bytes") if one[1] >= PART_SHARE * total]


def _part(view: View, user: str, kind: str, part: int) -> Clause:
    named = Evidence("process.user", user, "", view.at)
    value = view.derived(f"users.{user}.{kind}", part)
    return phrase("{user} ({part})", user=named, part=value)


CONDITION = Condition(
    name="shared",
    title="Several users compete",
    why="Several users compete for it, for its time or for its memory.",
    advice=ADVICE,
    judged=OnRequest(explain),
    kinds=(SHARED,),
)
