"""Builds sentences whose every number comes from evidence."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from andon.explain.evidence.blame import Blame
from andon.explain.evidence.reasons import Evidence, Reason, ReasonKind
from andon.model.device import Process
from andon.units import fixed, human_bytes, human_seconds

CERTAIN, LIKELY, POSSIBLE = 0.95, 0.75, 0.5


class Clause(Struct, frozen=True):
    """Part of a sentence, with its evidence."""

    text: str = ""
    evidence: tuple[Evidence, ...] = ()

    def __add__(self, other: "Clause") -> "Clause":
        return Clause(self.text + other.text, self.evidence + other.evidence)

    def __bool__(self) -> bool:
        return bool(self.text)


def say(template: str, **values: Evidence | None) -> Clause:
    """The template filled in; empty if a value is unknown."""
    known = {name: evidence for name, evidence in values.items() if evidence is not None}
    if len(known) < len(values):
        return Clause()
    filled = template.format(
        **{name: format_evidence(evidence) for name, evidence in known.items()}
    )
    return Clause(filled, tuple(known.values()))


def listed(clauses: Iterable[Clause], last: str = " and ") -> Clause:
    """`a, b and c`, without empty clauses."""
    kept = [clause for clause in clauses if clause]
    out = Clause()
    for place, clause in enumerate(kept):
        between = "" if place == 0 else last if place == len(kept) - 1 else ", "
        out = out + Clause(between) + clause
    return out


def format_evidence(evidence: Evidence) -> str:
    """A value for people: `84 °C`, `61.2 GiB`, `3 h 20 min`."""
    value, unit = evidence.value, evidence.unit
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if unit == "bytes":
        return human_bytes(value)
    if unit == "bytes/s":
        return f"{human_bytes(value)}/s"
    if unit == "s":
        return human_seconds(round(value))
    return f"{fixed(value)} {unit}".rstrip()


def conclude(
    kind: ReasonKind,
    confidence: float,
    sentence: Clause,
    more: Sequence[Evidence | None] = (),
    blame: Process | Blame | None = None,
    advice: str = "",
    mild: bool = False,
) -> Reason:
    """The reason: its sentence and all its evidence, each piece once."""
    whom = Blame((blame,)) if isinstance(blame, Process) else blame
    evidence = (*sentence.evidence, *(one for one in more if one is not None))
    return Reason(
        code=kind.code,
        weight=kind.mild if mild and kind.mild is not None else kind.weight,
        confidence=confidence,
        sentence=f"{sentence.text.rstrip('.')}.",
        evidence=tuple(dict.fromkeys(evidence)),
        process=None if whom is None else whom.one,
        blamed="" if whom is None or whom.one is not None else whom.words,
        advice=advice,
    )
