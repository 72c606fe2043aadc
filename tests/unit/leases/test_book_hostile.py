"""What another user may put into the book, played by hand: it costs that file and no other."""

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from andon.cli.commands.share.leases import lease_columns
from andon.cli.show.table import TableRow, draw
from andon.errors import AndonError, Conflict, Denied, Invalid
from andon.host.processes.kin import myself, pid_scope, started_ticks
from andon.leases.availability import Availability
from andon.leases.book import files, locks, places
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.listing import remarks
from andon.leases.rules.membership import judge
from andon.leases.rules.occupants import BLANK, page_of
from andon.leases.rules.rights import LeaseRequester
from andon.leases.rules.rows import lease_row
from andon.model import wire
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.model.lease import BookEntry, Cordon, Work
from tests.support.homes import NOWHERE, books_at
from tests.support.noticed import forbidden, noticed
from tests.support.replaced import constants
from tests.support.sharing_parts import claim, gpu, lease, need, request, ticket

NODE = [gpu(i) for i in range(8)]


@pytest.fixture
def put(book: Book) -> Iterator[Callable[..., Path]]:
    """Write a file into the book as anybody can, and lock it as its writer would."""
    with ExitStack() as held:

        def written(part: str, name: str, content: bytes | str, locked: bool = False) -> Path:
            path = book.path / part / name
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            if name.endswith(".ticket"):
                path.with_suffix(".awake").touch()
            if locked:
                descriptor = os.open(path, os.O_RDONLY)
                held.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            return path

        yield written


def lease_text(**changes: Any) -> str:
    """A lease as this process would write it, with some fields of another's choice."""
    made = lease(*range(8), name="evil", owner=myself(), work=Work(os.getpid(), 1, 2))
    value = document(made)
    for place, new in changes.items():
        *above, last = place.split("__")
        table = value
        for name in above:
            table = table[name]
        table[last] = new
    return json.dumps(value) + "\n"


def ticket_text(**changes: Any) -> str:
    value = document(ticket("evil", wanted=need(8)))
    for place, new in changes.items():
        table = value["need"] if place in value["need"] else value
        table[place] = new
    return json.dumps(value) + "\n"


def granted(book: Book, timeout_seconds: float = 0.0) -> list[str]:
    look = Availability(lambda: Snapshot("n", time.time(), devices=tuple(NODE)))
    granter = Granter(book, look, reading_seconds=0.05)
    grant = granter.grant(request(), LeaseTerms(), timeout_seconds)
    grant.held.release()
    return [share.uuid for share in grant.held.lease.shares]


def standing(book: Book) -> list[BookEntry]:
    """The entries that withhold a device, for good or not."""
    kept = {claim.file for claim in judge(book.entries(), NODE, {}, pid_scope())}
    return [entry for entry in book.entries() if entry.file in kept]


# Numbers that no kernel has (findings 3 and 5).


@pytest.mark.parametrize(
    "changes",
    [
        {"work__group": 2**62},
        {"work__group": -1},
        {"work__group": 0},
        {"work__pid": 2**62},
        {"owner__pid": 2**62},
        {"owner__pid": -1},
        {"owner__session": 2**40},
        {"owner__uid": 2**40},
        {"since_ticks": 2**70},
        {"fence": "1"},
        {"owner__boot": "b" * 5000},
        {"shares": [{"uuid": "GPU-0", "index": 2**70, "memory_bytes": 1}]},
        {"shares": [{"uuid": "GPU-0", "index": 0, "memory_bytes": 0}]},
        {"owner__container": "half a character: \ud800"},
        {"command": 5},
        {"id": "evil/../x"},
        {"id": "e" * 130},
        {"id": ""},
    ],
)
def test_a_field_out_of_bounds_costs_the_file_and_nothing_else(
    book: Book, put: Callable[..., Path], changes: dict[str, Any]
) -> None:
    evil = put("leases", "evil-0.lease", lease_text(**changes))
    held = book.write_lease(lease(0))
    found = {entry.file: entry.lease for entry in book.entries()}
    assert found["evil-0.lease"] is None
    assert found[held.hold.name] is not None
    assert [entry.locked for entry in standing(book)] == [True]
    assert any("leases: 1 file of" in words for words in remarks(book))
    assert granted(book) != ["GPU-0"]
    assert not evil.exists(), "whoever may, sweeps it"
    held.release()


