"""Judges a machine: facts in, findings out, each with what to type about it."""

from andon.core import (
    checkup_access,
    checkup_andon,
    checkup_books,
    checkup_devices,
    checkup_driver,
    checkup_security,
)
from andon.core import checkup_system as system
from andon.core.checkup_facts import Facts
from andon.core.findings import Finding, in_order

AREAS = (
    checkup_devices.judge,
    checkup_driver.judge,
    checkup_driver.judge_library,
    checkup_access.judge,
    checkup_access.judge_containers,
    system.judge,
    checkup_andon.judge,
    checkup_books.judge,
    checkup_security.judge,
)


def judge(facts: Facts) -> list[Finding]:
    """Everything that can be said, the worst first."""
    return in_order(finding for area in AREAS for finding in area(facts))
