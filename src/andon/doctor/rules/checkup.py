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

AREAS_ELSEWHERE = (devices.judge, installation.judge)
"""On macOS and Windows: the other areas are about Linux."""


def judge(facts: MachineFacts) -> list[CheckResult]:
    """Returns all findings, the worst first."""
    areas = AREAS if facts.linux else AREAS_ELSEWHERE
    return in_order(found for area in areas for found in area(facts))
