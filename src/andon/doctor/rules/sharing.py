"""Checks what applies to everyone's leases and jobs: root's policy, recent use, and log-outs."""

from collections.abc import Iterator

from andon.doctor.rules.facts import MachineFacts
from andon.doctor.rules.findings import Check, CheckResult, failure, ok, warning
from andon.jobs.rules.log_out import LINGER, LogOutEffect, log_out_effect, log_out_text
from andon.units import and_more

MOST_NAMED = 3


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    yield _policy(facts)
    yield from _usage(facts)
    yield from _log_out(facts)


def _policy(facts: MachineFacts) -> CheckResult:
    policy = facts.policy
    if policy.mistake:
        fix = policy.fix or f"sudoedit {policy.path}"
        return failure(Check.POLICY_WRONG, policy.mistake, fix, path=policy.path)
    if not policy.exists:
        return ok(Check.POLICY, f"no limits per user: there is no {policy.path}", path=policy.path)
    limits = policy.everyone or "none for everyone"
    message = f"limits per user ({policy.path}): {limits}"
    if policy.users:
        named = ", ".join(policy.users[:MOST_NAMED])
        message += f"; others for {named}{and_more(len(policy.users) - MOST_NAMED)}"
    if policy.own != policy.everyone:
        message += f"; yours: {policy.own or 'none'}"
    return ok(Check.POLICY, message, path=policy.path)


def _usage(facts: MachineFacts) -> Iterator[CheckResult]:
    usage = facts.policy.usage
    if not usage:
        return
    shown = ", ".join(f"{user} {hours:g}" for user, hours in usage[:MOST_NAMED])
    more = and_more(len(usage) - MOST_NAMED, "users")
    message = f"recent GPU hours affect the queue order: {shown}{more}"
    yield ok(Check.RECENT_USAGE, message, users=len(usage))


def _log_out(facts: MachineFacts) -> Iterator[CheckResult]:
    found = facts.log_out
    if not found.systemd:
        return
    message, effect = log_out_text(found), log_out_effect(found)
    if effect is LogOutEffect.LIVES:
        yield ok(Check.LOG_OUT, message, lingering=found.lingering, kills=found.kills)
    else:
        fix = "systemctl --user status" if found.lingering else LINGER
        lingers, kills = found.lingering, found.kills
        yield warning(Check.LOG_OUT_ENDS_JOBS, message, fix, lingering=lingers, kills=kills)
