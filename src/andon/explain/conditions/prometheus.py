"""The conditions as Prometheus alerts: one for each rung that PromQL can express.

`for` is the time for which a rung must hold, `keep_firing_for` the time for which it must be clear.
The query reads `ALERTS` for the clear value: an alert continues until its value has left the band.
"""

from typing import NamedTuple

from andon.explain.conditions.condition import Condition, Rung, Subject
from andon.explain.conditions.promql import DEVICE, PromTerms, Query
from andon.model.thresholds import Thresholds


class RungQuery(NamedTuple):
    """A rung in PromQL, and the name of its alert in Prometheus."""

    alert: str
    rung: Rung
    query: str


def rung_queries(condition: Condition, figures: Thresholds, prefix: str) -> tuple[RungQuery, ...]:
    """The rungs that PromQL can express, with the figures in force and the prefix of metrics."""
    return tuple(
        _rung_query(condition, rung, query, PromTerms(prefix, figures))
        for rung, query in zip(condition.rungs, _queries(condition), strict=True)
        if query is not None
    )


def no_query_reason(condition: Condition) -> str | None:
    """Why PromQL cannot express a condition; None if it can."""
    return condition.promql if isinstance(condition.promql, str) else None


def _rung_query(condition: Condition, rung: Rung, query: Query, terms: PromTerms) -> RungQuery:
    name = "Andon" + "".join(word.capitalize() for word in condition.name.split("_"))
    if sum(one is not None for one in _queries(condition)) > 1:
        name += str(rung.level).capitalize() if rung.notify else "Shown"
    by = "instance, job" if condition.subject_kind is Subject.NODE else DEVICE
    fires = f'on ({by}) ALERTS{{alertname="{name}", alertstate="firing"}}'
    return RungQuery(name, rung, query(terms, fires))


def _queries(condition: Condition) -> tuple[Query | None, ...]:
    """Returns a query for each rung; None for one without."""
    none = (None,) * len(condition.rungs)
    return none if isinstance(condition.promql, str) else condition.promql
