"""What fails is tried again later and later; its beginning and its end are reported once."""

import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.errors import AndonError, Denied, Unavailable
from andon.failures.retrying import Clocks, Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff, Failures, doubled_seconds
from tests.support.invariants import check_failures

FULL = Unavailable("the disk is full", hint="free some space")


def test_a_wait_doubles_up_to_its_limit() -> None:
    waits = [doubled_seconds(n, 0.5, 30.0) for n in (0, 1, 2, 3, 6, 10_000)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("back_off", "waits"),
    [
        (BackOff(), [0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
        (BackOff(0.5, 30.0, at_once=0), [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]),
        (BackOff(5.0, 5.0, at_once=0), [0.0] + [5.0] * 9),
    ],
)
def test_a_back_off_may_begin_at_once_or_stay_the_same(
    back_off: BackOff, waits: list[float]
) -> None:
    assert [back_off.seconds(failures) for failures in range(10)] == waits


@given(st.integers(0, 100), st.integers(0, 5), st.floats(0.01, 10), st.floats(10, 1e6))
def test_a_back_off_never_shrinks_and_never_exceeds_its_limit(
    failures: int, at_once: int, first: float, most: float
) -> None:
    back_off = BackOff(first, most, at_once)
    assert 0 <= back_off.seconds(failures) <= back_off.seconds(failures + 1) <= most


@given(st.lists(st.tuples(st.sampled_from(("one", "two")), st.floats(0, 1e9))))
def test_the_first_of_many_failures_is_when_it_began(many: list[tuple[str, float]]) -> None:
    found = Failures()
    for reason, at in many:
        found = found.failed(Unavailable(reason), at, at + 1e9)
        check_failures(found)
    assert found.count == len(many)
    if many:
        assert (found.first, found.since) == (many[0][1], many[0][1] + 1e9)
        assert found.trouble is not None
        assert (found.trouble.reason, found.last) == many[-1]


@dataclass
class Trial:
    """Something that can be made to fail, on a clock that stands still."""

    now: float = 100.0
    raised: Exception | None = None
    reported: list[str] = field(default_factory=list)
    busy: list[float | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.retrying = Retrying(
            self.reported.append,
            RetryTexts(
                lambda reason: f"not written: {reason}", lambda lasted: f"again after {lasted}"
            ),
            self._translated,
            clocks=Clocks(lambda: self.now, lambda: self.now + 1e9),
        )

    def _translated(self, error: Exception) -> AndonError:
        return Unavailable(f"it failed ({type(error).__name__})")

    def act(self) -> None:
        self.now += 3.0
        self.busy += [self.retrying.stuck_seconds(limit) for limit in (3.0, 3.1)]
        if self.raised is not None:
            raise self.raised

    def fails(self, error: Exception) -> AndonError | None:
        self.raised = error
        return self.retrying.attempt(self.act)

    def works(self) -> None:
        self.raised = None
        assert self.retrying.attempt(self.act) is None
        self.retrying.succeeded()


def test_its_beginning_and_its_end_are_reported_once() -> None:
    trial = Trial()
    trial.works()
    for _ in range(3):
        assert trial.fails(FULL) is FULL
    assert trial.reported == ["not written: the disk is full"]
    trial.now += 60.0
    trial.works()
    trial.works()
    assert trial.reported[1:] == ["again after 1 min 9 s"]


def test_another_reason_is_reported_and_the_trouble_has_lasted_since_the_first() -> None:
    trial = Trial()
    trial.fails(FULL)
    trial.fails(Denied("no permission"))
    found = trial.retrying.failures
    assert trial.reported == ["not written: the disk is full", "not written: no permission"]
    assert (found.since, found.count) == (1e9 + 103.0, 2)
    assert isinstance(found.trouble, Denied)
    trial.works()
    assert trial.retrying.failures == Failures()


def test_the_next_attempt_is_due_at_once_and_then_later_and_later() -> None:
    trial, waits = Trial(), list[float]()
    assert trial.retrying.due < trial.now, "nothing has failed yet"
    for _ in range(5):
        trial.fails(FULL)
        waits.append(trial.retrying.due - trial.now)
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0]
    trial.works()
    assert trial.retrying.due < trial.now


def test_an_unexpected_error_is_translated_and_counted() -> None:
    trial = Trial()
    trouble = trial.fails(ValueError("https://user:hunter2@host"))
    assert trouble is not None
    assert trouble.reason == "it failed (ValueError)"
    assert trial.retrying.trouble is trouble


def test_ctrl_c_is_not_a_failure() -> None:
    trial = Trial()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trial.retrying.attempt(interrupted)
    assert (trial.retrying.trouble, trial.retrying.stuck_seconds(0.0)) == (None, None)


def test_an_attempt_that_takes_too_long_is_known_while_it_runs() -> None:
    trial = Trial()
    trial.fails(FULL)
    trial.works()
    assert trial.busy == [3.0, None, 3.0, None]
    assert trial.retrying.stuck_seconds(0.0) is None, "between two attempts"


def test_a_pause_ends_when_it_is_stopped_and_is_none_while_it_works() -> None:
    trial, stopped = Trial(), threading.Event()
    assert trial.retrying.pause(stopped) is False, "nothing has failed: no wait"
    stopped.set()
    for _ in range(20):
        trial.fails(FULL)
    assert trial.retrying.pause(stopped) is True, "a minute, cut short"
