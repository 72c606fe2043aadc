"""The alerts of the file for Prometheus: their names, queries and texts."""

import re

from msgspec import Struct

from andon.explain.conditions.catalogue import DEFAULTS, RULES
from andon.explain.conditions.condition import Condition, Subject
from andon.explain.conditions.prometheus import RungQuery, rung_queries
from andon.explain.conditions.with_figures import with_figures
from andon.exporter.catalogue import ALL

NAMES = frozenset(row.name for row in ALL)
GPU = "GPU {{ $labels.device }} on {{ $labels.instance }}"
NODE = "{{ $labels.instance }}"


class Alert(Struct, frozen=True):
    """A condition, how long it must hold, and what a person should know and do."""

    name: str
    query: str
    held: str
    severity: str
    summary: str
    action: str
    rule: str = ""
    level: str = ""
    kept: str = ""


DIFFERENCES = (
    "Prometheus counts all time between two scrapes; andon counts at most half a minute of it",
    "a series that ends resolves its alert; in andon missing data is not recovery",
    "alerts do not inhibit each other: use inhibit_rules of Alertmanager",
    "a flapping alert does not clear more slowly",
    "if all devices of a vendor hang, there is an alert for each device; andon raises one",
)


def alerts(prefix: str = "andon") -> tuple[Alert, ...]:
    """The rungs of the catalogue, in its order."""
    return tuple(
        _alert(rule, found, prefix)
        for rule in (with_figures(one, DEFAULTS) for one in RULES)
        for found in rung_queries(rule, DEFAULTS, prefix)
    )


def _alert(rule: Condition, found: RungQuery, prefix: str) -> Alert:
    rung, on_node = found.rung, rule.subject_kind is Subject.NODE
    return Alert(
        found.alert,
        checked(found.query, prefix),
        seconds(rung.for_seconds),
        str(rung.level) if rung.notify else "info",
        f"{NODE if on_node else GPU}: {_inside(rule.title)} ({rung.condition})",
        rule.advice,
        rule.name,
        str(rung.level),
        "" if rule.momentary else seconds(rung.clear_seconds),
    )


def _inside(title: str) -> str:
    """A title within a sentence: `slow PCIe link`, `ECC off`."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def checked(query: str, prefix: str) -> str:
    """The query; a misspelt metric raises KeyError."""
    for name in re.findall(rf"\b{prefix}_(\w+)", query):
        if name not in NAMES:
            raise KeyError(name)
    return query


def seconds(value: float) -> str:
    return f"{value:g}s"
