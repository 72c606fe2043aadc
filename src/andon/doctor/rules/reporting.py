"""Checks what goes to a hub and to other systems: whether it is acknowledged, and what waits."""

from collections.abc import Iterator

from andon.doctor.rules.facts import MachineFacts, OutgoingReports
from andon.doctor.rules.findings import Check, CheckResult, Value, hinted, ok, warning
from andon.units import counted, human_bytes, human_seconds

LATE_SECONDS = 180.0
"""A node notes once a minute what its hub has; a receiver may be restarted."""


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    for link in facts.reporting.links:
        yield _judged(link, facts.reporting.sends, facts.clock.at)


def _judged(link: OutgoingReports, sends: bool, now: float) -> CheckResult:
    place: dict[str, Value] = {"url": link.place, "waiting": link.waiting, "dropped": link.dropped}
    known = "nothing was acknowledged yet"
    if link.acknowledged is not None:
        known = f"last acknowledged {_lasted(now, link.acknowledged)} ago"
    message = f"{link.name}, {link.place}: {known}{_queue(link, now)}"
    if not sends:
        message += "; no server or agent of yours runs here"
        return warning(Check.REPORTS_STOPPED, message, link.start, **place)
    if link.trouble[0]:
        message += f"; {link.trouble[0]}"
        return hinted(warning(Check.REPORTS_WAIT, message, "", **place), link.trouble[1])
    if link.since is None or now - link.since < LATE_SECONDS:
        return ok(Check.REPORTS, message, **place)
    hint = "is it running there? the log of your server or agent has the reason"
    return hinted(warning(Check.REPORTS_WAIT, message, "", **place), hint)


def _queue(link: OutgoingReports, now: float) -> str:
    message = ""
    if link.waiting and link.since is not None:
        count = f"{counted(link.waiting, 'request')} ({human_bytes(link.size_bytes)})"
        message = f", {count} in the queue, the oldest for {_lasted(now, link.since)}"
    return message + (f", {link.dropped:,} dropped" if link.dropped else "")


def _lasted(now: float, then: float) -> str:
    return human_seconds(max(0.0, now - then))
