"""A session with its thread: what it takes, what it survives, and how it ends."""

import threading
from collections.abc import Callable

import pytest

from andon.failures.log import FailureLog
from andon.model.device import Snapshot
from andon.sampling.bus import Bus, Subscription
from andon.sampling.follower import Follower, SnapshotDelivery
from tests.support.clocks import Clock
from tests.support.snapshots import ticks

TEXT = "handling a snapshot failed; continuing with the next one"
END_SECONDS = 60.0


class Played:
    """A session with snapshots in it, and what its follower did, in order."""

    def __init__(self, count: int = 3, size: int = 8) -> None:
        self.bus, self.done = Bus(), list[object]()
        self.session = self.bus.subscribe(1.0, watching=False, size=size)
        self.snapshots = ticks(count)
        for number, snapshot in enumerate(self.snapshots):
            self.bus.publish(snapshot, float(number))
        self.failures = FailureLog("andon.test", TEXT, Clock())

    def follower(
        self, handle: Callable[[Snapshot], object] | None = None, **options: object
    ) -> Follower:
        take = self.done.append if handle is None else handle
        return Follower(self.session, take, "test", self.failures, **options)  # type: ignore[arg-type]


def test_each_snapshot_is_handled_between_the_beginning_and_the_end() -> None:
    played = Played()
    played.session.close()
    played.follower(
        begin=lambda: played.done.append("begin"), end=lambda: played.done.append("end")
    ).run()
    assert played.done == ["begin", *played.snapshots, "end"]


def test_the_newest_leaves_out_what_was_queued_before_it() -> None:
    played = Played()
    played.session.close()
    played.follower(taking=SnapshotDelivery.NEWEST).run()
    assert played.done == [played.snapshots[-1]]


def test_a_batch_is_taken_after_each_pause_and_once_more_at_the_end() -> None:
    played, pauses = Played(), [0.0, 0.0]

    def paused() -> float:
        if not pauses:
            played.bus.publish(played.snapshots[0], 10.0)
            played.session.close()
            return 3600.0  # the end does not wait for it
        return pauses.pop()

    played.follower(
        taking=SnapshotDelivery.BATCH, idle_seconds=paused, idle=lambda: played.done.append("idle")
    ).run()
    assert played.done == [*played.snapshots, "idle", "idle", played.snapshots[0], "idle"]


def test_nothing_came_for_a_while_is_said_each_time_and_not_at_the_end() -> None:
    played = Played(count=1)

    def idle() -> None:
        played.done.append("idle")
        if played.done.count("idle") == 2:
            played.session.close()

    played.follower(idle_seconds=lambda: 0.0, idle=idle).run()
    assert played.done == [*played.snapshots, "idle", "idle"]


def test_a_handler_that_fails_is_called_with_the_next_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    played, seen = Played(count=3), list[Exception | None]()

    def handle(snapshot: Snapshot) -> None:
        seen.append(follower.failure)
        if snapshot is not played.snapshots[2]:
            raise RuntimeError("no")

    played.session.close()
    follower = played.follower(handle)
    follower.run()
    assert [str(one) if one else None for one in seen] == [None, "no", "no"]
    assert follower.failure is None, "the last one was handled"
    assert caplog.messages == [TEXT], "logged once"
    assert played.failures.count == 2


def test_a_beginning_that_fails_does_not_stop_it(caplog: pytest.LogCaptureFixture) -> None:
    played = Played()

    def begin() -> None:
        raise RuntimeError("no")

    played.session.close()
    played.follower(begin=begin).run()
    assert played.done == [*played.snapshots]
    assert caplog.messages == [TEXT]


def test_closing_waits_for_what_is_queued() -> None:
    played = Played()
    follower = played.follower().start()
    assert follower.close(END_SECONDS)
    assert played.done == [*played.snapshots]
    assert not follower.runs
    assert follower.close(), "it may be closed twice"


def test_closing_does_not_wait_for_ever() -> None:
    played, entered, free = Played(count=1), threading.Event(), threading.Event()

    def handle(snapshot: Snapshot) -> None:
        entered.set()
        free.wait()

    follower = played.follower(handle).start()
    assert entered.wait(END_SECONDS)
    assert not follower.close(0.0)
    assert follower.runs
    free.set()
    assert follower.close(END_SECONDS)


def test_a_handler_may_close_it() -> None:
    played, ended = Played(count=1), threading.Event()
    follower = played.follower(lambda _: follower.close(), end=ended.set)
    follower.start()
    assert ended.wait(END_SECONDS)


def test_the_end_of_the_sampler_ends_it() -> None:
    played = Played()
    follower = played.follower(idle_seconds=lambda: 3600.0).start()
    played.bus.close()
    assert follower.close(END_SECONDS)


def test_in_a_forked_child_it_is_over_and_closing_it_does_not_wait() -> None:
    """The thread is the parent's: only the session is told."""
    session = Subscription(1.0, False, 8, lambda: None)
    follower = Follower(session, lambda _: None, "test", FailureLog("andon.test", TEXT))
    session.forget()
    assert follower.close()
    follower.run()
