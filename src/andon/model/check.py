"""The result of a check of one card: what was measured, what it is compared with, the verdict."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from andon.model.codec import Amount, Index, JsonDocument, Name, Names, Text, Texts, Time, Whole

CHECKS_SCHEMA = "andon.checks/1"
TESTS = 1
"""The number of the measurements: results of different ones are not compared."""
MOST_WRONG = 64


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


class PeerSpeed(Struct, frozen=True):
    """What one card copies to another."""

    source: Name
    target: Name
    bytes_per_second: Amount
    direct: bool  # without the host's memory between
    right: bool  # what arrived is what was sent
