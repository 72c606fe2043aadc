"""One vocabulary says it alike everywhere."""

from msgspec.structs import replace

from andon.alerts.rules.listing import counts, entries, worst
from andon.cli.show.probe import RESULTS
from andon.cli.show.runs.listing import STATE_WORDS
from andon.explain.conditions.finding import HOLDS, Finding
from andon.explain.conditions.heat.limits import HeatThrottling
from andon.explain.conditions.heat.thermal import describe
from andon.model.alert import Acknowledgement
from andon.model.probe import TrialState
from andon.model.run.record import RunState
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
