"""One vocabulary says it alike everywhere."""

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import board
from andon.alerts.rules.listing import counts, entries, worst
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.cli.show.probe import RESULTS
from andon.cli.show.runs.listing import STATE_WORDS
from andon.explain.conditions.finding import HOLDS, Finding
from andon.explain.conditions.heat.limits import HeatThrottling
from andon.explain.conditions.heat.thermal import describe
from andon.explain.conditions.rulebook import BY_NAME, Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.why import explain
from andon.model.alert import Acknowledgement
from andon.model.device import Snapshot
from andon.model.probe import TrialState
from andon.model.run.record import RunState
from tests.support.generated_nodes import nodes
from tests.support.notices import AT, HOT
from tests.support.views import facts


def test_one_alert_has_one_name() -> None:
    said = {
        describe(facts(Finding((HOLDS, HOLDS), 91, 80.0, 89, slowed))).text.text.partition(":")[0]
        for slowed in HeatThrottling
    }
    assert said == {"GPU 0 is too hot"}


def test_a_lack_of_gpu_memory_has_one_name() -> None:
    run = STATE_WORDS[RunState.DEVICE_OUT_OF_MEMORY]
    assert RESULTS[TrialState.DEVICE_OUT_OF_MEMORY][0] == run


def test_the_worst_level_is_one_that_is_counted() -> None:
    seen = replace(HOT, acknowledged=Acknowledgement(by="root", at=AT))
    critical = counts(entries([seen]))[0]
    assert (worst([seen]) == "critical") == bool(critical)


@pytest.mark.slow
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
        mine = [found[kind.code] for kind in rule.kinds if kind.code in found]
        texts = {reason.sentence.removesuffix(".") for reason in mine}
        assert not texts or alert.message.removesuffix(".") in texts, (alert.message, texts)
        if lit[alert.subject].rule == alert.rule:
            assert lit[alert.subject].reason == alert.message
