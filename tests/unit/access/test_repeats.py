"""What happens again and again is told once a minute, with a count."""

from andon.failures.rules.repeats import RepeatLimiter


def test_the_first_of_a_kind_is_told_and_the_next_after_a_minute_with_a_count() -> None:
    seldom = RepeatLimiter(60.0)
    told = [seldom.happened("a", now) for now in (0.0, 1.0, 59.9, 60.0, 61.0)]
    assert told == [1, None, None, 3, None]
    assert seldom.happened("b", 1.0) == 1


def test_what_was_held_back_is_told_when_its_minute_is_over() -> None:
    seldom = RepeatLimiter(60.0)
    for now in (0.0, 1.0, 2.0):
        seldom.happened("a", now)
    seldom.happened("b", 0.0)
    assert seldom.due(59.0) == []
    assert seldom.due(60.0) == [("a", 2)]
    assert seldom.due(61.0) == []
    assert seldom.happened("a", 62.0) is None


def test_kinds_are_bounded() -> None:
    seldom = RepeatLimiter(60.0, most_kinds=3)
    for number in range(10):
        assert seldom.happened(number, 0.0) == 1
    assert seldom.happened(9, 1.0) is None
    assert seldom.happened(0, 1.0) == 1
