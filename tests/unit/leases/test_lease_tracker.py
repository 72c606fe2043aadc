"""The ledger over a real book: what it follows, what it survives, and that nobody waits for it."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andon.leases import tracker
from andon.leases.book import files, places
from andon.leases.book.lease_book import Book
from andon.leases.rules.occupants import BookView
from andon.leases.tracker import LeaseTracker, with_leases
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.lease import BookEntry, Reservation, ReservedDevice
from andon.sampling.bus import Bus
from tests.support.homes import no_other_book
from tests.support.noticed import noticed
from tests.support.sharing_parts import gpu, lease, ticket
from tests.support.surroundings import mounted

RESERVED = Reservation("r1", (ReservedDevice("GPU-0", 0),), 1e9, 2e9, uid=os.getuid())


class WatchedBook(Book):
    """A real book; what happens at each reading of it is the test's."""

    reads = 0
    at_reading: Callable[[], object] = staticmethod(lambda: None)

    def entries(self) -> list[BookEntry]:
        type(self).reads += 1
        type(self).at_reading()
        return super().entries()


class Follower:
    """A ledger on a bus that the test plays itself."""

    def __init__(self, open_book: Callable[..., Book] = Book) -> None:
        self.bus, self.now = Bus(), 0.0
        session = self.bus.subscribe(1.0, watching=False, size=2)
        self.ledger = LeaseTracker(
            session, open_book=open_book, poll_seconds=0.01, retry_seconds=0.0
        )

    def tick(self, *statuses: DeviceStatus) -> None:
        self.now += 1.0
        devices = statuses or (gpu(0), gpu(1))
        self.bus.publish(Snapshot("node7", time.time(), devices=devices), self.now)

    def until(
        self, holds: Callable[[BookView | None], object], *statuses: DeviceStatus
    ) -> BookView | None:
        end = time.monotonic() + 60
        while not holds(page := self.ledger.page()):
            assert time.monotonic() < end, f"it never came: {page} {self.ledger.health()}"
            self.tick(*statuses)
            time.sleep(0.005)
        return page


