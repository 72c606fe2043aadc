"""Builds sentences whose every number comes from evidence."""

from collections.abc import Iterable

from msgspec import Struct

from andon.explain.evidence.reasons import Evidence
from andon.units import fixed, human_bytes, human_seconds

SHORT_SECONDS = 10.0  # a shorter time that was measured once is shown to a tenth
CERTAIN, LIKELY, POSSIBLE = 0.95, 0.75, 0.5


class Clause(Struct, frozen=True):
    """Part of a sentence, with its evidence."""

    text: str = ""
    evidence: tuple[Evidence, ...] = ()

    def __add__(self, other: "Clause") -> "Clause":
        return Clause(self.text + other.text, self.evidence + other.evidence)

    def __bool__(self) -> bool:
        return bool(self.text)


def phrase(template: str, it: str = "", /, **values: Evidence | None) -> Clause:
    """The template filled in; empty if a value is unknown. `it` is what the sentence is about."""
    known = {name: evidence for name, evidence in values.items() if evidence is not None}
    if len(known) < len(values):
        return Clause()
    texts = {name: format_evidence(evidence) for name, evidence in known.items()}
    filled = template.format(it=it, **texts)
    return Clause(filled, tuple(known.values()))


def listed(clauses: Iterable[Clause], last: str = " and ") -> Clause:
    """`a, b and c`, without empty clauses."""
    present = [clause for clause in clauses if clause]
    out = Clause()
    for place, clause in enumerate(present):
        between = "" if place == 0 else last if place == len(present) - 1 else ", "
        out = out + Clause(between) + clause
    return out


def format_evidence(evidence: Evidence) -> str:
    """Returns a value for people: `84 °C`, `61.2 GiB`, `3 h 20 min`."""
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
        is_short = evidence.at is None and value < SHORT_SECONDS and value != round(value)
        return f"{fixed(value, 1)} s" if is_short else human_seconds(round(value))
    return f"{fixed(value)} {unit}".rstrip()
