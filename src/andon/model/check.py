"""The result of a check of one card: what was measured, what it is compared with, the verdict."""

from enum import StrEnum
from hashlib import sha256
from typing import Annotated

from msgspec import Meta, Struct, field

from andon.model.codec import Amount, Id, Index, JsonDocument, Name, Names, Text, Texts, Time, Whole
from andon.units import counted

CHECKS_SCHEMA = "andon.checks/1"
TESTS = 1
"""The number of the measurements: results of different ones are not compared."""
MOST_WRONG = 64
MOST_LISTED = 65_536


class CheckVerdict(StrEnum):
    """What a check found, the worst first."""

    WRONG = "wrong_results"
    LOST = "lost"
    MEMORY = "memory_errors"  # uncorrectable
    HUNG = "hung"
    FAILED = "failed"  # for another reason than the card: a driver that is too old, no memory
    SLOW = "slow"
    OK = "ok"
    UNJUDGED = "unjudged"  # numbers, but nothing to compare them with
    NOT_CHECKED = "not_checked"
    STOPPED = "stopped"

    @property
    def is_broken(self) -> bool:
        """Whether work on the card is lost: a prolog fails for these alone."""
        return self in (CheckVerdict.WRONG, CheckVerdict.LOST, CheckVerdict.MEMORY)

    @property
    def is_bad(self) -> bool:
        """Whether a job that may choose takes another card."""
        return self.is_broken or self in (CheckVerdict.HUNG, CheckVerdict.SLOW)

    @property
    def is_measured(self) -> bool:
        """Whether its numbers can be compared with others."""
        return self in (CheckVerdict.SLOW, CheckVerdict.OK, CheckVerdict.UNJUDGED)


class WrongWord(Struct, frozen=True):
    """One result that is not what it must be."""

    part: Name
    at: Whole  # the thread, or the word of the memory that was tested
    got: Whole
    expected: Whole
    sm: Index | None = None  # of a computation
    address: Whole | None = None  # in the memory of the process


class CheckPart(Struct, frozen=True):
    """One part of a check. None means unknown; `reason` says why."""

    name: Name  # fp32, tensor, memory, patterns, to_device, from_device
    value: Amount | None = None  # per second, in floating-point operations or bytes
    reason: Text | None = None
    clock_mhz: Amount | None = None  # as an SM counted it during the part
    examined: Whole = 0  # results or bytes that were compared
    wrong: Whole = 0
    power_watts: Amount | None = None  # mean
    temperature_celsius: Whole | None = None  # highest
    throttle: Names = ()
    pcie_generation: Whole | None = None
    pcie_width: Whole | None = None


class RowRemaps(Struct, frozen=True):
    """Rows of memory that spare ones replace."""

    correctable: Whole  # because of errors that were corrected
    uncorrectable: Whole
    pending: bool = False  # the next reset replaces more
    failed: bool = False  # no spare row was left

    @property
    def count(self) -> int:
        return self.correctable + self.uncorrectable

    @property
    def text(self) -> str:
        """`2 rows remapped, 1 after uncorrectable errors; a reset is due`."""
        found = f"{counted(self.count, 'row')} remapped" if self.count else "no row remapped"
        found += f", {self.uncorrectable} after uncorrectable errors" if self.uncorrectable else ""
        found += "; a reset is due" if self.pending else ""
        return f"{found}; NO SPARE ROW IS LEFT" if self.failed else found


