"""What people should experience, as tables that were written before the state machine."""

import os

import pytest

from tests.timelines.grammar import Timeline, timelines
from tests.timelines.playing import Player

ALL = timelines()
HURRY = os.environ.get("ANDON_EVERY_LOOK") != "1"  # without it, looks far from any row are left out


@pytest.mark.parametrize("timeline", ALL, ids=lambda timeline: timeline.name)
def test_it_goes_as_the_timeline_says(timeline: Timeline) -> None:
    Player(timeline, hurry=HURRY).play()


def test_there_are_enough_of_them_and_each_says_why() -> None:
    assert len(ALL) >= 60
    assert [one.name for one in ALL if not one.because] == []
