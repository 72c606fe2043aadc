"""Ends of leases: a step of the wall clock ends nothing and extends nothing."""

import os
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from andon.host.users import user_name
from andon.leases.book import hold, holder
from andon.leases.book.hold import Countdown, LeaseHold
from andon.leases.book.lease_book import Book
from andon.leases.refusal import clock
from andon.leases.rules.validity import begun, end_mark, followed, to_show
from andon.model.lease import Reservation, ReservedDevice
from andon.work import lease_watch
from andon.work.lease_watch import LeaseWatch
from tests.support.replaced import calls_of, fails
from tests.support.rows import rows
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


@rows(
    "left, length, mark",
    [
        (7200, 7200, None), (3601, 7200, None), (3600, 7200, 3600), (901, 7200, 3600),
        (900, 7200, 900), (301, 7200, 900), (300, 7200, 300), (1, 7200, 300),
        (3599, 3600, None),  # a mark at its very beginning lies outside
        (900, 3600, 900), (899, 900, None), (300, 900, 300), (299, 300, None), (5, 60, None),
    ],
)  # fmt: skip
def test_the_marks_before_an_end_lie_inside_the_length(
    left: float, length: float, mark: float | None
) -> None:
    assert end_mark(left, length) == mark


class Told:
    """What a lease's user is told, a second at a time."""

    def __init__(
        self, book: Book, clocks: Clocks, seconds: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lease_watch, "clocks", clocks)
        self.lines: list[str] = []
        self.clocks, self.held = clocks, held_for(book, clocks, seconds)
        self.watch = LeaseWatch(self.held, self.lines.append)
        self.watch.check()

    def after(self, *steps: float) -> list[str]:
        """The new lines, each without the time of day."""
        before = len(self.lines)
        for step in steps:
            self.clocks.pass_by(step)
            self.watch.check()
        return [re.sub(r", at [^;]*;", ";", line) for line in self.lines[before:]]

    def extend(self, seconds: float) -> None:
        self.held.hold.stamp(self.clocks.wall + seconds)


@pytest.fixture
def told(book: Book, clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Told]:
    return lambda seconds: Told(book, clocks, seconds, monkeypatch)


EXTEND = "; to extend it: andon lease extend k7qm2 --for"


def test_each_mark_is_told_once(told: Callable[[float], Told]) -> None:
    one = told(2 * HOUR)
    found = one.after(*[10.0] * 719)
    assert found == [
        f"lease k7qm2 ends in 1 h{EXTEND} 2h",
        f"lease k7qm2 ends in 15 min{EXTEND} 1h",
        f"lease k7qm2 ends in 5 min{EXTEND} 1h",
    ]
    assert one.watch.check() is None
    one.clocks.pass_by(10)
    assert one.watch.check() == "lease k7qm2 expired"


def test_marks_that_were_slept_through_are_one_line_that_is_true(
    told: Callable[[float], Told],
) -> None:
    one = told(2 * HOUR)
    assert one.after(2 * HOUR - 600, 1, 1) == [f"lease k7qm2 ends in 10 min{EXTEND} 1h"]


def test_an_extended_lease_is_told_of_its_new_end(told: Callable[[float], Told]) -> None:
    one = told(2 * HOUR)
    assert len(one.after(2 * HOUR - 240)) == 1
    one.extend(1200)
    assert one.after(1, 1) == []
    assert one.after(300, 1) == [f"lease k7qm2 ends in 15 min{EXTEND} 1h"]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_of_the_clock_repeats_nothing(told: Callable[[float], Told], step: float) -> None:
    one = told(2 * HOUR)
    assert len(one.after(HOUR + 1)) == 1
    one.clocks.wall += step
    assert one.after(1, 1) == []
    assert one.after(HOUR - 902) == [f"lease k7qm2 ends in 15 min{EXTEND} 1h"]


def test_the_line_has_the_time_of_day_and_who_reserved_what_then(
    told: Callable[[float], Told], book: Book, clocks: Clocks
) -> None:
    one = told(2 * HOUR)
    begins = clocks.wall + 2 * HOUR + 1800
    someone = replace(one.held.lease.owner, uid=os.getuid() + 1)
    one.held.lease = replace(one.held.lease, owner=someone)
    devices = (ReservedDevice("GPU-0", 0), ReservedDevice("GPU-5", 5))
    book.reserve(Reservation("r1", devices, begins, begins + HOUR, uid=os.getuid()))
    one.after(2 * HOUR - 900)
    ends, starts = clock(clocks.wall + 900, clocks.wall), clock(begins, clocks.wall)
    user = user_name(os.getuid())
    assert one.lines == [
        f"lease k7qm2 ends in 15 min, at {ends}; {user} has reserved GPU 0 from {starts}"
    ]


def test_reservations_are_read_only_where_a_mark_is_passed(
    told: Callable[[float], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = told(2 * HOUR)
    read = calls_of(monkeypatch, Book, "reservations")
    assert one.after(*[1.0] * 60) == []
    assert read == []
    assert one.after(HOUR) == [f"lease k7qm2 ends in 59 min{EXTEND} 2h"]
    assert len(read) == 1


def test_reservations_that_cannot_be_read_keep_no_line_back(
    told: Callable[[float], Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = told(2 * HOUR)
    fails(monkeypatch, Book, "reservations", OSError(5, "Input/output error"))
    assert one.after(HOUR) == [f"lease k7qm2 ends in 1 h{EXTEND} 2h"]
