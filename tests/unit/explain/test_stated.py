"""The rules' texts state the thresholds in force, and the defaults exist once."""

import json
import re
from typing import Any

from msgspec.structs import replace

from andon.alerts.rules.rule_page import rule_list
from andon.explain.conditions.catalogue import (
    BY_NAME,
    DEFAULTS,
    FIGURES,
    RULES,
    RULES_OF,
)
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.judging import OnReport
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.explain.conditions.with_figures import with_figures
from andon.model.codec import document
from andon.model.thresholds import Thresholds
from tests.support.rows import rows

OF_RULE = RULES_OF | {
    "thermal_margin_celsius": "thermal",
    "thermal_notify_celsius": "thermal",
    "thermal_critical_celsius": "thermal",
    "clock_loss_default_limit_percent": "throttle_power",
    "unattributed_bytes": "unattributed_memory",
    "leak_percent": "memory_leak",
}


def texts(rule: str, figures: Thresholds) -> str:
    made = with_figures(BY_NAME[rule], figures)
    rungs = " ".join(f"{r.condition}. {r.clear_condition}. {r.for_seconds:g}" for r in made.rungs)
    return f"{made.why} {rungs}"


def test_a_threshold_of_75_leaves_no_rule_that_says_80() -> None:
    payload = document(rule_list(Rulebook(thresholds(thermal_celsius=75)), []))
    text = json.dumps(payload["rules"], ensure_ascii=False)
    assert "at 75 °C" in text
    assert "80 °C" not in text


@rows("figure", FIGURES)
def test_every_threshold_is_in_the_text_of_its_rule(figure: str) -> None:
    """Or, as a duration, it is what the rule says it waits for."""
    rule = OF_RULE[figure]
    given: dict[str, Any] = {figure: 7.0 * (1 << 30 if figure.endswith("_bytes") else 1)}
    before, after = texts(rule, DEFAULTS), texts(rule, DEFAULTS.changed(given))
    assert before != after
    assert re.search(r"\b7\b", after), after


@rows("rule", RULES, ids=lambda rule: rule.name)
def test_no_name_of_a_number_is_left_in_a_text(rule: Condition) -> None:
    assert "{" not in repr(replace(with_figures(rule, DEFAULTS), judged=OnReport()))


def test_the_levels_of_a_rule_say_how_long_they_wait_here() -> None:
    figures = thresholds(idle_seconds=42.0)
    rows = {row["name"]: row for row in document(rule_list(Rulebook(figures), []))["rules"]}
    assert rows["idle"]["for_seconds"] == rows["idle"]["levels"][0]["for_seconds"] == 42.0
