"""What the graphs are drawn from: means of equal stretches, the past before the first sample."""

from msgspec.structs import replace

from andon.tui.histories import METRICS, MOST_POINTS, Histories, Point, buckets, thin
from tests.support.snapshots import AT, office

UTIL = METRICS[0]


def snapshots(count: int, values: list[int | None]) -> Histories:
    found, first = Histories(), office().devices[0]
    assert first.sample is not None
    for place in range(count):
        sample = replace(first.sample, utilization_percent=values[place % len(values)])
        one = replace(office(), at=AT + place, devices=(replace(first, sample=sample),))
        found.add(one)
    return found


def test_each_stretch_shows_its_mean() -> None:
    points = [Point(at, value) for at, value in ((0.1, 10.0), (0.9, 30.0), (1.5, 50.0))]
    assert buckets(points, 1.9, 2.0, 2, 1.0) == [20.0, 50.0]


def test_a_missing_reading_is_a_gap_and_a_late_one_is_bridged() -> None:
    late = [Point(0.5, 10.0), Point(2.5, 30.0)]
    assert buckets(late, 2.9, 3.0, 3, 1.0) == [10.0, 10.0, 30.0]
    unknown = [Point(0.5, 10.0), Point(1.5, None), Point(2.5, 30.0)]
    assert buckets(unknown, 2.9, 3.0, 3, 1.0) == [10.0, None, 30.0]
    long_ago = [Point(0.5, 10.0), Point(9.5, 30.0)]
    assert buckets(long_ago, 9.9, 10.0, 10, 1.0)[5] is None


def test_what_is_drawn_again_is_what_would_be_drawn_anew() -> None:
    """Only the newest stretch is counted again while it lasts."""
    uuid = office().devices[0].device.uuid
    step_by_step = Histories()
    for place in range(40):
        first = office().devices[0]
        assert first.sample is not None
        sample = replace(first.sample, utilization_percent=place)
        devices = (replace(first, sample=sample),)
        step_by_step.add(replace(office(), at=AT + place, devices=devices))
        drawn = step_by_step.values(uuid, UTIL, AT + place, 20.0, 7)
    anew = snapshots(40, list(range(40)))
    assert drawn == anew.values(uuid, UTIL, AT + 39, 20.0, 7)


def test_the_past_ends_where_the_first_sample_begins() -> None:
    uuid = office().devices[0].device.uuid
    found = snapshots(3, [90])
    found.add_past(uuid, UTIL, [Point(AT - 2, 10.0), Point(AT - 1, 20.0), Point(AT + 1, 0.0)])
    assert found.values(uuid, UTIL, AT + 2, 5.0, 5) == [10.0, 20.0, 90.0, 90.0, 90.0]


def test_a_device_that_does_not_answer_has_no_reading() -> None:
    lost = next(s for s in office().devices if not s.answered)
    found = Histories()
    found.add(office())
    assert found.values(lost.device.uuid, UTIL, office().at, 5.0, 5) == [None] * 5


def test_a_replay_that_steps_back_forgets_what_came_later() -> None:
    uuid = office().devices[0].device.uuid
    found = snapshots(10, [50])
    first = replace(office(), at=AT + 4, devices=(office().devices[0],))
    found.add(first)
    assert found.values(uuid, UTIL, AT + 9, 5.0, 5)[1:] != [50.0] * 4


def test_old_readings_are_thinned_out_and_none_is_lost() -> None:
    from collections import deque

    points = deque(Point(float(at), float(at)) for at in range(MOST_POINTS + 1))
    thin(points)
    assert len(points) == MOST_POINTS + 1 - MOST_POINTS // 4
    assert sum(point.seconds for point in points) == MOST_POINTS + 1
    assert [point.at for point in points] == sorted(point.at for point in points)


def test_the_memory_of_a_process_is_kept_by_pid_and_start() -> None:
    found = Histories()
    found.add(office())
    process = office().devices[0].processes[0]
    values = found.process_memory(process.pid, process.started, office().at, 5.0, 5)
    assert values[-1] == process.memory_bytes
    assert found.process_memory(process.pid, 1.0, office().at, 5.0, 5) == [None] * 5
