"""Builds sentences whose every number comes from evidence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from andon.core.explain.reasons import Evidence, Reason, ReasonCode
from andon.model.device import Process
from andon.units import human_bytes, human_seconds

CERTAIN, LIKELY, POSSIBLE = 0.95, 0.75, 0.5

WEIGHTS: dict[ReasonCode, tuple[float, float]] = {
    ReasonCode.LOST: (100, 100),
    ReasonCode.VERSION_MISMATCH: (99, 99),
    ReasonCode.NO_PERMISSION: (98, 98),
    ReasonCode.NO_DRIVER: (97, 97),
    ReasonCode.HUNG: (96, 96),
    ReasonCode.FAN_FAILED: (95, 95),
    ReasonCode.HEAT: (92, 86),  # milder: throttled by the driver, not by the hardware
    ReasonCode.POWER_BRAKE: (90, 90),
    ReasonCode.HARDWARE_SLOWDOWN: (88, 88),
    ReasonCode.MEMORY_HEAT: (84, 60),  # milder: not throttled yet
    ReasonCode.ECC: (80, 80),
    ReasonCode.MEMORY_LEAK: (65, 47),  # milder: more than an hour until it is full
    ReasonCode.HOT: (62, 35),  # milder: warm, but far from its own limit
    ReasonCode.POWER_LIMIT_LOWERED: (
        60,
        7,
    ),  # ranks above POWER_CAP, which it causes; milder: costs little
    ReasonCode.POWER_CAP: (58, 58),
    ReasonCode.LOW_CLOCKS: (52, 52),
    ReasonCode.UNATTRIBUTED_MEMORY: (48, 48),
    ReasonCode.IDLE_MEMORY: (46, 38),  # milder: there is memory left
    ReasonCode.CLOCKS_SET: (45, 4),  # milder: costs little
    ReasonCode.UNREADABLE: (42, 6),  # milder: enough can be read to judge it
    ReasonCode.SLOWER_THAN_PEERS: (40, 40),
    ReasonCode.NARROW_LINK: (36, 36),
    ReasonCode.SHARED: (34, 34),
    ReasonCode.IDLE_HELD: (33, 33),
    ReasonCode.LOW_OCCUPANCY: (30, 30),
    ReasonCode.STARVED: (28, 28),
    ReasonCode.FAN_IDLE: (24, 24),
    ReasonCode.NO_DEVICE: (20, 20),
    ReasonCode.ASLEEP: (19, 19),
    ReasonCode.PARTITIONED: (18, 5),  # milder: its utilisation is still known
    ReasonCode.UNIFIED: (17, 4),  # milder: its usage is known
    ReasonCode.MEMORY_FULL: (16, 8),  # milder: there is room for another allocation
    ReasonCode.GRAPHICS: (15, 3),  # milder: it uses little
    ReasonCode.FAN: (14, 6),  # milder: it is not loud
    ReasonCode.POWER_BOUND: (13, 7),  # milder: the clock is near its maximum
    ReasonCode.HEALTHY: (10, 10),
}
"""The weight of each reason, normal and milder. From 20 up it is a problem; between NOTHING and 20
it is not, but it comes first in the answer."""


@dataclass(frozen=True, slots=True)
class Clause:
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
    return f"{value:.0f} {unit}".rstrip()


def conclude(
    code: ReasonCode,
    confidence: float,
    sentence: Clause,
    more: Sequence[Evidence | None] = (),
    process: Process | None = None,
    advice: str = "",
    mild: bool = False,
) -> Reason:
    """The reason: its sentence and all its evidence, each piece once."""
    evidence = (*sentence.evidence, *(one for one in more if one is not None))
    return Reason(
        code=code,
        weight=WEIGHTS[code][mild],
        confidence=confidence,
        sentence=f"{sentence.text.rstrip('.')}.",
        evidence=tuple(dict.fromkeys(evidence)),
        process=process,
        advice=advice,
    )
