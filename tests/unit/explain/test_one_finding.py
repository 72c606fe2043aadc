"""One vocabulary says it alike everywhere."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import board
from andon.alerts.rules.listing import counts, entries, worst
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.cli.show.probe import RESULTS
from andon.cli.show.runs.listing import STATE_TEXTS
from andon.explain.conditions.finding import HOLDS, Finding
from andon.explain.conditions.heat.limits import HeatThrottling
from andon.explain.conditions.heat.thermal import describe
from andon.explain.conditions.rulebook import BY_NAME, Rulebook, thresholds
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.why import explain
from andon.model.alert import Acknowledgement
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.probe import TrialState
from andon.model.run.record import RunState
from andon.model.thresholds import Thresholds
from andon.units import GIB
from tests.support.generated_nodes import nodes
from tests.support.notices import AT, HOT
from tests.support.snapshots import h200
from tests.support.views import facts


def test_one_alert_has_one_name() -> None:
    said = {
        describe(facts(Finding((HOLDS, HOLDS), 91, 80.0, 89, slowed))).text.text.partition(":")[0]
        for slowed in HeatThrottling
    }
    assert said == {"GPU 0 is too hot"}


def test_a_lack_of_gpu_memory_has_one_name() -> None:
    run = STATE_TEXTS[RunState.DEVICE_OUT_OF_MEMORY]
    assert RESULTS[TrialState.DEVICE_OUT_OF_MEMORY][0] == run


def test_the_worst_level_is_one_that_is_counted() -> None:
    seen = replace(HOT, acknowledged=Acknowledgement(by="root", at=AT))
    critical = counts(entries([seen]))[0]
    assert (worst([seen]) == "critical") == bool(critical)


def _stable(text: str) -> str:
    """The text without the share of the last hour: a server has another past than `why`."""
    return re.sub(r", \d+ % of the last .*", "", text.removesuffix("."))


@pytest.mark.slow
@pytest.mark.timeout(1200)  # of `make long`, which tries many more nodes
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes())
def test_lamp_alert_and_why_agree(past: list[Snapshot]) -> None:
    """Whatever is alerted on is what `why` finds, in the same words, and what lights the lamp."""
    book, state = Rulebook(), EMPTY
    for one in past:
        moment = Moment(one.at, one.at - past[0].at)
        state = step(state, Observation(one, one.events), moment, book).state
    latest, alerts = past[-1], current(state)
    lit = {lamp.uuid: lamp for lamp in board(latest, alerts).devices}
    for alert in alerts:
        finding = state.findings.get(alert.subject, {}).get(alert.rule)
        rule = BY_NAME[alert.rule]
        if finding is None or not finding.holds or not rule.kinds or alert.subject not in lit:
            continue
        reasons = explain(past, alert.subject, book, lamp=lit[alert.subject])
        explained = {kind for name in (rule.name, *rule.behind) for kind in BY_NAME[name].kinds}
        found = {reason.code: reason for reason in reasons}
        assert found.keys() & {kind.code for kind in explained}, (alert.rule, list(found))
        others = state.findings[alert.subject]
        if any(name in others and others[name].holds for name in rule.behind):
            continue  # the one in front says it, in its own words
        mine = [found[kind.code] for kind in rule.kinds if kind.code in found]
        texts, message = {_stable(one.sentence) for one in mine}, _stable(alert.message)
        if rule.momentary:  # its alert counts what is new since the last event, not since the first
            texts, message = {text.partition(" (")[0] for text in texts}, message.partition(" (")[0]
        assert not texts or message in texts, (message, texts)
        if lit[alert.subject].rule == alert.rule:
            assert lit[alert.subject].reason == alert.message


# What a reader found: a finding without data, and what hides what.


def told(status: DeviceStatus, figures: Thresholds | None = None) -> dict[str, str]:
    """The reasons by their code."""
    seen = Snapshot("n", AT, devices=(status,))
    return {
        one.code: one.sentence for one in explain([seen], status.device.uuid, Rulebook(figures))
    }


def test_what_cannot_be_judged_neither_fires_nor_recovers() -> None:
    state, book = EMPTY, Rulebook()
    for look in range(40):
        watts = 686.0 if look == 0 else None
        status = h200(
            0, 0.0, power_watts=watts, power_limit_watts=700.0, throttle=("sw_power_cap",)
        )
        one = Snapshot("n", AT + 5 * look, devices=(status,))
        state = step(state, Observation(one), Moment(one.at, 5.0 * look), book).state
    assert [one for one in current(state) if one.rule == "power" and one.state == "firing"] == []


def test_a_link_is_short_of_lanes_whatever_its_generation() -> None:
    status = h200(0, 0.0, utilization_percent=97, pcie_width=1, pcie_generation=None)
    limits = replace(status.device.limits, pcie_width=16, pcie_generation=None)
    found = told(replace(status, device=replace(status.device, limits=limits)))
    assert found["narrow_link"].startswith("The PCIe link of GPU 0 has 1 of 16 lanes under load")


def test_hot_memory_is_named_under_a_warm_chip_too() -> None:
    status = h200(
        0, 0.0, temperature_celsius=85, memory_temperature_celsius=106,
        throttle=("sw_thermal_slowdown",),
    )  # fmt: skip
    limits = replace(status.device.limits, slowdown_celsius=105)
    found = told(replace(status, device=replace(status.device, limits=limits)))
    assert "thermally throttled by its memory (106 °C)" in found["memory_heat"]


def test_what_is_off_is_not_told() -> None:
    warm = h200(0, 0.0, temperature_celsius=86)
    assert "hot" in told(warm)
    assert "hot" not in told(warm, thresholds(off=frozenset({"thermal"})))


def test_a_little_unattributed_memory_does_not_hide_that_it_is_full() -> None:
    train = Process(7, user="alice", name="python", memory_bytes=132 * GIB)
    status = h200(0, 0.0, memory_used_bytes=136 * GIB, utilization_percent=97)
    found = told(replace(status, processes=(train,)))
    assert {"memory_full", "unattributed_memory"} <= found.keys()
