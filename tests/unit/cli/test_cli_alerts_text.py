"""How alerts look: at 80 and 200 columns, in colour, on a narrow screen, and when all is well."""

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.rule_page import RuleContext, rule_list, rule_page
from andon.cli.show.alert_rules import render_rule, render_rules
from andon.cli.show.alerts import (
    FINE,
    names_of,
    render_alert,
    render_alerts,
    render_change,
    short_name,
)
from andon.cli.show.text import display_width, painted
from andon.explain.conditions.catalogue import BY_NAME, CONDITIONS
from andon.explain.conditions.condition import SERVED
from andon.explain.conditions.rulebook import Override, Rulebook, thresholds
from andon.model.alert import Level, Phase
from andon.model.codec import document
from andon.model.wire import Json
from tests.support import alert_pages
from tests.support.snapshots import AT, assert_golden, farm


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_golden_alerts_look_as_drawn(width: int) -> None:
    assert_golden(f"alerts-{width}.txt", painted(render_alerts(alert_pages.busy(), width)))


def test_golden_alerts_in_colour_look_as_drawn() -> None:
    assert_golden("alerts-color.txt", painted(render_alerts(alert_pages.busy(), 100), color=True))


def test_when_all_is_well_one_line_says_so() -> None:
    text = painted(render_alerts(alert_pages.quiet(), 80))
    assert_golden("alerts-quiet.txt", text)
    assert FINE in text
    assert "SIMULATED" in text


@pytest.mark.parametrize("width", [80, 200])
def test_golden_details_look_as_drawn(width: int) -> None:
    text = painted(render_alert(alert_pages.hot(), width, AT))
    assert_golden(
        f"alert-{width}.txt",
        text + "\n" + painted(render_alert(alert_pages.lost(), width, AT)),
    )


@given(st.integers(20, 220))
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    page = alert_pages.busy()
    lines = painted(render_alerts(page, width)).splitlines()
    for alert in page.alerts:
        lines += painted(render_alert(alert, max(30, width), AT)).splitlines()
    assert max(display_width(line) for line in lines) <= max(30, width)


def test_the_worst_stands_first_and_information_is_one_line() -> None:
    text = painted(render_alerts(replace(alert_pages.busy(), everything=True), 80))
    form = r"^(?:  |[i◎○] )(store|\w+@\d(?:–\d, \d, \d)?) +(?:·|for|pend|ended)"
    names = re.findall(form, text, re.MULTILINE)
    assert names == [
        "xid@3", "store", "thermal@2", "throttle_power@1",
        "memory@0", "high_usage@0–2, 4, 7", "fan@5", "driver_hung@4",
    ]  # fmt: skip
    assert "  related     Thermally throttled (throttle_thermal@2)\n" in text


def test_being_in_use_is_listed_only_on_request() -> None:
    page = alert_pages.busy()
    assert "high_usage" not in painted(render_alerts(page, 80))
    assert "In use: 5 devices" in painted(render_alerts(replace(page, everything=True), 80))
    used = AlertOverview("n", AT, tuple(a for a in page.alerts if a.rule == "high_usage"))
    assert used.worst is None
    assert FINE in painted(render_alerts(used, 80))


def test_a_pending_one_says_when_it_fires_and_a_recovered_one_when_it_clears() -> None:
    page = alert_pages.busy()
    assert "pending, alert in 40 s" in painted(render_alerts(page, 200))
    cooling = replace(alert_pages.hot(), clears_in_seconds=80.0)
    text = painted(render_alerts(replace(page, alerts=(cooling,)), 80))
    assert "thermal@2 · for 12 min · clears in 1 min" in text


def test_errors_from_before_andon_came_are_a_warning_to_people() -> None:
    """Board amber, `andon alerts` green: the person saw a GPU that is fine and cannot be had."""
    old = alert_pages.alert("ecc", 4, Level.INFO, "GPU 4 has 2 uncorrectable memory errors")
    text = painted(render_alerts(AlertOverview("n", AT, (old,)), 80))
    assert "1 warning\n" in text
    assert "▲ GPU 4 has 2" in text


def test_information_alone_needs_no_help() -> None:
    page = alert_pages.busy()
    told = [a for a in page.alerts if a.rule == "memory"]
    text = painted(render_alerts(AlertOverview("n", AT, tuple(told)), 80))
    assert FINE in text
    assert "1 informational" in text


def test_a_name_belongs_to_the_present_before_the_past() -> None:
    now = alert_pages.hot()
    before = replace(
        now, id=now.id + "0", state=Phase.RESOLVED, since=AT - 9000, resolved=AT - 8000
    )
    assert names_of([before, now])[now.id] == "thermal@2"
    part = replace(now, where="GPU 2:1 (NVIDIA H200 MIG 1g.18gb)")
    assert short_name(part) == "thermal@2:1"
    phone = replace(now, rule="notifier", subject="notifier:phone", device=None, where="phone")
    assert short_name(phone) == "notifier@phone"
    node = replace(now, rule="node_memory", subject="node", device=None, where="this node")
    assert short_name(node) == "node_memory"


def test_golden_changes_look_as_drawn() -> None:
    page = alert_pages.busy()
    names = names_of(page.alerts)
    lines = [painted(render_change(a, names[a.id], 80, AT + n)) for n, a in enumerate(page.alerts)]
    assert_golden("alerts-follow.txt", "".join(lines))


def _here() -> RuleContext:
    cool = Override(device=1, figures={"thermal_celsius": 70.0}, off=frozenset({"memory"}))
    edge = Override(model="H200", figures={"thermal_margin_celsius": 3.0})
    figures = thresholds(off=frozenset({"fan"}), memory_percent=85.0)
    return RuleContext(Rulebook(figures, [cool, edge]), farm().devices[:3], SERVED, "lab")


def _rules() -> Json:
    return document(rule_list(*_here()[:3]))


@pytest.mark.parametrize("width", [80, 200])
def test_golden_rules_look_as_drawn(width: int) -> None:
    text = painted(render_rules(_rules(), width))
    names = ("thermal", "memory", "idle", "fan", "idle_memory")
    pages = [document(rule_page(BY_NAME[name], _here())) for name in names]
    details = [painted(render_rule(page, width)) for page in pages]
    assert_golden(f"alert-rules-{width}.txt", "\n".join([text, *details]))


def test_what_only_why_mentions_is_listed_on_request() -> None:
    text = painted(render_rules(_rules(), 80))
    assert "more that only andon why mentions: andon alerts rules --all" in text
    assert "Hot memory" not in text
    text = painted(render_rules(_rules(), 80, everything=True))
    assert "more that only" not in text
    assert "○ memory_heat          Hot memory" in text


@pytest.mark.slow
@given(st.integers(40, 220))
def test_no_rule_is_wider_than_the_screen(width: int) -> None:
    rules, pages = _rules(), [document(rule_page(one, _here())) for one in CONDITIONS]
    lines = painted(render_rules(rules, width, everything=True)).splitlines()
    lines += [line for page in pages for line in painted(render_rule(page, width)).splitlines()]
    assert max(display_width(line) for line in lines) <= width
