"""Grants over a real book and devices that are only described."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, TimedOut, Unavailable
from andon.host.processes.kin import myself
from andon.leases.availability import Availability, BookContents
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import mutex
from andon.leases.granter import Granter, LeaseTerms, Progress
from andon.leases.placement import Grant
from andon.leases.refusal import device_lines
from andon.model.device import DeviceStatus, Process, Snapshot, State
from andon.units import GIB
from tests.support.replaced import answers
from tests.support.sharing_parts import gpu, lease, request

NODE = [gpu(i) for i in range(4)]


def node(statuses: list[DeviceStatus], **more: object) -> Snapshot:
    return Snapshot("n", time.time(), devices=tuple(statuses), **more)  # type: ignore[arg-type]


class Impatient(Book):
    """A book whose lock nobody waits for."""

    def locked(self, timeout_seconds: float = 0.05) -> AbstractContextManager[None]:
        return super().locked(timeout_seconds)


def granter(book: Book, statuses: list[DeviceStatus] | None = None) -> Granter:
    return Granter(book, Availability(lambda: node(NODE if statuses is None else statuses)))


def scripted(book: Book, looks: Iterator[list[DeviceStatus]]) -> Granter:
    return Granter(book, Availability(lambda: node(next(looks))), reading_seconds=0.01)


def test_what_was_granted_is_not_granted_again(book: Book) -> None:
    first = granter(book).grant(request(3), LeaseTerms(), 0.0)
    second = granter(book).grant(request(1), LeaseTerms(), 0.0)
    devices = [s.uuid for g in (first, second) for s in g.held.lease.shares]
    assert sorted(devices) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert second.held.lease.fence > first.held.lease.fence
    with pytest.raises(Conflict) as refused:
        granter(book).grant(request(), LeaseTerms(), 0.0)
    assert refused.value.reason == "1 GPU requested, 0 available"
    assert len(refused.value.mistakes) == 4
    first.held.release()
    second.held.release()
    assert book.entries() == []


def test_gangs_are_granted_whole_or_not_at_all(book: Book) -> None:
    held = granter(book).grant(request(2), LeaseTerms(), 0.0)
    with pytest.raises(Conflict):
        granter(book).grant(request(3), LeaseTerms(), 0.0)
    assert len(book.entries()) == 1
    held.held.release()


def test_budgets_share_a_device_until_it_is_full(book: Book) -> None:
    asked = request(shared=True, memory_bytes=30 * GIB)
    held = [granter(book, [gpu(0)]).grant(asked, LeaseTerms(), 0.0) for _ in range(2)]
    with pytest.raises(Conflict) as refused:
        granter(book, [gpu(0)]).grant(asked, LeaseTerms(), 0.0)
    assert "20.0 GiB free, 30.0 GiB requested" in refused.value.mistakes[0]
    with pytest.raises(Conflict):
        granter(book, [gpu(0)]).grant(request(), LeaseTerms(), 0.0)
    for grant in held:
        grant.held.release()


def test_a_stranger_that_came_between_the_looks_is_noticed(book: Book) -> None:
    clean = [gpu(0), gpu(1)]
    taken = [gpu(0, processes=[Process(4711, user="bob")]), gpu(1)]
    looks = iter([clean, taken, taken, taken, taken, taken])
    grant = scripted(book, looks).grant(request(), LeaseTerms(), 5.0)
    assert [share.index for share in grant.held.lease.shares] == [1]
    assert len(book.entries()) == 1
    grant.held.release()
    with pytest.raises(Conflict, match="took it first"):
        scripted(book, iter([clean[:1], taken[:1], taken[:1]])).grant(request(), LeaseTerms(), 0.0)
    assert book.entries() == []


def test_one_that_has_to_come_back_gets_the_same_place_again(book: Book) -> None:
    clean, taken = [gpu(0)], [gpu(0, processes=[Process(4711, memory_bytes=GIB)])]
    places: list[float] = []

    def waiting(progress: Progress) -> None:
        places.extend(waiting.ticket.since for waiting in book.waiting())
        if progress.note is None and len(places) == 2:
            raise KeyboardInterrupt

    looks = iter([taken, clean, taken, taken, *([taken] * 20)])
    with pytest.raises(KeyboardInterrupt):
        scripted(book, looks).grant(request(), LeaseTerms(), 30.0, waiting)
    assert places[0] == places[1]
    assert list((book.path / "tickets").iterdir()) == []


def test_a_device_that_is_lost_between_the_looks_is_given_back(book: Book) -> None:
    looks = iter([[gpu(0)], [gpu(0, state=State.LOST)], [gpu(0, state=State.LOST)]])
    with pytest.raises(Conflict):
        scripted(book, looks).grant(request(), LeaseTerms(), 0.0)
    assert book.entries() == []


def test_even_if_used_is_granted_and_the_record_says_so(book: Book) -> None:
    used = [gpu(0, used_gib=5, processes=[Process(4711, user="bob", memory_bytes=5 * GIB)])]
    grant = granter(book, used).grant(request(even_if_used=True), LeaseTerms(), 0.0)
    assert grant.held.lease.even_if_used
    grant.held.release()


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_a_waiter_gets_what_comes_free_and_leaves_no_ticket(book: Book) -> None:
    held = granter(book).grant(request(4), LeaseTerms(), 0.0)
    told: list[Progress] = []

    def waiting(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 1:
            held.held.release()

    grant = granter(book).grant(request(4), LeaseTerms(), 30.0, waiting)
    assert told[0].candidates.missing == 4
    assert book.waiting() == []
    grant.held.release()


def test_a_lease_that_is_put_back_leaves_the_request_in_its_place(book: Book) -> None:
    held = granter(book).grant(request(4), LeaseTerms(), 0.0)
    takes = granter(book)
    attempt = takes.begin(request(4), LeaseTerms())
    assert isinstance(takes.step(attempt), Progress)
    (before,) = book.waiting()
    held.release()
    grant = takes.step(attempt)
    assert isinstance(grant, Grant)
    assert book.waiting() == [], "it is not in the queue while it has a lease"
    takes.put_back(attempt, grant)
    assert book.entries() == []
    (after,) = book.waiting()
    assert (after.ticket.id, after.ticket.since) == (before.ticket.id, before.ticket.since)
    takes.leave(attempt)


def test_who_came_later_waits_for_what_the_first_needs(book: Book) -> None:
    held = granter(book).grant(request(1), LeaseTerms(), 0.0)
    served: list[str] = []
    in_line = threading.Event()

    def large() -> None:
        grant = granter(book).grant(request(4), LeaseTerms(), 30.0, lambda p: in_line.set())
        served.append("large")
        grant.held.release()

    first = in_thread(large)
    assert in_line.wait(60)
    with pytest.raises(Conflict) as refused:  # three devices are free, and kept for the first
        granter(book).grant(request(1), LeaseTerms(), 0.0)
    assert "next in the queue (4 GPUs)" in refused.value.mistakes[1]

    def small() -> None:
        grant = granter(book).grant(request(1), LeaseTerms(), 30.0)
        served.append("small")
        grant.held.release()

    second = in_thread(small)
    held.held.release()
    first.join(30)
    second.join(30)
    assert served == ["large", "small"]


def test_waiting_ends_with_its_time_or_with_the_callers_patience(book: Book) -> None:
    held = granter(book).grant(request(4), LeaseTerms(), 0.0)
    with pytest.raises(TimedOut, match="1 GPU requested, 0 available after") as late:
        granter(book).grant(request(), LeaseTerms(), 0.05)
    assert late.value.exit_code == 75

    def leave(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        granter(book).grant(request(), LeaseTerms(), None, leave)
    assert book.waiting() == []
    assert len(book.entries()) == 1
    held.held.release()


@pytest.mark.slow
def test_a_locked_book_is_waited_for_and_named(book: Book) -> None:
    notes: list[str | None] = []
    with mutex(book.paths):
        with pytest.raises(Conflict, match="has been locked"):
            granter(Impatient()).grant(request(), LeaseTerms(), 0.0)
        with pytest.raises(TimedOut, match="has been locked"):
            granter(Impatient()).grant(request(), LeaseTerms(), 0.2, lambda p: notes.append(p.note))
    assert notes
    assert all(note and "has been locked" in note for note in notes)


def test_dead_leases_of_ours_are_swept_unless_their_work_may_live(book: Book) -> None:
    mine = lease(0, owner=replace(lease(0).owner, boot="another"))
    gone = lease(9, name="gone")  # of another boot, so nothing of it can live anywhere
    elsewhere = lease(9, name="other", owner=myself())  # on a device that we do not see
    for left in (mine, gone, elsewhere):
        book.write_lease(left).hold.close()
    granter(book).grant(request(), LeaseTerms(), 0.0).held.release()
    assert [entry.lease.id for entry in book.entries() if entry.lease] == ["other"]


@pytest.mark.parametrize(
    ("snapshot", "asked", "error", "words"),
    [
        (node([]), request(), Unavailable, "no GPU found here"),
        (node(NODE), request(5), Unavailable, "only 4 visible"),
        (node(NODE), request(0), Invalid, "needs at least one device"),
        (node(NODE), request(memory_bytes=500 * GIB), Unavailable, "no GPU can satisfy this"),
        (node(NODE), request(models=("B200",)), Gone, "no device here is of model"),
        (node(NODE), request(devices=("9",)), Gone, "there is no device"),
        (node(NODE), request(shared=True), Invalid, "needs an amount of memory"),
        (node(NODE, simulated=True), request(), Unavailable, "simulated"),
        (node(NODE, versions={"replay": "1"}), request(), Unavailable, "recorded"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once_and_leaves_nothing(
    book: Book, snapshot: Snapshot, asked: object, error: type[AndonError], words: str
) -> None:
    asking = Granter(book, Availability(lambda: replace(snapshot, at=time.time())))
    with pytest.raises(error, match=words):
        asking.grant(asked, LeaseTerms(), 30.0)  # type: ignore[arg-type]
    assert book.entries() == []
    assert book.waiting() == []


def test_a_mask_that_may_mean_other_devices_grants_nothing(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    mixed = [gpu(0), gpu(1, name="NVIDIA T4")]
    with pytest.raises(Unavailable, match="cannot tell which devices"):
        granter(book, mixed).grant(request(), LeaseTerms(), 0.0)


def test_only_root_and_the_books_owner_push_in(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, os, "getuid", 54321)
    with pytest.raises(Denied):
        granter(book).grant(request(priority=1), LeaseTerms(), 0.0)


def test_simulated_and_real_leases_do_not_meet(book: Book) -> None:
    real = granter(book).grant(request(4), LeaseTerms(), 0.0)
    pretend = [
        replace(s, device=replace(s.device, uuid=f"SIM-{s.device.index}", vendor="sim"))
        for s in NODE
    ]
    asking = Granter(book, Availability(lambda: node(pretend, simulated=True), simulated=True))
    grant = asking.grant(request(4), LeaseTerms(), 0.0)
    assert grant.held.lease.simulated
    assert not real.held.lease.simulated
    real.held.release()
    grant.held.release()


def test_simulated_work_never_ends_and_is_not_waited_for(book: Book) -> None:
    """Until the end of time it would; a lease on simulated devices may end, and is."""
    stranger = Process(4711, memory_bytes=GIB)
    busy, free = gpu(0, processes=[stranger]), gpu(1)

    def on(*statuses: DeviceStatus) -> Granter:
        look = Availability(lambda: node(list(statuses), simulated=True), simulated=True)
        return Granter(book, look)

    with pytest.raises(Conflict) as refused:
        on(busy).grant(request(), LeaseTerms(), None)
    assert not isinstance(refused.value, TimedOut)
    assert "ANDON_SIMULATE_SCENARIO=idle" in refused.value.hint
    held = on(busy, free).grant(request(), LeaseTerms(), None).held
    with pytest.raises(TimedOut, match="after"):
        on(busy, free).grant(request(), LeaseTerms(), 0.05)
    held.release()


def test_every_device_has_its_line(book: Book) -> None:
    statuses = [gpu(0), gpu(1, state=State.LOST), gpu(2, visible=False)]
    held = granter(book, [gpu(0)]).grant(request(), LeaseTerms(seconds=60.0), 0.0)
    seen = Availability(lambda: node(statuses))
    candidates = seen.candidates(seen.view(), BookContents.of(book), request(), None, time.time())
    lines = device_lines(candidates)
    assert lines[0].startswith(f"GPU 0: held by lease {held.held.lease.id} (")
    assert ", until about " in lines[0]
    assert lines[1:] == ["GPU 1: lost: it is lost", "GPU 2: hidden from this process by a mask"]
    held.held.release()
