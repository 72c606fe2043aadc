"""One condition on one page: thresholds in force and where they are set, reasons, queries."""

import json

import pytest
from msgspec.structs import replace

from andon.alerts.rules.rule_page import (
    NEVER_AN_ALERT,
    RuleContext,
    RuleList,
    RulePage,
    rule_list,
    rule_page,
)
from andon.errors import Gone, Invalid
from andon.explain.conditions.catalogue import BY_NAME, CONDITIONS, condition_named
from andon.explain.conditions.condition import SERVED
from andon.explain.conditions.rulebook import Override, Rulebook, thresholds
from andon.model.codec import document, read_document
from andon.model.wire import Json
from tests.support.rows import rows
from tests.support.snapshots import farm

DEVICES = farm().devices[:3]


def page(name: str, book: Rulebook | None = None, prefix: str = "andon") -> Json:
    context = RuleContext(book or Rulebook(), DEVICES, SERVED, prefix)
    return document(rule_page(BY_NAME[name], context))


def test_a_figure_says_its_value_its_default_and_the_setting_that_changes_it() -> None:
    shown = page("thermal", Rulebook(thresholds(thermal_celsius=75)))
    first, *others = shown["figures"]
    assert (first["setting"], first["variable"], first["value"], first["default"]) == (
        "alerts.thermal_celsius", "ANDON_ALERTS_THERMAL_CELSIUS", 75, 80,
    )  # fmt: skip
    assert (first["unit"], first["can_be_off"]) == ("celsius", True)
    assert [one["value"] for one in others] == [one["default"] for one in others]
    assert "at 75 °C" in shown["levels"][0]["condition"]


def test_a_figure_of_a_rule_that_is_off_has_no_value_and_the_page_says_why() -> None:
    shown = page("fan", Rulebook(thresholds(off=frozenset({"fan"}))))
    assert shown["figures"][0]["value"] is None
    assert (shown["active"], shown["inactive_reason"]) == (False, "disabled in the settings")


def test_a_figure_of_another_condition_that_a_text_names_is_shown_too() -> None:
    memory = BY_NAME["memory"]
    borrowing = replace(memory, why="Full, and hotter than {thermal_celsius} °C.")
    here = RuleContext(Rulebook(thresholds(off=frozenset({"thermal"}))), DEVICES)
    figures = document(rule_page(borrowing, here))["figures"]
    assert [(one["name"], one["value"]) for one in figures] == [
        ("memory_percent", 90.0), ("thermal_celsius", None),
    ]  # fmt: skip


def test_overrides_name_the_device_the_figure_and_the_table_and_off_stays_off() -> None:
    book = Rulebook(
        overrides=[
            Override(device=1, figures={"thermal_celsius": 70.0, "memory_percent": 50.0}),
            Override(device=2, off=frozenset({"thermal"})),
            Override(device=2, figures={"thermal_celsius": 60.0}),
            Override(model=DEVICES[0].device.name, figures={"thermal_margin_celsius": 3.0}),
            Override(device=2, off=frozenset({"ecc"})),
        ]
    )
    rows = page("thermal", book)["overrides"]
    found = {(one["label"], one["figure"]): (one["value"], one["place"]) for one in rows}
    assert found["1", "thermal_celsius"] == (70.0, "[[alerts.override]] device = 1")
    assert found["2", "thermal_celsius"] == (None, "[[alerts.override]] device = 2")
    model = f'[[alerts.override]] model = "{DEVICES[0].device.name}"'
    assert found["0", "thermal_margin_celsius"] == (3.0, model)
    assert ("1", "memory_percent") not in found
    assert [(one["label"], one["figure"]) for one in page("ecc", book)["overrides"]] == [
        ("2", "ecc")
    ]


def test_the_queries_have_the_thresholds_in_force_and_the_prefix_of_the_metrics() -> None:
    shown = page("memory", Rulebook(thresholds(memory_percent=75)), prefix="lab")
    (query,) = shown["queries"]
    assert (query["alert"], query["level"]) == ("AndonMemory", "info")
    assert "lab_gpu_memory_used_bytes" in query["query"]
    assert "74.95" in query["query"]
    assert shown["no_query_reason"] is None
    assert page("xid")["queries"] == []
    assert "not a metric" in page("xid")["no_query_reason"]


def test_a_condition_that_only_why_mentions_has_a_page_too() -> None:
    shown = page("memory_heat")
    assert (shown["level"], shown["active"], shown["inactive_reason"]) == (
        None, False, NEVER_AN_ALERT,
    )  # fmt: skip
    assert shown["reasons"] == [
        {"code": "memory_heat", "means": "the memory is hot", "problem": True}
    ]
    assert shown["no_query_reason"] is None
    assert page("memory")["reasons"][0]["problem"] is False


def test_an_unknown_name_is_refused_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(Gone) as refused:
        condition_named("termal")
    assert refused.value.hint == "did you mean thermal?"
    with pytest.raises(Gone) as refused:
        condition_named("zzz")
    assert refused.value.hint == "to list them: andon alerts rules --all"


@rows("condition", CONDITIONS, ids=lambda one: one.name)
def test_a_server_s_page_is_read_as_it_was_written(condition: object) -> None:
    book = Rulebook(overrides=[Override(device=1, figures={"thermal_celsius": 70.0})])
    made = document(rule_page(condition, RuleContext(book, DEVICES)))  # type: ignore[arg-type]
    sent = json.loads(json.dumps(made))
    assert document(read_document(RulePage, sent)) == sent


def test_a_server_s_list_is_read_as_it_was_written_and_a_broken_page_is_refused() -> None:
    sent = json.loads(json.dumps(document(rule_list(Rulebook(), DEVICES))))
    assert document(read_document(RuleList, sent)) == sent
    broken = page("thermal") | {"behind": "thermal"}
    with pytest.raises(Invalid, match="behind"):
        read_document(RulePage, broken)
