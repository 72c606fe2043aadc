"""docs/conditions.md, made from the catalogue and from the tests: every condition in full."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dev.metrics.alert_behaviour import span
from tests.situations.table import SITUATIONS
from tests.timelines.grammar import timelines

from andon.core.conditions.catalogue import BY_NAME, CONDITIONS, GROUPS, Group, kinds_of
from andon.core.conditions.condition import Condition, Precondition
from andon.core.conditions.rulebook import Rulebook
from andon.units import SYMBOLS, human_bytes, human_seconds
from andon.web.answers.rule_page import RuleContext, rule_page
from andon.web.answers.schemas import FigureRow, RulePage

WIDTH = 100
ORDER = ("heat", "clocks", "memory", "use", "state", "node", "sharing", "own")
"""What a person looks for first; other folders follow."""
BEHAVIOUR = frozenset(
    {
        "clock", "devices", "flapping", "healthy", "inhibition", "missing_data", "renotify",
        "restart", "silence_ack",
    }
)  # fmt: skip
"""Timelines about what holds for every alert: they are counted, not listed."""
NEEDS = "Needs a server that follows the lease book (`andon serve`)."
INTRO = """# Conditions

Everything that andon can find wrong, by what it is about. Each condition is one file in
`src/andon/core/conditions`; alerts, lamps, `andon why`, the settings, the Prometheus rules and this
page are derived from it. [alerting.md](alerting.md) says how alerts begin and end, and
[extending.md](extending.md#a-condition-is-one-file-and-one-timeline) how to add a condition.

`andon alerts rules NAME` shows the same page with the thresholds in force on your own devices, and
`andon alerts rules --all` lists the names. A condition without levels is never an alert: only
`andon why` mentions it. What is not sent is on the board and notifies no one. The numbers of Xids
are in [alerts.md](alerts.md#xids).

"""


class Tests(NamedTuple):
    """The tables that test a condition: of timelines by their file, and of situations."""

    timelines: Mapping[str, Sequence[str]]
    situations: Sequence[str]


def conditions_page() -> str:
    """The whole page."""
    tests = tables_of()
    known = sorted(GROUPS, key=lambda group: _place(group.name))
    parts = [INTRO, *_contents(known)]
    for group in known:
        parts += [f"\n## {group.about.strip().rstrip('.')}\n"]
        parts += ["".join(_condition(one.name, tests[one.name])) for one in group.conditions]
    return "".join(parts)


def tables_of() -> dict[str, Tests]:
    """The timelines in whose `expect` a condition occurs, and the situations that expect it."""
    tables: dict[str, dict[str, list[str]]] = {one.name: {} for one in CONDITIONS}
    for timeline in timelines():
        named = {name for row in timeline.rows for name in re.findall(r"(\w+)@", row.expect)}
        for name in named & tables.keys():
            tables[name].setdefault(timeline.file, []).append(timeline.title)
    return {name: Tests(found, _stories(BY_NAME[name])) for name, found in tables.items()}


def _stories(condition: Condition) -> list[str]:
    codes = {kind.code for kind in kinds_of(condition)}
    return [situation.name for situation in SITUATIONS if situation.expect in codes]


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def _contents(groups: Sequence[Group]) -> Iterator[str]:
    """The names of a group in a row, each with a link."""
    for group in groups:
        names = ", ".join(f"[{one.name}](#{one.name})" for one in group.conditions)
        yield _wrapped(f"- {group.name}: {names}", "  ")


def _condition(name: str, tests: Tests) -> Iterator[str]:
    page = rule_page(BY_NAME[name], RuleContext(Rulebook()))
    yield f"\n### {name}\n\n"
    yield _wrapped(f"**{page.title}.** {page.why}")
    yield "\n" + _wrapped(f"What to do: {page.advice}")
    if BY_NAME[name].needs is Precondition.LEASES:
        yield f"\n{NEEDS}\n"
    if page.levels:
        yield from _levels(page)
    yield "\n" + "".join(_facts(page))
    yield from _figures(page.figures)
    yield from _queries(page)
    yield from _tested(tests)


def _levels(page: RulePage) -> Iterator[str]:
    yield "\n| level | sent | fires when | for | ends when | for |\n|---|---|---|---|---|---|\n"
    for rung in page.levels:
        cells = (
            str(rung.level), "yes" if rung.notify else "no", rung.condition,
            span(rung.for_seconds), rung.clear_condition, span(rung.clear_seconds),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |\n"


def _facts(page: RulePage) -> Iterator[str]:
    """What the surfaces say about it, a line each."""
    if page.label:
        yield f"- On its lamp: {page.label}.\n"
    for name in page.behind:
        yield f"- Not sent while [{name}](#{name}) fires for it.\n"
    for reason in page.reasons:
        calm = "" if reason.problem else " Not a problem."
        yield _wrapped(f"- `andon why` says `{reason.code}`: {reason.means}.{calm}", "  ")
    if not page.reasons:
        yield "- `andon why` does not mention it.\n"
    if page.levels and page.no_query_reason:
        yield _wrapped(f"- Not in the Prometheus rules: {page.no_query_reason}.", "  ")


def _figures(figures: Sequence[FigureRow]) -> Iterator[str]:
    if figures:
        yield "\n| threshold | default | variable | what it is |\n|---|---|---|---|\n"
    for one in figures:
        off = ' ("off" turns the condition off)' if one.can_be_off else ""
        yield f"| `{one.setting}` | {_value(one)} | `{one.variable}` | {one.help}{off} |\n"


def _value(figure: FigureRow) -> str:
    if figure.unit == "seconds":
        return human_seconds(figure.default).replace(" h 0 min", " h")
    if figure.unit == "bytes":
        return human_bytes(figure.default)
    return f"{figure.default:g} {SYMBOLS.get(figure.unit, figure.unit)}".rstrip()


def _queries(page: RulePage) -> Iterator[str]:
    for one in page.queries:
        yield f"\n`{one.alert}` in Prometheus:\n\n```promql\n{one.query}\n```\n"


def _tested(tests: Tests) -> Iterator[str]:
    if not tests.timelines and not tests.situations:
        return
    yield "\nTested by:\n\n"
    for file, titles in tests.timelines.items():
        if file not in BEHAVIOUR:
            yield _wrapped(f"- `tests/timelines/{file}.txt`: {'; '.join(titles)}", "  ")
    others = [file for file in tests.timelines if file in BEHAVIOUR]
    if others:
        count = sum(len(tests.timelines[file]) for file in others)
        tables = "table" if count == 1 else "tables"
        yield _wrapped(f"- {count} {tables} about how alerts behave: {', '.join(others)}", "  ")
    if tests.situations:
        yield _wrapped(f"- `tests/situations`: {'; '.join(tests.situations)}", "  ")


def _wrapped(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"
