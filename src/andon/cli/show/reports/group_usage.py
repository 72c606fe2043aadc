"""Who used how much, per user and day, as a document, JSON and CSV."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from andon.cli.show.csv_table import CsvTable, attributes
from andon.cli.show.reports.document import (
    BarChart,
    Document,
    Facts,
    Grid,
    facts,
    section,
    sections,
    sentences,
)
from andon.cli.show.reports.figures import HOUR, energy, percent, seconds_text, three, when
from andon.cli.show.text import UNKNOWN
from andon.history.rules.usage import Days, UserUsage, summed
from andon.runs.rules.reports.report import JOULES_PER_KWH, NO_PRICES, Prices
from andon.units import fixed, gpu_hours

MOST_PARTS = 7  # users of their own in a chart; the others are one part
OTHERS = "others"


class GroupUsage(Struct, frozen=True):
    """A span of time of a whole node."""

    node: str
    since: float
    until: float
    days: Days = field(default_factory=dict)
    simulated: bool = False
    recorded: bool = True  # whether there is any history
    notes: tuple[str, ...] = ()  # what is not known, and why
    prices: Prices = NO_PRICES
    by: str = "user"  # or group


def group_document(group: GroupUsage) -> Document:
    users = summed(group.days.items())
    return Document(
        title=f"GPU use on {group.node}",
        subtitle=f"{when(group.since)} to {when(group.until)}",
        warning="SIMULATED" if group.simulated else None,
        sections=sections(
            section("Summary", _summary(group, users), sentences(group.notes, quiet=True)),
            section(
                f"{group.by.title()}s",
                _users_chart(users, group.by),
                _grid(users, group.recorded, group.by),
            ),
            section(
                "Days", _days_chart(group.days, users), _days(group.days, group.recorded, group.by)
            ),
            section("What the words mean", sentences(MEANINGS, quiet=True)) if users else None,
        ),
    )


MEANINGS = (
    "GPU hours: how long a process of the user was on a device; one device for a day is 24.",
    "Idle: the share of these hours in which nothing ran. The energy of a shared device is "
    "divided among its users by their time.",
    "Held idle: the share of time with a process on the device or a run that held it in which "
    "nothing ran for half an hour or longer.",
    "Runs and waits: the runs that andon recorded, and how long they waited for their devices.",
)


def _summary(group: GroupUsage, users: Sequence[UserUsage]) -> Facts | None:
    whole = UserUsage("")
    for usage in users:
        whole.add(usage)
    joules = whole.energy_joules
    kwh = None if joules is None else joules / JOULES_PER_KWH
    price, grams = group.prices.per_kwh, group.prices.co2_grams_per_kwh
    cost = None if kwh is None or price is None else kwh * price
    return facts(
        [
            (f"{group.by.title()}s", str(len(users))),
            (
                "GPU hours",
                gpu_hours(whole.device_seconds) if group.recorded else UNKNOWN,
            ),
            ("Energy", energy(joules)),
            ("Cost", None if cost is None else f"{fixed(cost, 2)} {group.prices.currency}".strip()),
            (
                "CO2",
                None if grams is None or kwh is None else f"{three(kwh * grams / 1000)} kg",
            ),
            ("Idle", percent(whole.idle_share)),
            ("Held idle", percent(whole.held_idle_share)),
            ("Waits", _waits(whole)),
        ]
    )


def _waits(usage: UserUsage) -> str:
    if not usage.waits:
        return UNKNOWN
    longest = seconds_text(max(usage.waits))
    return f"{seconds_text(usage.median_wait_seconds)} (longest {longest})"


def _cells(usage: UserUsage, recorded: bool) -> tuple[str, ...]:
    return (
        gpu_hours(usage.device_seconds) if recorded else UNKNOWN,
        energy(usage.energy_joules),
        percent(usage.idle_share),
        percent(usage.held_idle_share),
        str(usage.runs or UNKNOWN),  # of others' runs nothing is known
        _waits(usage),
    )


COLUMNS = ("GPU hours", "energy", "idle", "held idle", "runs", "waited")


def _grid(users: Sequence[UserUsage], recorded: bool, by: str) -> Grid | None:
    rows = tuple((usage.user, *_cells(usage, recorded)) for usage in users)
    return Grid((by, *COLUMNS), rows) if rows else None


def _days(days: Days, recorded: bool, by: str) -> Grid | None:
    rows = tuple((day, user, *_cells(days[day, user], recorded)) for day, user in sorted(days))
    return Grid(("day", by, *COLUMNS), rows, text_columns=2) if rows else None


def _users_chart(users: Sequence[UserUsage], by: str) -> BarChart | None:
    """Returns a chart of time in use and idle; time without readings counts as in use."""
    rows = tuple(
        (
            usage.user,
            ((usage.device_seconds - usage.idle_seconds) / HOUR, usage.idle_seconds / HOUR),
        )
        for usage in users
        if usage.device_seconds
    )
    return BarChart(f"By {by}", "GPU hours", ("in use", "idle"), rows) if rows else None


def _days_chart(days: Days, users: Sequence[UserUsage]) -> BarChart | None:
    names = [usage.user for usage in users if usage.device_seconds]
    shown = names if len(names) <= MOST_PARTS + 1 else names[:MOST_PARTS]
    parts = (*shown, OTHERS) if len(shown) < len(names) else tuple(shown)
    by_day = defaultdict[str, dict[str, float]](dict)
    for (day, user), usage in sorted(days.items()):
        by_day[day][user] = usage.device_seconds / HOUR
    rows = tuple((day, _parts(on, shown, len(parts) > len(shown))) for day, on in by_day.items())
    return BarChart("By day", "GPU hours", parts, rows) if parts else None


def _parts(hours: Mapping[str, float], shown: Sequence[str], others: bool) -> tuple[float, ...]:
    named = tuple(hours.get(user, 0.0) for user in shown)
    return (*named, sum(hours.values()) - sum(named)) if others else named


def usage_json(usage: UserUsage | None, recorded: bool) -> dict[str, Any]:
    """The keys of a user, or of a day; None where nothing is recorded."""
    if usage is None:
        return dict.fromkeys(usage_json(UserUsage(""), recorded))
    return {
        "device_seconds": round(usage.device_seconds, 1) if recorded else None,
        "energy_joules": None if usage.energy_joules is None else round(usage.energy_joules, 1),
        "idle_share": usage.idle_share,
        "held_idle_share": usage.held_idle_share,
        "runs": usage.runs or None,
        "median_wait_seconds": usage.median_wait_seconds,
        "longest_wait_seconds": max(usage.waits, default=None),
    }


def _kwh(joules: float | None) -> float | None:
    return None if joules is None else round(joules / JOULES_PER_KWH, 4)


class UsageDay(Struct, frozen=True):
    """What a user used on a day; `recorded`: whether there is any history."""

    day: str
    user: str
    simulated: bool
    usage: UserUsage
    recorded: bool


def usage_days(real: Days, simulated: Days, recorded: bool) -> Iterator[UsageDay]:
    for days, is_simulated in ((real, False), (simulated, True)):
        for (day, user), usage in sorted(days.items()):
            yield UsageDay(day, user, is_simulated, usage, recorded)


USAGE_DAYS: CsvTable[UsageDay] = CsvTable(
    {
        **attributes(("day", "user", "simulated")),
        "gpu_hours": lambda row: (
            round(row.usage.device_seconds / HOUR, 4) if row.recorded else None
        ),
        "energy_kwh": lambda row: _kwh(row.usage.energy_joules),
        **attributes(("idle_share", "held_idle_share"), lambda row: row.usage),
        "runs": lambda row: row.usage.runs or None,
        "median_wait_seconds": lambda row: row.usage.median_wait_seconds,
        "longest_wait_seconds": lambda row: max(row.usage.waits, default=None),
    }
)
