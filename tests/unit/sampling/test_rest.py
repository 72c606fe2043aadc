"""When a card is left alone so that it can sleep."""

from andon.drivers.shared.rules.rest import LONGEST_SECONDS, RestState


def idle_until(rest: RestState, now: float) -> None:
    rest.saw(False, 0.0)
    assert rest.idle_long_enough(now)
    rest.release(now)


def test_a_card_is_tired_after_ten_idle_seconds() -> None:
    rest = RestState()
    rest.saw(False, 0.0)
    rest.saw(False, 9.0)
    assert not rest.idle_long_enough(9.0)
    assert rest.idle_long_enough(10.0)


def test_work_makes_it_count_anew() -> None:
    rest = RestState()
    rest.saw(False, 0.0)
    rest.saw(True, 5.0)
    rest.saw(False, 6.0)
    assert not rest.idle_long_enough(12.0)


def test_one_that_slept_and_woke_is_read_at_once() -> None:
    rest = RestState()
    idle_until(rest, 10.0)
    assert rest.leave_alone(True, 15.0)
    assert not rest.leave_alone(False, 16.0)


def test_one_that_cannot_sleep_is_looked_at_again_each_time_later() -> None:
    rest = RestState()
    idle_until(rest, 10.0)
    assert rest.leave_alone(False, 69.0)
    assert not rest.leave_alone(False, 70.0)
    rest.saw(False, 70.0)
    rest.release(80.0)
    assert rest.leave_alone(False, 199.0)
    assert not rest.leave_alone(False, 200.0)


def test_patience_has_an_end() -> None:
    rest = RestState(tries=50)
    rest.release(0.0)
    assert rest.leave_alone(False, LONGEST_SECONDS - 1)
    assert not rest.leave_alone(False, LONGEST_SECONDS)


def test_a_card_that_was_asleep_from_the_start_is_left_alone() -> None:
    rest = RestState()
    assert rest.leave_alone(True, 0.0)
    assert not rest.leave_alone(False, 1.0)
