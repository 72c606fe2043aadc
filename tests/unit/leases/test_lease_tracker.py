"""The ledger over a real book: what it follows, what it survives, and that nobody waits for it."""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andon.host.processes import known_kin
from andon.leases import tracker
from andon.leases.book import files, places
from andon.leases.book.lease_book import Book
from andon.leases.rules.occupants import BookView
from andon.leases.tracker import LeaseTracker, with_leases
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.sampling.bus import Bus
from tests.support.homes import no_other_book
from tests.support.replaced import calls_of, constants
from tests.support.sharing_parts import gpu, lease, ticket
from tests.support.surroundings import mounted


class Follower:
    """A ledger on a bus that the test plays itself."""

    def __init__(self) -> None:
        self.bus, self.now = Bus(), 0.0
        self.ledger = LeaseTracker(self.bus.subscribe(1.0, watching=False, size=2))

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
    constants(monkeypatch, tracker, RETRY_SECONDS=0.0, POLL_SECONDS=0.01)
    return book_folder


@pytest.fixture
def follower(place: Path) -> Iterator[Follower]:
    made = Follower()
    yield made
    made.ledger.close()


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
    held.extend(time.time() + 600)
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


def test_a_process_is_related_once_and_marked(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = calls_of(monkeypatch, known_kin, "read_kin", lambda pids, *_, **__: list(pids))
    held = Book().write_lease(lease(0, since_ticks=0))
    me = Process(os.getpid(), started=1.0)
    statuses = gpu(0, processes=[me]), gpu(1, processes=[Process(os.getppid(), started=1.0)])
    follower.until(lambda p: p and p.marks, *statuses)
    for _ in range(20):  # a list that is another object, and the same processes
        follower.tick(gpu(0, processes=[me]), statuses[1])
        time.sleep(0.002)
    assert [pid for pids in asked for pid in pids] == [os.getpid()]
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
    touched: list[str] = []
    mounted(monkeypatch, f"server:/x {place.parent} nfs4 rw 0 0\n")
    monkeypatch.setattr(tracker, "_stamp", touched.append)
    follower = Follower()
    follower.tick()
    follower.until(lambda _: follower.ledger.why_not())
    assert "network file system (nfs4)" in str(follower.ledger.why_not())
    assert follower.ledger.page() is None
    assert touched == []
    follower.ledger.close()


def test_a_file_system_that_hangs_delays_nobody_and_its_leases_become_unknown(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), threading.Event()
    follower = Follower()
    held = Book().write_lease(lease(0))
    follower.until(one)
    real = tracker._stamp

    def stuck(path: str) -> object:
        asked.set()
        answers.wait()
        return real(path)

    monkeypatch.setattr(tracker, "_stamp", stuck)
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


def test_an_unchanged_empty_book_is_not_read_again(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = calls_of(monkeypatch, Book, "entries")
    constants(monkeypatch, tracker, FRESH_SECONDS=0.0)
    Book()
    follower.until(known)
    count = len(reads)
    for _ in range(50):
        follower.tick()
        time.sleep(0.002)
    assert len(reads) == count


def test_a_dear_book_is_read_more_seldom(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    real = Book.entries
    clock = [0.0]

    def dear(book: Book) -> object:
        reads.append(1)
        clock[0] += 1.0  # a second of work: not again for some minutes
        return real(book)

    monkeypatch.setattr(Book, "entries", dear)
    monkeypatch.setattr(time, "thread_time", lambda: clock[0])
    held = Book().write_lease(lease(0))
    follower.until(one)
    for _ in range(50):
        follower.tick()
        time.sleep(0.002)
    assert len(reads) == 1
    left = follower.ledger._due - time.monotonic()
    assert left <= tracker.LONGEST_PAUSE_SECONDS, "whoever fills the book sets no longer pause"
    assert follower.ledger.health()["state"] == "ok"
    follower.ledger._current -= 45.0
    said = follower.ledger.health()
    assert (said["state"], said["count"]) == ("degraded", None)
    assert "was last read 4" in said["reason"]
    assert follower.ledger.page() is None
    held.release()


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
