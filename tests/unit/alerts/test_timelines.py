"""What people should experience, as tables that were written before the state machine."""

import os

import pytest
from _pytest.mark import ParameterSet

from tests.timelines.grammar import Timeline, timelines
from tests.timelines.playing import Player, looks_at_most

ALL = timelines()
LONG_LOOKS = 250
HURRY = os.environ.get("ANDON_EVERY_LOOK") != "1"  # without it, looks far from any row are left out


def _marked(timeline: Timeline) -> ParameterSet:
    """Days and hours take their time, and are not for `make unit`."""
    is_long = looks_at_most(timeline) > LONG_LOOKS
    return pytest.param(timeline, marks=pytest.mark.slow if is_long else (), id=timeline.name)


@pytest.mark.parametrize("timeline", [_marked(one) for one in ALL])
def test_it_goes_as_the_timeline_says(timeline: Timeline) -> None:
    Player(timeline, hurry=HURRY).play()


def test_there_are_enough_of_them_and_each_says_why() -> None:
    assert len(ALL) >= 60
    assert [one.name for one in ALL if not one.because] == []