@pytest.mark.parametrize("group", [1, 2])
def test_a_group_that_anybody_could_name_withholds_nothing_and_is_never_advised(
    book: Book, put: Callable[..., Path], group: int
) -> None:
    """Group 1 is every process to `kill`; group 2 is the kernel's own, where it can be seen."""
    put("leases", "evil-0.lease", lease_text(work__group=group, work__pid=7))
    if os.getuid() == 0:
        os.chown(book.path / "leases" / "evil-0.lease", 65534, 65534)
    [entry] = book.entries()
    assert entry.lease is not None
    assert standing(book) == []
    assert page_of([entry], NODE, {}, pid_scope(), BLANK, 1.0).leases == ()


@pytest.mark.process
def test_a_group_of_another_users_withholds_nothing(book: Book, put: Callable[..., Path]) -> None:
    if os.getuid() != 0:
        pytest.skip("a file of another user needs root")
    # A group of its own: in that of this run another test may have a process of nobody.
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as ours:
        pid = ours.pid
        work = {"work__group": pid, "work__pid": pid, "work__started_ticks": started_ticks(pid)}
        evil = put("leases", "evil-0.lease", lease_text(**work))
        assert [entry.left for entry in book.entries()] == [(pid,)], "our own it would be"
        os.chown(evil, 65534, 65534)
        [entry] = book.entries()
        assert (entry.user, entry.left) == ("nobody", ())
        assert standing(book) == []
        ours.kill()


def test_a_lease_of_a_containers_first_process_is_read(book: Book) -> None:
    """In its own pid namespace it has number 1, and leads group 1."""
    held = book.write_lease(lease(0, owner=myself(1), work=Work(1, 7, 1)))
    [entry] = book.entries()
    assert entry.lease is not None
    assert entry.lease.owner.pid == 1
    assert entry.lease.work == Work(1, 7, None)
    held.release()


def test_what_is_only_shown_is_cut_and_its_lease_holds_its_own_devices(
    book: Book, put: Callable[..., Path]
) -> None:
    said = {"command": "x\ud800" * 9000, "fence": 2**70, "until": 1e300, "since": 3e10}
    put("leases", "evil-0.lease", lease_text(**said), locked=True)
    [entry] = book.entries()
    assert entry.lease is not None
    assert entry.lease.command.startswith("x?x?")
    assert len(entry.lease.command) == 4096
    assert entry.lease.fence == 2**53
    assert entry.lease.since <= time.time() + 1


# Names and caches.


def test_a_file_in_another_part_is_not_taken_for_the_lease_of_its_name(
    book: Book, put: Callable[..., Path]
) -> None:
    held = book.write_lease(lease(0))
    size = (book.path / "leases" / held.hold.name).stat().st_size
    assert len(book.entries()) == 1
    put("tickets", held.hold.name, b"x" * size, locked=True)
    put("tickets", held.hold.name.replace(".lease", ".ticket"), b"x" * size, locked=True)
    assert book.waiting() == []
    assert len(book.entries()) == 1
    held.release()


def test_another_file_of_the_same_name_is_read_again(book: Book, put: Callable[..., Path]) -> None:
    put("leases", "evil-0.lease", lease_text(command="one"))
    assert [e.lease and e.lease.command for e in book.entries()] == ["one"]
    (book.path / "leases" / "other").write_text(lease_text(command="two"))
    (book.path / "leases" / "other").rename(book.path / "leases" / "evil-0.lease")
    assert [e.lease and e.lease.command for e in book.entries()] == ["two"]


@pytest.mark.parametrize(
    "name", ["evil", "evil.ticket", "x.lease.", "é.lease", "a b.lease", ".lease"]
)
def test_a_name_that_andon_never_gives_is_none_of_ours(
    book: Book, put: Callable[..., Path], name: str
) -> None:
    put("leases", name, "x", locked=True)
    (book.path / "leases" / os.fsdecode(b"\xff\xfe.lease")).touch()
    assert book.entries() == []


def test_a_file_is_found_by_the_name_that_it_says(book: Book, put: Callable[..., Path]) -> None:
    """Who waits asks for names alone: one that says another would wake it without an end."""
    put("leases", "other-0.lease", lease_text())
    put("tickets", "other-0.ticket", ticket_text(), locked=True)
    assert [entry.lease for entry in book.entries()] == [None]
    assert book.waiting() == []


def test_a_long_id_leaves_the_other_columns_their_room() -> None:
    """A file cannot have one, and a server's answer is cut."""
    row = lease_row(claim(lease(3, name="e" * 130)), 0, None, LeaseRequester(0))
    lines = [text.plain for text in draw(lease_columns(2000.0, {}), [TableRow(row)], 80)]
    assert "USER" in lines[0]
    assert "COMMAND" in lines[0]
    assert "alice" in lines[1]
    assert "eeeeeeeeeeeeeee…" in lines[1]


# The queue.


