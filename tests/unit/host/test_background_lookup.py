"""Questions are answered aside: who asks goes on, and a stuck answer costs nobody else one."""

import threading
from collections.abc import Iterator

import pytest

from andon.host.background_lookup import BackgroundLookup, LookupResult

PATIENCE_SECONDS = 60.0


class Oracle:
    """Answers with the square, except where it is stuck until it is freed."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.go, self.stuck = threading.Event(), threading.Event()

    def __call__(self, question: int) -> int:
        self.asked.append(question)
        if question < 0:
            self.stuck.set()
            self.go.wait(PATIENCE_SECONDS)
        if question == 13:
            raise RuntimeError("a bad number")
        return question**2


@pytest.fixture
def oracle() -> Iterator[Oracle]:
    made = Oracle()
    yield made
    made.go.set()


def test_an_answer_comes_later_and_holds_for_everyone_until_the_next_round(
    oracle: Oracle,
) -> None:
    """A process may be on several cards, each of which asks for its name."""
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle)
    assert questions.ask(4) == LookupResult(None, answered=False, fresh=True)
    questions.wait(PATIENCE_SECONDS)
    assert [questions.ask(4) for _ in range(3)] == [LookupResult(16, answered=True)] * 3
    assert oracle.asked == [4]
    questions.hold()
    questions.release()
    assert not questions.ask(4).answered, "asked again: what it is may have changed"


def test_an_answer_that_nobody_has_taken_yet_outlives_a_round(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle)
    questions.ask(4)
    questions.wait(PATIENCE_SECONDS)
    questions.hold()
    assert questions.ask(4).answer == 16


def test_nothing_is_begun_while_it_is_held(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle)
    questions.hold()
    questions.ask(4)
    questions.wait(0.0)
    assert oracle.asked == []
    questions.release()
    questions.ask(5)
    questions.wait(PATIENCE_SECONDS)
    assert oracle.asked == [4, 5]


def test_a_question_is_waited_for_once(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle)
    assert questions.ask(-1).fresh
    questions.wait(0.0)
    assert questions.ask(-1) == LookupResult(None, answered=False, fresh=False)
    questions.wait(PATIENCE_SECONDS)  # would be as long as that if it waited


def test_a_stuck_answer_does_not_stop_the_others(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle, stuck_seconds=0.0)
    questions.ask(-1)
    oracle.stuck.wait(PATIENCE_SECONDS)
    questions.wait(0.0)
    questions.ask(3)
    questions.wait(PATIENCE_SECONDS)
    assert questions.ask(3).answer == 9


def test_what_fails_has_no_answer_and_the_next_has_one(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle)
    questions.ask(13)
    questions.ask(2)
    questions.wait(PATIENCE_SECONDS)
    assert questions.ask(13) == LookupResult(None, answered=True)
    assert questions.ask(2).answer == 4


def test_questions_are_bounded(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle, most_questions=2)
    questions.hold()
    assert [questions.ask(n).fresh for n in (1, 2, 3)] == [True, True, False]


def no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_without_a_thread_it_is_answered_once_there_may_be_one(oracle: Oracle) -> None:
    questions: BackgroundLookup[int, int] = BackgroundLookup(oracle)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert questions.ask(4) == LookupResult(None, answered=False, fresh=True)
    assert not questions.ask(4).answered
    questions.wait(PATIENCE_SECONDS)
    assert questions.ask(4) == LookupResult(16, answered=True)