class CardResult(JsonDocument, frozen=True):
    """A check of one card."""

    schema = "andon.check/1"
    node: Name
    uuid: Name
    label: Name
    model: Name
    at: Time
    mode: Name
    verdict: CheckVerdict
    text: Text = ""  # the verdict for people
    seconds: Amount = 0.0
    vendor: Name = "nvidia"
    driver: Name = ""
    tests: Whole = TESTS
    capability: Name = ""
    sms: Whole | None = None
    clock_mhz: Amount | None = None  # its highest
    bandwidth_bytes_per_second: Amount | None = None  # what clock and bus of its memory allow
    pcie_generation: Whole | None = None  # what card and slot allow
    pcie_width: Whole | None = None
    power_limit_watts: Amount | None = None
    power_default_watts: Amount | None = None
    memory_total_bytes: Whole | None = None
    tested_bytes: Whole = 0
    parts: Annotated[tuple[CheckPart, ...], Meta(max_length=16)] = ()
    wrong: Annotated[tuple[WrongWord, ...], Meta(max_length=MOST_WRONG)] = ()
    new_ecc: Whole | None = None  # uncorrectable errors that were counted during the check
    rows_before: RowRemaps | None = None  # None: `evidence` says why
    rows: RowRemaps | None = None  # after it
    events: Names = ()  # Xids during the check
    even_if_used: bool = False
    instance: bool = False  # a part of a card (MIG)
    explained_by: Name | None = None  # the condition that explains a slow card
    evidence: Texts = field(default_factory=dict)
    simulated: bool = False

    def part(self, name: str) -> CheckPart | None:
        return next((one for one in self.parts if one.name == name), None)

    def value(self, name: str) -> float | None:
        found = self.part(name)
        return None if found is None else found.value

    @property
    def kind(self) -> tuple[object, ...]:
        """What must be the same for two results to be compared."""
        size = self.memory_total_bytes if self.instance else None  # the profile of an instance
        return (
            self.tests, self.model, self.driver, self.instance, size, self.simulated,
        )  # fmt: skip

    @property
    def limit(self) -> int | None:
        """Its power limit in watts, by which results are compared first of all."""
        return None if self.power_limit_watts is None else round(self.power_limit_watts)


class CheckFigures(Struct, frozen=True):
    """The last check of a card in a few numbers, by which other nodes judge theirs."""

    card: Id
    model: Name
    driver: Name
    values: Annotated[tuple[Whole | None, ...], Meta(max_length=3)]
    """Of FLEET_PARTS, in millions a second."""
    tests: Whole = TESTS
    limit: Whole | None = None
    """Of its power, in watts."""


FLEET_PARTS = ("fp32", "tensor", "memory")
"""What depends on the card alone: copies from the host differ from machine to machine."""
MILLION = 1e6


def card_id(uuid: str) -> str:
    """Returns what tells cards apart in a fleet, without their identity."""
    return sha256(uuid.encode(errors="replace")).hexdigest()[:12]


def figures_of(result: CardResult) -> CheckFigures:
    values = (result.value(name) for name in FLEET_PARTS)
    rounded = tuple(None if one is None else round(one / MILLION) for one in values)
    uuid, model = card_id(result.uuid), result.model
    return CheckFigures(uuid, model, result.driver, rounded, result.tests, result.limit)


def result_of(known: CheckFigures) -> CardResult:
    """Returns the figures as a result that others are compared with."""
    values = zip(FLEET_PARTS, known.values, strict=False)
    parts = tuple(CheckPart(n, None if one is None else one * MILLION) for n, one in values)
    return CardResult(
        "", known.card, "", known.model, 0.0, "", CheckVerdict.UNJUDGED, driver=known.driver,
        tests=known.tests, power_limit_watts=known.limit, parts=parts,
    )  # fmt: skip


class PeerSpeed(Struct, frozen=True):
    """What one card copies to another."""

    source: Name
    target: Name
    bytes_per_second: Amount
    direct: bool  # without the host's memory between
    right: bool  # what arrived is what was sent


class CheckList(JsonDocument, frozen=True):
    """Checks of a node's cards."""

    schema = CHECKS_SCHEMA
    checks: Annotated[tuple[CardResult, ...], Meta(max_length=MOST_LISTED)] = ()
    peers: Annotated[tuple[PeerSpeed, ...], Meta(max_length=MOST_LISTED)] = ()


class FleetChecks(Struct, frozen=True):
    """The last checks of the cards of a hub's nodes."""

    checks: Annotated[tuple[CheckFigures, ...], Meta(max_length=MOST_LISTED)] = ()