@pytest.fixture
def place(book_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    no_other_book(monkeypatch)
    return book_folder


@pytest.fixture
def follower(place: Path) -> Iterator[Follower]:
    made = Follower()
    yield made
    made.ledger.close()


@pytest.fixture
def watched(place: Path) -> type[WatchedBook]:
    class Watched(WatchedBook):
        """This test's own."""

    return Watched


def known(page: BookView | None) -> bool:
    return page is not None


def one(page: BookView | None) -> bool:
    return page is not None and len(page.claims) == 1


def none(page: BookView | None) -> bool:
    return page is not None and not page.claims


def test_before_the_first_look_nothing_is_said_and_without_a_book_nobody_holds_anything(
    follower: Follower,
) -> None:
    assert follower.ledger.page() is None
    page = follower.until(known)
    assert page == BookView()
    said = follower.ledger.health()
    assert (said["state"], said["readable"], said["count"]) == ("ok", True, 0)
    statuses = (gpu(0), gpu(1))
    assert follower.ledger.marked(statuses) is statuses


@pytest.mark.slow
def test_a_book_that_appears_later_is_followed_and_so_is_its_end(follower: Follower) -> None:
    follower.until(none)
    held = Book().write_lease(lease(0, until=time.time() + 60))
    page = follower.until(one)
    assert page is not None
    assert [h.id for h in page.leases] == ["lease:k7qm2"]
    held.hold.stamp(time.time() + 600)
    follower.until(lambda p: p and (p.claims[0].lease.until or 0) > time.time() + 300)  # type: ignore[union-attr]
    held.release()
    page = follower.until(none)
    assert page is not None
    assert set(page.sharing.former) == {"GPU-0"}


def test_an_empty_directory_is_followed_once_it_becomes_a_book(place: Path) -> None:
    place.mkdir()
    follower = Follower()
    follower.until(none)
    held = Book().write_lease(lease(0, until=time.time() + 60))
    follower.until(one)
    held.release()
    follower.ledger.close()


def test_listeners_hear_of_leases_and_of_the_line(follower: Follower) -> None:
    heard: list[int] = []
    leave = follower.ledger.listen(lambda: heard.append(1))
    book = Book()
    follower.until(known)
    hold = book.write_ticket(ticket())
    follower.until(lambda _: heard)
    count = len(heard)
    held = book.write_lease(lease(0))
    follower.until(lambda _: len(heard) > count)
    leave()
    count = len(heard)
    held.release()
    hold.release()
    follower.until(none)
    assert len(heard) == count


def test_listeners_hear_of_what_is_reserved(follower: Follower) -> None:
    heard: list[int] = []
    follower.ledger.listen(lambda: heard.append(1))
    book = Book()
    follower.until(known)
    for change in (book.reserve, book.cancel):  # the folder of reservations is made meanwhile
        count = len(heard)
        change(RESERVED)
        follower.until(lambda _, count=count: len(heard) > count)  # type: ignore[misc]


def test_a_process_is_related_once_and_marked(follower: Follower) -> None:
    held = Book().write_lease(lease(0, since_ticks=0))
    me = Process(os.getpid(), started=1.0)
    statuses = gpu(0, processes=[me]), gpu(1, processes=[Process(os.getppid(), started=1.0)])
    with noticed("open") as opened:
        follower.until(lambda p: p and p.marks, *statuses)
        once = [path for path, *_ in opened if str(path).startswith(f"/proc/{os.getpid()}/")]
        for _ in range(20):  # a list that is another object, and the same processes
            follower.tick(gpu(0, processes=[me]), statuses[1])
            time.sleep(0.002)
    paths = [str(path) for path, *_ in opened]
    assert [p for p in paths if p.startswith(f"/proc/{os.getpid()}/")] == once != []
    assert not [p for p in paths if p.startswith(f"/proc/{os.getppid()}/")], "it is on no lease"
    held.release()


def test_what_others_put_into_the_book_harms_nobody(follower: Follower, place: Path) -> None:
    Book()
    folder = place / "leases"
    os.mkfifo(folder / "fifo.lease")
    (folder / "link.lease").symlink_to("/etc/passwd")
    (folder / "huge.lease").write_bytes(b"x" * (files.LARGEST_BYTES + 1))
    (folder / "odd.lease").write_bytes(b"\xff\xfe{")
    page = follower.until(known)
    assert page is not None
    assert page.claims == ()
    descriptor = os.open(folder / "huge.lease", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    page = follower.until(one)
    assert page is not None
    assert (page.claims[0].lease, page.leases) == (None, ())
    os.close(descriptor)


@pytest.mark.slow
def test_a_book_that_cannot_be_read_is_told_and_followed_again_when_it_can(
    follower: Follower, place: Path
) -> None:
    book = Book()
    follower.until(known)
    held = book.write_lease(lease(0))
    follower.until(one)
    (place / "leases").rename(place / "away")
    follower.until(lambda page: page is None)
    said = follower.ledger.health()
    assert said["state"] == "degraded"
    assert "has no folder leases" in said["reason"]
    assert (said["readable"], said["count"]) == (False, None)
    statuses = (gpu(0, processes=[Process(1)]),)
    assert follower.ledger.marked(statuses) is statuses
    (place / "away").rename(place / "leases")
    follower.until(one)
    assert follower.ledger.why_not() is None
    held.release()


def test_a_network_file_system_is_refused_before_it_is_touched(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[object] = []

    def opened(env: object, make: bool) -> Book:
        touched.append(env)
        return Book(make=make)

    mounted(monkeypatch, f"server:/x {place.parent} nfs4 rw 0 0\n")
    follower = Follower(opened)
    follower.tick()
    follower.until(lambda _: follower.ledger.why_not())
    assert "network file system (nfs4)" in str(follower.ledger.why_not())
    assert follower.ledger.page() is None
    assert touched == []
    follower.ledger.close()


def test_a_file_system_that_hangs_delays_nobody_and_its_leases_become_unknown(
    watched: type[WatchedBook],
) -> None:
    answers, asked = threading.Event(), threading.Event()
    follower = Follower(watched)
    held = Book().write_lease(lease(0))
    follower.until(one)

    def stuck() -> None:
        asked.set()
        answers.wait()

    watched.at_reading = stuck
    follower.tick()
    assert asked.wait(60)
    assert one(follower.ledger.page()), "for some seconds what was known counts"
    follower.ledger._polled -= tracker.SILENT_SECONDS
    assert follower.ledger.page() is None
    assert "has not responded for 10 s" in str(follower.ledger.why_not())
    answers.set()
    follower.until(one)
    held.release()
    follower.ledger.close()


def test_an_unchanged_empty_book_is_not_read_again(place: Path, watched: type[WatchedBook]) -> None:
    Book()
    long_ago = time.time() - 60  # a recent change might hide another
    for part in ("leases", "reservations"):
        os.utime(place / part, (long_ago, long_ago))
    follower = Follower(watched)
    follower.until(known)
    count = watched.reads
    for _ in range(50):
        follower.ledger._due = 0.0  # the pause after the first reading is over
        follower.tick()
        time.sleep(0.002)
    assert watched.reads == count > 0
    follower.ledger.close()


@pytest.mark.slow
def test_a_dear_book_is_read_more_seldom(watched: type[WatchedBook]) -> None:
    def dear() -> None:
        end = time.thread_time() + 0.1  # of work: not again for more than half a minute
        while time.thread_time() < end:
            pass

    watched.at_reading = dear
    held = Book().write_lease(lease(0))
    follower = Follower(watched)
    follower.until(one)
    for _ in range(50):
        follower.tick()
        time.sleep(0.002)
    assert watched.reads == 1
    left = follower.ledger._due - time.monotonic()
    assert left <= tracker.LONGEST_PAUSE_SECONDS, "whoever fills the book sets no longer pause"
    assert follower.ledger.health()["state"] == "ok"
    follower.ledger._current -= 45.0
    said = follower.ledger.health()
    assert (said["state"], said["count"]) == ("degraded", None)
    assert "was last read 4" in said["reason"]
    assert follower.ledger.page() is None
    held.release()
    follower.ledger.close()


def test_one_look_has_the_leases_too_and_goes_without_where_nobody_can_say(place: Path) -> None:
    me = Process(os.getpid(), started=1.0)
    node = Snapshot("node7", time.time(), devices=(gpu(0, processes=[me]), gpu(1)))
    assert with_leases(node) == node, "there is no book yet"
    assert not places.may_hold_leases(os.environ)
    book = Book()
    assert not places.may_hold_leases(os.environ)
    held = book.write_lease(lease(0, since_ticks=0))
    assert places.may_hold_leases(os.environ)
    marked = with_leases(node)
    assert [p.lease for p in marked.devices[0].processes] == ["k7qm2"]
    (place / "leases").rename(place / "away")
    assert with_leases(node) is node
    held.release()
