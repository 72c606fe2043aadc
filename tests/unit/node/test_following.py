"""A node that is asked again and again: each snapshot once, at an interval that may change."""

import threading
import time

import pytest

from andon.errors import Unavailable
from andon.model.device import Snapshot
from andon.node.following import PolledSession


def session_of(*given: Snapshot | Unavailable, seconds: float = 60.0) -> PolledSession:
    left = list(given)

    def read() -> Snapshot:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Unavailable):
            raise found
        return found

    return PolledSession(read, seconds)


def test_the_first_one_is_there_at_once_and_the_next_when_it_is_due() -> None:
    session = session_of(Snapshot("n", 1.0), Snapshot("n", 2.0))
    assert session.get(0.0) == Snapshot("n", 1.0)
    assert session.get(0.0) is None, "not due"
    session.pace(30.0)
    assert session.get(0.0) == Snapshot("n", 2.0)
    assert session.get(0.01) is None


def test_the_same_snapshot_is_given_once_and_a_failure_each_time() -> None:
    session = session_of(Snapshot("n", 1.0), Snapshot("n", 1.0), Unavailable("away"), seconds=0.0)
    assert session.get() == Snapshot("n", 1.0)
    assert session.get() is None
    for _ in range(2):
        with pytest.raises(Unavailable):
            session.get()


def test_who_waits_is_woken_by_the_end() -> None:
    session = session_of(Snapshot("n", 1.0))
    session.get()
    threading.Timer(0.05, session.close).start()
    began = time.monotonic()
    assert session.get(50.0) is None
    assert time.monotonic() - began < 40


def test_iterating_waits_patiently_after_the_first() -> None:
    later = iter((Snapshot("n", 1.0), Snapshot("n", 2.0)))
    session = PolledSession(lambda: Snapshot("n", 1.0), 0.0, lambda: next(later))
    snapshots = iter(session)
    assert [next(snapshots).at for _ in range(2)] == [1.0, 2.0]
    away = PolledSession(lambda: session_of(Unavailable("away")).get(), 0.0)  # type: ignore[arg-type,return-value]
    with pytest.raises(Unavailable):
        next(iter(away))
