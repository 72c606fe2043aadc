"""A case for the doctor: a machine, and all that is wrong with it."""

from msgspec import Struct
from msgspec.structs import replace

from andon.doctor.rules.facts import (
    MachineFacts,
    PciCard,
)
from andon.doctor.rules.findings import Check, Grade
from tests.support.doctor.machines import snapshot

FAIL, WARN = Grade.FAILURE, Grade.WARNING
NOTHING = (Check.NO_DEVICE, FAIL), (Check.READER_FAULT, FAIL)
C = Check


class Case(Struct, frozen=True):
    """A machine and all that is wrong with it; `says` must stand in what is found or in a fix."""

    name: str
    facts: MachineFacts
    expected: frozenset[tuple[Check, Grade]]
    says: tuple[str, ...] = ()


def case(name: str, facts: MachineFacts, *expected: tuple[Check, Grade], says: str = "") -> Case:
    return Case(name, facts, frozenset(expected), tuple(filter(None, says.split("|"))))


def kernel(facts: MachineFacts, **changed: object) -> MachineFacts:
    return replace(facts, kernel=replace(facts.kernel, **changed))


def box(facts: MachineFacts, **changed: object) -> MachineFacts:
    return replace(facts, containers=replace(facts.containers, **changed))


def own(facts: MachineFacts, **changed: object) -> MachineFacts:
    return replace(facts, own=replace(facts.own, **changed))


def seen(facts: MachineFacts, **changed: object) -> MachineFacts:
    shown = replace(facts.trial.snapshot or snapshot(), **changed)
    return replace(facts, trial=replace(facts.trial, snapshot=shown))


def one_card(driver: str | None, **changed: object) -> tuple[PciCard, ...]:
    return (replace(PciCard("0000:01:00.0", "nvidia", driver, "active", "on"), **changed),)
