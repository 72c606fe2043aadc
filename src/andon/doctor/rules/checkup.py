"""Checks a machine: facts in, findings out, each with a fix or a hint."""

from andon.doctor.rules import (
    access,
    books,
    devices,
    driver,
    installation,
    reporting,
    security,
    sharing,
)
from andon.doctor.rules import system as system
from andon.doctor.rules.facts import MachineFacts
from andon.doctor.rules.findings import CheckResult, in_order

AREAS = (
    devices.judge,
    driver.judge,
    driver.judge_library,
    access.judge,
    access.judge_containers,
    system.judge,
    installation.judge,
    reporting.judge,
    books.judge,
    sharing.judge,
    security.judge,
)


def judge(facts: MachineFacts) -> list[CheckResult]:
    """Returns all findings, the worst first."""
    return in_order(finding for area in AREAS for finding in area(facts))
