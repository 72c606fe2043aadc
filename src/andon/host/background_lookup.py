"""Looks things up in background threads, so that the caller never waits for a slow answer.

A file under /proc may hang just as a driver does, and a command line may be slow to read. The
thread that calls drivers queues a question, continues, and picks up the answer at a later call.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from msgspec import Struct

MOST_QUESTIONS = 4096
MOST_THREADS = 4
STUCK_SECONDS = (
    1.0  # a thread that takes this long counts as stuck, and another continues with the rest
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LookupResult(Struct, Generic[V], frozen=True):
    """An answer, or none yet; `fresh` if the caller has not waited for the question yet."""

    answer: V | None
    answered: bool
    fresh: bool = False


class BackgroundLookup(Generic[K, V]):
    """Answers each question once; the answer serves all callers until the next round. Thread-safe.

    Thread-safe.
    """

    def __init__(
        self,
        answer: Callable[[K], V],
        name: str = "aside",
        most_questions: int = MOST_QUESTIONS,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        self._answer, self._name = answer, name
        self._most_questions, self._stuck_seconds = most_questions, stuck_seconds
        self._changed = threading.Condition()
        self._questions: deque[K] = deque()
        self._open: set[K] = set()
        self._fresh: set[K] = set()
        self._answers: dict[K, V | None] = {}
        self._taken: set[K] = set()
        self._threads = 0
        self._busy_since: dict[K, float] = {}
        self._held = False

    def ask(self, question: K) -> LookupResult[V]:
        """Returns the answer if it is known; otherwise the question stays queued."""
        with self._changed:
            if question in self._answers:
                self._taken.add(question)
                return LookupResult(self._answers[question], answered=True)
            if question not in self._open and len(self._open) < self._most_questions:
                self._open.add(question)
                self._fresh.add(question)
                self._questions.append(question)
                self._changed.notify_all()
            self._start_if_needed()
            return LookupResult(None, answered=False, fresh=question in self._fresh)

    def hold(self) -> None:
        """Begins a round: no lookup starts until `release`, so that the caller's work is not slowed
        down. Earlier answers are dropped, because they may have changed."""
        self._held = True
        if self._taken:
            with self._changed:
                for question in self._taken:
                    self._answers.pop(question, None)
                self._taken.clear()

    def release(self) -> None:
        self._held = False
        if self._questions:
            with self._changed:
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Waits until all new questions are answered; no question is waited for twice."""
        with self._changed:
            mine = frozenset(self._fresh)
            self._changed.wait_for(lambda: mine.isdisjoint(self._open), seconds)
            self._fresh -= mine

    def _start_if_needed(self) -> None:
        now = time.monotonic()
        stuck = sum(now - since >= self._stuck_seconds for since in self._busy_since.values())
        if self._questions and self._threads - stuck < 1 and self._threads < MOST_THREADS:
            with suppress(RuntimeError):  # no more threads are allowed: at a later call
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._threads += 1

    def _work(self) -> None:
        while True:
            question = self._next()
            try:
                answer: V | None = self._answer(question)
            except Exception:  # noqa: BLE001 - one failed lookup must not stop the others
                answer = None
            self._store(question, answer)

    def _next(self) -> K:
        with self._changed:
            self._changed.wait_for(lambda: self._questions and not self._held)
            question = self._questions.popleft()
            self._busy_since[question] = time.monotonic()
            return question

    def _store(self, question: K, answer: V | None) -> None:
        with self._changed:
            if len(self._answers) >= self._most_questions:  # never picked up
                self._answers.clear()
            self._answers[question] = answer
            self._open.discard(question)
            self._fresh.discard(question)
            self._busy_since.pop(question, None)
            self._changed.notify_all()
