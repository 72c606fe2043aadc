"""The first look loads every condition whose judge finds what lights a lamp."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import fields

from andon.explain.conditions.catalogue import CONDITIONS, FIGURES, RULES
from andon.explain.conditions.condition import Condition
from andon.explain.conditions.finding import EVENT, HOLDS, Finding
from andon.explain.conditions.index import POSSIBLE
from andon.explain.conditions.judging import OnEvents, OnReading, OnState, found_on
from andon.explain.conditions.rulebook import DEFAULTS, SIGNS, may_light
from andon.explain.evidence.track import updated_track
from andon.explain.evidence.view import View, is_divided
from andon.model.alert import Level
from andon.model.device import Device, DeviceStatus, Limits, Sample, Snapshot, State
from andon.model.thresholds import Thresholds
from andon.model.throttling import REASONS
from tests.situations.table import SITUATIONS
from tests.support.generated_nodes import nodes

OF_DEVICE = tuple(r for r in RULES if isinstance(r.judged, OnReading | OnState | OnEvents))
FIGURE_VALUES = st.fixed_dictionaries(
    {}, optional={one.name: st.floats(one.low, one.high) for one in FIGURES.values()}
)


def lights(condition: Condition, finding: Finding) -> bool:
    pairs = zip(condition.rungs, finding.rungs, strict=True)
    return any(
        state in (HOLDS, EVENT) and (rung.lamp or rung.level is not Level.INFO)
        for rung, state in pairs
    )


def found_at_once(seen: Snapshot, status: DeviceStatus, figures: Thresholds) -> set[str]:
    """The conditions whose judge finds what lights a lamp in one look at a device."""
    track = updated_track(None, status, 0.0, None)
    divided = is_divided(seen, status.device.uuid)
    view = View(seen, status, figures, track, track.throttle, divided)
    found = ((one, found_on(one.judged, view, figures)) for one in OF_DEVICE)
    return {
        one.name for one, finding in found if finding and finding.holds and lights(one, finding)
    }


def assert_let_through(seen: Snapshot, figures: Thresholds) -> set[str]:
    found: set[str] = set()
    for status in seen.devices:
        mine = found_at_once(seen, status, figures)
        assert mine <= set(may_light(status, figures))
        found |= mine
    return found


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(nodes(), FIGURE_VALUES)
def test_what_a_judge_finds_at_once_is_let_through(
    past: list[Snapshot], figures: dict[str, float]
) -> None:
    for seen in past:
        assert_let_through(seen, DEFAULTS.changed(figures))


def test_so_it_is_in_every_situation_and_each_condition_is_found_in_one() -> None:
    found: set[str] = set()
    for situation in SITUATIONS:
        for seen in situation.snapshots:
            found |= assert_let_through(seen, DEFAULTS)
    assert found == set(POSSIBLE)


def test_what_must_be_so_names_values_that_exist() -> None:
    of_device = {*dir(DeviceStatus), *(one.name for one in fields(Sample))}
    bounds = {*FIGURES, *dir(Limits), *(reason.name for reason in REASONS)}
    for tests in POSSIBLE.values():
        for test in (one for text in tests for one in text.split(" or ")):
            name, sign, bound = test.split()
            assert name in of_device, test
            assert sign in SIGNS, test
            assert bound in bounds or float(bound) >= 0, test


def test_what_one_look_cannot_show_is_judged_by_a_trend() -> None:
    assert [one.name for one in CONDITIONS if one.possible_if is None] == ["memory_leak"]
    assert "memory_leak" not in POSSIBLE


def test_a_device_at_its_own_limit_is_let_through() -> None:
    card = Device("GPU-0", 0, "nvidia", "H200", limits=Limits(slowdown_celsius=70))
    for celsius, found in ((64, set()), (65, {"thermal"})):
        sample = Sample(1.0, temperature_celsius=celsius, throttle=())
        seen = Snapshot("n", 1.0, devices=(DeviceStatus(card, State.OK, 0.0, sample=sample),))
        assert assert_let_through(seen, DEFAULTS) == found
