"""The conditions as Prometheus alerts: one for each rung that PromQL can express.

`for` is the time for which a rung must hold, `keep_firing_for` the time for which it must be clear.
The query reads `ALERTS` for the clear value: an alert continues until its value has left the band.
"""

import re
from dataclasses import dataclass

from andon.core.conditions.catalogue import DEFAULTS, RULES
from andon.core.conditions.condition import Condition, Rung, Subject
from andon.core.conditions.promql import DEVICE, PromTerms, Query
from andon.core.conditions.stated import stated
from andon.exporter.catalogue import ALL

NAMES = frozenset(row.name for row in ALL)
GPU = "GPU {{ $labels.device }} on {{ $labels.instance }}"
NODE = "{{ $labels.instance }}"


@dataclass(frozen=True, slots=True)
class Alert:
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


def unsaid(rule: Condition) -> str | None:
    """Why a condition is not in the file; None where it is."""
    return rule.promql if isinstance(rule.promql, str) else None


def alerts(prefix: str = "andon") -> tuple[Alert, ...]:
    """The rungs of the catalogue, in its order."""
    return tuple(
        _alert(rule, rung, query, prefix)
        for rule in (stated(one, DEFAULTS) for one in RULES)
        for rung, query in zip(rule.rungs, queries(rule), strict=True)
        if query is not None
    )


def queries(rule: Condition) -> tuple[Query | None, ...]:
    """A query for each rung, None where there is none."""
    return (None,) * len(rule.rungs) if isinstance(rule.promql, str) else rule.promql


def _alert(rule: Condition, rung: Rung, query: Query, prefix: str) -> Alert:
    name = "Andon" + "".join(word.capitalize() for word in rule.name.split("_"))
    if sum(one is not None for one in queries(rule)) > 1:
        name += str(rung.level).capitalize() if rung.notify else "Shown"
    on_node = rule.subject_kind is Subject.NODE
    by = "instance, job" if on_node else DEVICE
    fires = f'on ({by}) ALERTS{{alertname="{name}", alertstate="firing"}}'
    return Alert(
        name,
        checked(query(PromTerms(prefix, DEFAULTS), fires), prefix),
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
