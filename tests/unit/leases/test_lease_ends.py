"""Ends of leases: a step of the wall clock ends nothing and extends nothing."""

import os

import pytest
from msgspec.structs import replace

from andon.leases.book import hold, holder
from andon.leases.book.hold import Countdown, LeaseHold
from andon.leases.book.lease_book import Book
from andon.leases.rules.validity import begun, followed, to_show
from tests.support.sharing_parts import lease

HOUR, DAY = 3_600.0, 86_400.0
STEPS = [HOUR, -HOUR, DAY, -DAY]


class Clocks:
    """A wall clock that can be set, and a boot clock that cannot."""

    def __init__(self) -> None:
        self.wall, self.boot = 1_800_000_000.0, 5_000.0

    def __call__(self) -> tuple[float, float]:
        return self.wall, self.boot

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.boot += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(hold, "clocks", made)
    return made


def held_for(book: Book, clocks: Clocks, seconds: float) -> LeaseHold:
    return book.write_lease(lease(0, until=clocks.wall + seconds))


def test_time_passes_as_it_should(clocks: Clocks) -> None:
    end = begun(clocks.wall + 30, *clocks())
    clocks.pass_by(10)
    assert end.deadline - clocks.boot == 20
    assert to_show(end, *clocks()) is None
    assert end.length_seconds == 30


def test_a_moved_end_is_a_new_duration_from_now(clocks: Clocks) -> None:
    end = begun(clocks.wall + 30, *clocks())
    clocks.pass_by(20)
    clocks.wall += DAY
    moved = followed(end, clocks.wall + 100, *clocks())
    assert moved.deadline - clocks.boot == 100
    assert followed(end, end.shown, *clocks()) is end


def test_after_a_step_the_file_shows_the_end_on_the_new_clock(clocks: Clocks) -> None:
    end = begun(clocks.wall + 30, *clocks())
    clocks.wall -= DAY
    right = to_show(end, *clocks())
    assert right == clocks.wall + 30
    assert to_show(replace(end, shown=right), *clocks()) is None


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_wall_clock_neither_ends_nor_extends_a_lease(
    book: Book, clocks: Clocks, step: float
) -> None:
    held = held_for(book, clocks, 30)
    clocks.wall += step
    assert held.left_seconds() == pytest.approx(30)
    clocks.pass_by(20)
    assert held.left_seconds() == pytest.approx(10)
    [entry] = book.entries()
    assert entry.lease is not None
    assert entry.lease.until == pytest.approx(clocks.wall + 10)  # what others see
    clocks.pass_by(11)
    assert (held.left_seconds() or 0) < 0
    held.release()


@pytest.mark.parametrize("step", STEPS)
def test_an_end_can_be_moved_after_the_clock_was_set(
    book: Book, clocks: Clocks, step: float
) -> None:
    held = held_for(book, clocks, 30)
    clocks.wall += step
    held.left_seconds()
    os.utime(book.path / "leases" / held.hold.name, (clocks.wall + 100, clocks.wall + 100))
    assert held.left_seconds() == pytest.approx(100)
    assert held.countdown is not None
    assert held.countdown.end.length_seconds == pytest.approx(100)
    clocks.wall += step
    assert held.left_seconds() == pytest.approx(100)
    assert held.until() == pytest.approx(clocks.wall + 100)
    held.release()


@pytest.mark.parametrize("step", STEPS)
def test_the_holder_process_counts_the_same_way(book: Book, clocks: Clocks, step: float) -> None:
    made = held_for(book, clocks, 30)
    assert made.countdown is not None
    countdown = Countdown(made.hold, made.countdown.end)
    clocks.wall += step
    clocks.pass_by(29)
    assert countdown.left_seconds() == pytest.approx(1)
    clocks.pass_by(2)
    holder._keep(made.hold, countdown, [])  # returns at once: with no sockets it would wait
    made.release()


def test_sleep_counts_toward_the_end_and_is_no_step(book: Book, clocks: Clocks) -> None:
    """The boot clock goes on while the machine sleeps, as the wall clock does."""
    held = held_for(book, clocks, 3 * HOUR)
    before = held.hold.stamped
    clocks.pass_by(2 * HOUR)
    assert held.left_seconds() == pytest.approx(HOUR)
    assert held.hold.stamped == before
    clocks.pass_by(2 * HOUR)
    assert (held.left_seconds() or 0) < 0
    held.release()


def test_a_lease_without_an_end_has_none(book: Book, clocks: Clocks) -> None:
    held = book.write_lease(lease(0))
    clocks.wall += DAY
    assert held.left_seconds() is held.until() is None
    held.release()


def test_a_lease_that_is_lost_and_written_again_keeps_its_duration(
    book: Book, clocks: Clocks
) -> None:
    from andon.leases.book.rejoin import lease_of, rejoin

    held = held_for(book, clocks, 30)
    (book.path / "leases" / held.hold.name).unlink()
    rejoin(held.hold, lease_of(held.hold))
    clocks.pass_by(10)
    assert held.left_seconds() == pytest.approx(20)
    [entry] = book.entries()
    assert entry.locked
    assert entry.lease is not None
    assert replace(entry.lease, owner=held.lease.owner) == held.lease
    held.release()
    assert book.entries() == []
