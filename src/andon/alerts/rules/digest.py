"""The digest of a week: what people, groups and machines used, and what broke."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from andon.alerts.rules.messages import DIGEST_RULE, cut, headline, local_time
from andon.history.rules.tiers import DAY_SECONDS
from andon.history.rules.usage import UNKNOWN_USER, Days, UserUsage, renamed, summed
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.settings.moments import Offset
from andon.units import counted, fixed, gpu_hours, human_joules, human_seconds, printable

WEEK_SECONDS = 7 * DAY_SECONDS
MOST_LINES = 6  # of machines, of users, of groups and of what broke
LINE_CHARACTERS = 150
JOULES_PER_KWH = 3.6e6


def is_due(reported: float | None, at: float, due: float) -> bool | None:
    """Whether the digest of the time `due` is to be sent; None if none ever was, so that the next
    is the first. A mark from a clock that ran far ahead does not count."""
    return None if reported is None or reported > at + WEEK_SECONDS else reported < due


class MachineWeek(Struct, frozen=True):
    """What is known of one machine; `recorded`: whether there is any history."""

    name: str
    days: Days
    recorded: bool = True
    alerts: tuple[Alert, ...] = ()
    runs: int = 0
    failed_runs: int = 0
    notes: tuple[str, ...] = ()  # what is not known, and why
    simulated: bool = False


class WeekDigest(Struct, frozen=True):
    """A week of all machines."""

    until: float
    machines: tuple[MachineWeek, ...]
    offset: Offset
    group_of: Callable[[str], str] = lambda user: UNKNOWN_USER
    price_per_kwh: float | None = None
    currency: str = ""


def digest_notice(week: WeekDigest, owners: Collection[str] = ()) -> Notice:
    """Returns the digest as a notice; with `owners` only of what they used."""
    lines = [cut(printable(line), LINE_CHARACTERS) for line in _lines(week, owners)]
    total = _figures(week, "", _users(week, owners), any(m.recorded for m in week.machines))
    nodes = [one.name for one in week.machines]
    of = ", ".join(owners or nodes[:1]) if len(nodes) == 1 or owners else f"{len(nodes)} machines"
    alert = Alert(
        id=f"{DIGEST_RULE}@node#{week.until:.0f}",
        rule=DIGEST_RULE,
        subject=DIGEST_RULE,
        level=Level.INFO,
        state=Phase.FIRING,
        since=week.until - WEEK_SECONDS,
        where="this node",
        message=f"{of}: week to {_day(week, week.until)}: {', '.join(total[:2])}",
        evidence={f"{place:02d}": line for place, line in enumerate(lines)},
    )
    simulated = any(one.simulated for one in week.machines)
    return Notice(f"{alert.id}:end", NoticeKind.FIRING, alert, week.until, nodes[0], simulated)


def _day(week: WeekDigest, at: float) -> str:
    return local_time(at, at + WEEK_SECONDS, week.offset)


def _users(week: WeekDigest, owners: Collection[str]) -> list[UserUsage]:
    found = summed(chain.from_iterable(one.days.items() for one in week.machines))
    return [one for one in found if not owners or one.user in owners]


def _lines(week: WeekDigest, owners: Collection[str]) -> Iterator[str]:
    """Yields what people read: first each machine and what broke, then who used how much."""
    machines = () if owners else week.machines
    yield from _first([_machine(week, one) for one in machines])
    yield from (f"{one.name}: {note}" for one in week.machines for note in one.notes)
    broken = _first([*_broken(week, owners)])
    yield from ("", "What broke:", *(broken or ["nothing that alerts know"]))
    groups = summed(chain.from_iterable(renamed(m.days, week.group_of).items() for m in machines))
    named = any(one.user != UNKNOWN_USER for one in groups)
    for what, usages in (("user", _users(week, owners)), ("group", groups if named else [])):
        if usages:
            lines = [", ".join(_figures(week, f"{one.user}: ", [one])) for one in usages]
            yield from ("", f"By {what}:", *_first(lines))
    yield from ("", "More: andon who --since 7d --format md")


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return [*(f"• {line}" for line in lines[:MOST_LINES]), *more]


def _machine(week: WeekDigest, machine: MachineWeek) -> str:
    failed = f" ({machine.failed_runs} failed)" if machine.failed_runs else ""
    runs = [f"{counted(machine.runs, 'run')}{failed}"] if machine.runs else []
    usages = machine.days.values()
    return ", ".join([*_figures(week, f"{machine.name}: ", usages, machine.recorded), *runs])


def _figures(
    week: WeekDigest, name: str, usages: Iterable[UserUsage], recorded: bool = True
) -> list[str]:
    """Returns hours, idle share, energy, cost and waits; what is not known is said."""
    whole, price = UserUsage(""), week.price_per_kwh
    for usage in usages:
        whole.add(usage)
    if not recorded:
        return [f"{name}GPU hours not known"]
    seconds, idle, joules = whole.device_seconds, whole.idle_share, whole.energy_joules
    found = [f"{name}{gpu_hours(seconds)} {'on a GPU' if 0 < seconds < 360 else 'GPU h'}"]
    if seconds:
        found += ["idle not known" if idle is None else f"{100 * idle:.0f} % idle"]
        found += ["energy not known" if joules is None else human_joules(joules)]
    if joules is not None and price is not None:
        found += [f"{fixed(joules / JOULES_PER_KWH * price, 2)} {week.currency}".strip()]
    if (median := whole.median_wait_seconds) is not None:
        longest = human_seconds(max(whole.waits))
        found += [f"waited {human_seconds(median)} (longest {longest})"]
    return found


def _broken(week: WeekDigest, owners: Collection[str]) -> Iterator[str]:
    """Yields the alerts that fired, the worst first; several of one rule and device together."""
    together: dict[tuple[str, str, str], list[Alert]] = {}
    for machine in week.machines:
        for alert in machine.alerts:
            if _is_of(week, alert, owners):
                about = machine.name, alert.rule, alert.subject
                together.setdefault(about, []).append(alert)
    ordered = sorted(together.items(), key=lambda one: (-_worst(one[1]).rank, -len(one[1])))
    for (name, _, _), alerts in ordered:
        last = max(alerts, key=lambda one: one.since)
        times = "" if len(alerts) == 1 else f"{len(alerts)} times, last "
        on = f"{name}: " if len(week.machines) > 1 else ""
        still = ", still so" if last.state is Phase.FIRING else ""
        yield f"{_worst(alerts)}: {on}{headline(last)}, {times}{_day(week, last.since)}{still}"


def _is_of(week: WeekDigest, alert: Alert, owners: Collection[str]) -> bool:
    """Whether an alert fired in the week, and affected the owners."""
    ended = week.until if alert.resolved is None else alert.resolved
    there = alert.since < week.until and ended >= week.until - WEEK_SECONDS
    fired = alert.fired is not None and alert.level is not Level.INFO
    return there and fired and (not owners or any(p.user in owners for p in alert.affected))


def _worst(alerts: Iterable[Alert]) -> Level:
    return max((one.level for one in alerts), key=lambda level: level.rank)
