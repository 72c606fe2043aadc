"""docs/conditions.md, made from the catalogue: every condition in a few lines."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dev.metrics.alert_behaviour import span
from tests.situations.table import SITUATIONS
from tests.timelines.grammar import timelines

from andon.alerts.rules.rule_page import FigureRow, RuleContext, RulePage, rule_page
from andon.explain.conditions.catalogue import BY_NAME, CONDITIONS, GROUPS, Group
from andon.explain.conditions.condition import Condition, Precondition
from andon.explain.conditions.rulebook import Rulebook
from andon.units import SYMBOLS, human_bytes, human_seconds

WIDTH = 100
ORDER = ("heat", "clocks", "memory", "use", "state", "node", "sharing", "own")
"""What a person looks for first; other folders follow."""
NEEDS = "Needs a server that follows the lease book (`andon serve`)."
INTRO = """# Conditions

Everything that andon can find wrong, by what it is about: what it means, what to do, when it fires
and ends at the default thresholds, and what `andon why` calls it. A condition without levels is
never an alert: only `andon why` mentions it. What is "not sent" is on the board and notifies no
one. [alerting.md](alerting.md) says how alerts begin and end; the numbers of Xids are in
[alerts.md](alerts.md#xids).

`andon alerts rules NAME` shows an entry with the thresholds in force on your own devices and its
query for Prometheus; `andon alerts rules --all` lists the names. Every threshold is a
[setting](settings.md), also as a variable: `alerts.fan_celsius` is `ANDON_ALERTS_FAN_CELSIUS`.

"""


class Tests(NamedTuple):
    """The tables that test a condition: of timelines by their file, and of situations."""

    timelines: Mapping[str, Sequence[str]]
    situations: Sequence[str]


def conditions_page() -> str:
    """The whole page."""
    known = sorted(GROUPS, key=lambda group: _place(group.name))
    parts = [INTRO, *_contents(known)]
    for group in known:
        parts += [f"\n## {group.about.strip().rstrip('.')}\n"]
        parts += ["".join(_condition(one.name)) for one in group.conditions]
    return "".join(parts)


def tables_of() -> dict[str, Tests]:
    """The timelines in whose `expect` a condition occurs, and the situations that name it."""
    tables: dict[str, dict[str, list[str]]] = {one.name: {} for one in CONDITIONS}
    for timeline in timelines():
        named = {name for row in timeline.rows for name in re.findall(r"(\w+)@", row.expect)}
        for name in named & tables.keys():
            tables[name].setdefault(timeline.file, []).append(timeline.title)
    return {name: Tests(found, _stories(BY_NAME[name])) for name, found in tables.items()}


def _stories(condition: Condition) -> list[str]:
    codes = {kind.code for kind in condition.kinds}
    return [one.name for one in SITUATIONS if codes & {one.expect, *one.also}]


def _place(name: str) -> tuple[int, str]:
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def _contents(groups: Sequence[Group]) -> Iterator[str]:
    """The names of a group in a row, each with a link."""
    for group in groups:
        names = ", ".join(f"[{one.name}](#{one.name})" for one in group.conditions)
        yield _wrapped(f"- {group.name}: {names}", "  ")


def _condition(name: str) -> Iterator[str]:
    page = rule_page(BY_NAME[name], RuleContext(Rulebook()))
    needs = f" {NEEDS}" if BY_NAME[name].needs is Precondition.LEASES else ""
    yield f"\n### {name}\n\n"
    yield _wrapped(f"**{page.title}.** {page.why}{needs}")
    yield "\n" + _wrapped(f"What to do: {page.advice}")
    facts = [*_levels(page), *_facts(page), *_figures(page.figures)]
    yield "\n" + "".join(_wrapped(f"- {fact}", "  ") for fact in facts)


def _levels(page: RulePage) -> Iterator[str]:
    for rung in page.levels:
        held = "" if rung.for_seconds <= 0 else f", for {span(rung.for_seconds)}"
        clear = "" if rung.clear_seconds <= 0 else f", for {span(rung.clear_seconds)}"
        sent = "" if rung.notify else " (not sent)"
        ends = f"Ends: {rung.clear_condition}{clear}."
        yield f"**{rung.level}**{sent}: {rung.condition}{held}. {ends}"


def _facts(page: RulePage) -> Iterator[str]:
    """What the surfaces say about it."""
    if page.label:
        yield f"On its lamp: {page.label}."
    behind = [f"[{name}](#{name})" for name in BY_NAME[page.name].behind]
    if behind:
        sent = "Not sent, and left out of `andon why`," if page.level else "Left out of `andon why`"
        yield f"{sent} while it is explained by {' or '.join(behind)}."
    said = [f"`{one.code}` ({one.means})" for one in page.reasons]
    if said:
        yield f"`andon why`: {', '.join(said)}."


def _figures(figures: Sequence[FigureRow]) -> Iterator[str]:
    if figures:
        said = [f"`{one.setting}` = {_value(one)} ({_meaning(one)})" for one in figures]
        yield f"Thresholds: {'; '.join(said)}."


def _meaning(figure: FigureRow) -> str:
    return f'{figure.help}; "off" turns the condition off' if figure.can_be_off else figure.help


def _value(figure: FigureRow) -> str:
    if figure.unit == "seconds":
        return human_seconds(figure.default).replace(" h 0 min", " h")
    if figure.unit == "bytes":
        return human_bytes(figure.default)
    return f"{figure.default:g} {SYMBOLS.get(figure.unit, figure.unit)}".rstrip()


def _wrapped(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"