def test_nobody_comes_before_its_ticket_was_made(book: Book, put: Callable[..., Path]) -> None:
    began = time.time() - 1
    put("tickets", "evil-0.ticket", ticket_text(since=0.0), locked=True)
    [waiting] = book.waiting()
    assert waiting.ticket.since >= began
    os.utime(book.path / "tickets" / "evil-0.ticket", (5.0, 5.0))
    [waiting] = book.waiting()
    assert waiting.ticket.since >= began


def test_a_waiter_that_is_awake_keeps_its_place(book: Book) -> None:
    hold = book.write_ticket(ticket("first", since=1.0))
    [before] = book.waiting()
    hold.stamp(time.time() + 7)
    [after] = book.waiting()
    assert after.ticket.since == before.ticket.since == hold.queued
    assert after.polled_at == pytest.approx(time.time() + 7, abs=5)
    hold.park()
    assert (book.waiting(), book.ticket_ids()) == ([], frozenset())
    assert hold.resume(time.time())
    assert book.ticket_ids() == {"first"}
    assert [w.ticket.since for w in book.waiting()] == [before.ticket.since]
    hold.release()
    assert list((book.path / "tickets").iterdir()) == []


def test_another_users_file_does_not_wake_a_waiter(book: Book, put: Callable[..., Path]) -> None:
    if os.getuid() != 0:
        pytest.skip("a file of another user needs root")
    put("tickets", "evil-0.ticket", ticket_text(), locked=True)
    beside = book.path / "tickets" / "evil-0.awake"
    os.utime(beside, (5.0, 5.0))
    assert [w.polled_at for w in book.waiting()] == [5.0]
    os.chown(beside, 65534, 65534)
    assert book.waiting() == []


@pytest.mark.parametrize(
    "changes",
    [
        {"least": 0},
        {"least": 2**62, "most": 2**62},
        {"least": 3, "most": 2},
        {"most": 1025},
        {"priority": 10**6},
        {"priority": "5"},
        {"priority": 1.5},
        {"eligible": "GPU-0"},
        {"eligible": ["x" * 5000]},
        {"memory_bytes": -1},
        {"since": -1.0},
        {"since": 1e300},
    ],
)
def test_a_ticket_out_of_bounds_is_no_ticket(
    book: Book, put: Callable[..., Path], changes: dict[str, Any]
) -> None:
    put("tickets", "evil-0.ticket", ticket_text(**changes), locked=True)
    assert book.waiting() == []
    assert any("not valid tickets" in words for words in remarks(book))
    assert len(granted(book)) == 1


def test_one_that_could_be_served_and_takes_nothing_holds_nobody_up_for_long(
    book: Book, put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, "andon.leases.rules.queue", TAKING_SECONDS=0.1)
    awake = time.time() + 10.0
    for number in range(12):
        path = put("tickets", f"evil-{number}.ticket", ticket_text(since=0.0), locked=True)
        for one in (path, path.with_suffix(".awake")):
            os.utime(one, (awake, awake))
    with pytest.raises(Conflict) as refused:
        granted(book)
    assert "next in the queue (8 GPUs)" in refused.value.mistakes[0]
    assert len(granted(book, timeout_seconds=8.0)) == 1


