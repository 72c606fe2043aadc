"""The energy of a benchmark: that of its load alone, however short it is."""

from typing import Any, cast

import pytest

from andon.api.benchmark import DevicesUnderTest, _used
from andon.api.run import RecordedRun
from andon.runs.rules.summary import RunTallies
from tests.support.run_parts import BEGAN, device, sample

WATTS = 102.0


class Record:
    """The record of a load whose client takes 0.6 s to start; the last reading is late, too."""

    def __init__(self, counter: bool) -> None:
        self.tallies, self.counter = RunTallies([device()], BEGAN), counter
        self.read(0.0)
        self.read(0.5)

    def read(self, at: float) -> None:
        joules = 1000.0 + WATTS * at if self.counter else None
        self.tallies.add(sample(at, {"power_watts": WATTS, "energy_joules": joules}))

    def used(self, lasted_seconds: float | None = None) -> dict[str, dict[str, Any]]:
        if lasted_seconds is None:  # as the load begins
            return self.tallies.summary(lasted_seconds=0.6)
        self.read(1.2)
        self.read(1.6)
        return self.tallies.summary(lasted_seconds=lasted_seconds)


@pytest.mark.parametrize("counter", [True, False])
def test_what_is_used_before_and_after_the_load_is_not_of_it(counter: bool) -> None:
    record = Record(counter)
    first = record.used()
    found = _used(cast("RecordedRun", record), DevicesUnderTest(("GPU-0",)), 0.84, first)
    assert found["GPU-0"]["energy_joules"] == pytest.approx(0.84 * WATTS, rel=0.01)


def test_of_a_tool_that_does_not_say_when_its_load_begins_nothing_is_known() -> None:
    record = cast("RecordedRun", Record(True))
    assert _used(record, DevicesUnderTest(("GPU-0",)), 0.84, {}) == {}