def test_priority_counts_in_the_main_book_alone(
    book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "other"
    books_at(monkeypatch, NOWHERE, beside)
    monkeypatch.setenv("ANDON_LEASE_DIR", str(beside))
    hold = Book().write_ticket(ticket("t2", priority=9))
    monkeypatch.setenv("ANDON_LEASE_DIR", str(book.path))
    both = Book()
    assert both.paths == (book.path, beside)
    assert [w.ticket.priority for w in both.waiting()] == [0]
    hold.release()


# Cordons.


def test_a_cordon_is_its_files_owners_whatever_it_says(book: Book) -> None:
    before = time.time() - 1
    book.cordon(Cordon("GPU-3", 5.0, "somebody else", "a fan"))
    [found] = book.cordons()
    assert found.by == myself().user
    assert found.at >= before


def test_a_cordon_that_could_not_be_taken_away_is_none(
    book: Book, put: Callable[..., Path]
) -> None:
    text = wire.dumps(document(Cordon("GPU-3", 5.0, "root", "x")))
    put("cordons", "another", text)
    assert book.cordons() == ()


# Too many (findings 13 and 14).


def read_at_most(monkeypatch: pytest.MonkeyPatch, of_all: int, of_one_user: int = 100) -> None:
    """So many files of a book are read, to have more than that in a moment."""
    for name, most in (("MOST_FILES", of_all), ("MOST_OF_ONE_USER", of_one_user)):
        monkeypatch.setattr(files, name, most)


def test_hidden_files_are_not_counted(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    read_at_most(monkeypatch, 10)
    for part in ("leases", "tickets"):
        for number in range(12):
            (book.path / part / f".hidden{number}").touch()
    assert book.entries() == []
    assert len(granted(book)) == 1


def test_what_one_user_has_beyond_a_number_is_ignored_and_named(
    book: Book, put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_at_most(monkeypatch, 100, of_one_user=3)
    for number in range(5):
        put("leases", f"evil-{number}.lease", lease_text())
    assert len(book.entries()) == 3
    assert any("2 files of" in words and "too many" in words for words in remarks(book))
    with pytest.raises(Conflict, match="you have 5 files"):
        book.write_lease(lease(0))


def test_what_one_user_queues_beyond_a_number_is_ignored_and_named(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds = [book.write_ticket(ticket(f"t{number}")) for number in range(5)]
    read_at_most(monkeypatch, 100, of_one_user=3)
    assert len(book.waiting()) == 3
    assert any("2 files of" in words and "too many" in words for words in remarks(book))
    with pytest.raises(Conflict, match="you have 5 files"):
        book.write_ticket(ticket("more"))
    for hold in holds:
        hold.release()


def test_more_than_can_be_read_names_who_filled_the_book(
    book: Book, put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_at_most(monkeypatch, 4, of_one_user=3)
    for number in range(5):
        put("leases", f"evil-{number}.lease", "x")
    with pytest.raises(Conflict, match=f"5 files .{myself().user}: 5.") as refused:
        book.entries()
    assert "sudo andon setup" in refused.value.hint


def test_one_look_at_all_processes_serves_every_entry(book: Book, put: Callable[..., Path]) -> None:
    for number in range(50):
        group = 100 + number
        put("leases", f"evil-{number}.lease", lease_text(work__group=group, work__pid=group))
    with noticed("os.listdir") as looks:
        assert len(book.entries()) == 50
    assert looks.count(("/proc",)) == 1


# A lock on a folder.


@pytest.mark.parametrize("part", ["leases", "tickets"])
def test_who_has_locked_a_folder_is_named_and_so_is_the_folder(book: Book, part: str) -> None:
    descriptor = os.open(book.path / part, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(Conflict) as refused:
        book.write_lease(lease(0)) if part == "leases" else book.write_ticket(ticket())
    assert f"{book.path / part}: pid {os.getpid()} ({myself().user})" in refused.value.reason
    os.close(descriptor)


def test_who_holds_a_lease_beside_is_not_taken_for_the_one_that_locked(book: Book) -> None:
    held = book.write_lease(lease(0))  # it locks the folder too, for itself and others
    looks = locks.holders_of(os.fstat(held.hold.folder))
    assert looks == []
    held.release()


def test_a_locked_folder_is_what_a_refusal_is_about(book: Book) -> None:
    descriptor = os.open(book.path / "leases", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(Conflict) as refused:
        granted(book, timeout_seconds=0.05)
    assert str(book.path / "leases") in refused.value.reason
    assert "andon leases" not in refused.value.hint
    os.close(descriptor)


# Where a book can be (finding 39).


def test_a_folder_that_is_used_for_other_things_gets_no_parts_of_a_book(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    for name in ("data", "shared"):
        before = sorted(path.name for path in (tmp_path / name).iterdir())
        with pytest.raises(AndonError) as refused:
            places.prepare(tmp_path / name, "")
        assert isinstance(refused.value, Invalid)
        assert "chmod" not in refused.value.hint
        assert f"ANDON_LEASE_DIR={tmp_path / name / 'andon'}" in refused.value.hint
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == before


@pytest.mark.parametrize("path", ["/", "//", "/tmp"])
def test_the_root_and_the_temporary_folder_are_no_books(path: str) -> None:
    with forbidden("os.mkdir", "os.chmod"), pytest.raises(Invalid):
        places.prepare(Path(path), "")


def test_an_empty_folder_of_ours_becomes_a_book(tmp_path: Path) -> None:
    (tmp_path / "andon").mkdir(mode=0o755)
    places.prepare(tmp_path / "andon", "")
    made = {path.name for path in (tmp_path / "andon").iterdir()}
    assert made == {*places.MODES, places.RESERVATIONS}


def test_a_book_that_all_may_change_is_mended_by_who_owns_it(tmp_path: Path) -> None:
    places.prepare(tmp_path / "andon", "")
    (tmp_path / "andon").chmod(0o777)
    with pytest.raises(Denied) as refused:
        places.prepare(tmp_path / "andon", "")
    assert f"chmod 755 {tmp_path / 'andon'}" in refused.value.hint
