"""The book on a real file system: what is made, what is believed, and what is not."""

import errno
import fcntl
import os
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.host import file_systems
from andon.leases.book import places
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import mutex
from andon.leases.usage_meter import UsageMeter
from andon.model.lease import Cordon, Work
from andon.sampling.bus import Bus
from tests.support.homes import books_at, no_other_book
from tests.support.noticed import noticed
from tests.support.sharing_parts import lease, ticket
from tests.support.waiting import wait_for


@pytest.fixture
def guarded(book: Book) -> Iterator[list[str]]:
    """As under fs.protected_regular=2, whatever this kernel has: the names that were made."""
    made: list[str] = []
    on = [True]

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and on[0] and arguments[2] & os.O_CREAT:
            path = book.path / str(arguments[0])  # a name in one of its folders, or a whole path
            if book.path in path.parents and not arguments[2] & os.O_EXCL:
                raise PermissionError(errno.EACCES, "it may be another user's", str(path))
            made.append(path.name)

    sys.addaudithook(opened)  # it can never be removed, and so is switched off
    yield made
    on[0] = False


def test_an_empty_directory_of_ones_own_is_a_book_without_leases(tmp_path: Path) -> None:
    env = {places.VARIABLE: str(tmp_path / "book")}
    (tmp_path / "book").mkdir()
    found = Book(env, make=False)
    assert (found.entries(), found.waiting(), found.cordons()) == ([], [], ())
    assert not list((tmp_path / "book").iterdir()), "reading makes nothing"


def test_a_directory_with_something_else_in_it_is_still_unreadable(tmp_path: Path) -> None:
    """It may be half of a book: what it holds is not known."""
    env = {places.VARIABLE: str(tmp_path / "book")}
    (tmp_path / "book" / "cordons").mkdir(parents=True)
    with pytest.raises(AndonError):
        Book(env, make=False).entries()


def test_only_a_book_without_leases_tickets_and_cordons_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, nothing is imported that reads it; in doubt it is read."""
    books_at(monkeypatch, tmp_path / "run/andon", tmp_path / "tmp/andon")
    place = tmp_path / "book"
    env = {places.VARIABLE: str(place)}
    assert places.is_empty(env)
    place.mkdir()
    assert places.is_empty(env)
    places.prepare(place)
    assert places.is_empty(env)
    for part in places.MODES:
        (place / part / "one").write_text("")
        assert not places.is_empty(env)
        (place / part / "one").unlink()
    place.chmod(0o777)
    assert not places.is_empty(env)
    place.chmod(0o755)
    (place / places.TICKETS).rmdir()
    assert not places.is_empty(env)
    other = tmp_path / "link"
    other.symlink_to(tmp_path / "elsewhere")
    assert not places.is_empty({places.VARIABLE: str(other)})
    assert not places.is_empty({places.VARIABLE: "relative"})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_book_has_its_modes_whatever_the_umask(
    book_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_other_book(monkeypatch)
    before = os.umask(0o077)
    try:
        book = Book()
        held = book.write_lease(lease(0))
    finally:
        os.umask(before)
    assert mode(book.path) == 0o755
    assert mode(book.path / "leases") == mode(book.path / "tickets") == 0o1777
    assert mode(book.path / "leases" / held.hold.name) == 0o644
    held.release()


def test_a_lease_is_held_while_it_is_locked_and_leaves_nothing(book: Book) -> None:
    held = book.write_lease(lease(0, 1))
    [entry] = book.entries()
    assert entry.locked
    assert entry.lease is not None
    assert [share.index for share in entry.lease.shares] == [0, 1]
    assert entry.uid == os.getuid()
    held.release()
    assert book.entries() == []
    held.release()  # a second time does nothing


def test_the_owner_is_the_files_and_not_what_the_file_says(book: Book) -> None:
    held = book.write_lease(lease(0))  # it says uid 1000, alice
    [entry] = book.entries()
    assert entry.lease is not None
    assert entry.lease.owner.uid == os.getuid()
    held.release()


def test_a_lock_that_is_gone_leaves_an_unlocked_file(book: Book) -> None:
    held = book.write_lease(lease(0))
    held.hold.close()
    [entry] = book.entries()
    assert not entry.locked
    book.sweep([entry])
    assert book.entries() == []


def test_the_end_can_be_moved_without_touching_the_content(book: Book) -> None:
    held = book.write_lease(lease(0, until=time.time() + 60))
    before = (book.path / "leases" / held.hold.name).read_bytes()
    held.hold.stamp(2_000_000_000.0)
    [entry] = book.entries()
    assert entry.lease is not None
    assert entry.lease.until == held.until() == 2_000_000_000.0
    assert (book.path / "leases" / held.hold.name).read_bytes() == before
    held.release()


def test_what_the_lease_is_for_is_added_and_half_a_line_is_no_line(book: Book) -> None:
    held = book.write_lease(lease(0, until=2_000_000_000.0))
    held.hold.add(Work(4242, 7, 4242))
    assert held.until() == 2_000_000_000.0
    os.write(held.hold.descriptor, b'{"work": {"pid": 1, "started_ti')
    [entry] = book.entries()
    assert entry.lease is not None
    assert entry.lease.work == Work(4242, 7, 4242)
    held.release()


def hostile(folder: Path, content: bytes, name: str = "evil.lease") -> int:
    path = folder / name
    path.write_bytes(content)
    return os.open(path, os.O_RDONLY)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b'{"schema": "andon.lease/1"}', b"x" * 100_000, b"{" * 5000],
)
def test_a_file_that_is_no_lease_counts_only_while_it_is_locked(book: Book, content: bytes) -> None:
    descriptor = hostile(book.path / "leases", content)
    [entry] = book.entries()
    assert (entry.locked, entry.lease) == (False, None)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    [entry] = book.entries()
    assert (entry.locked, entry.lease) == (True, None)
    os.close(descriptor)


def test_links_pipes_sockets_and_folders_are_none_of_ours(book: Book, tmp_path: Path) -> None:
    folder = book.path / "leases"
    (tmp_path / "target").write_text("{}")
    (folder / "link.lease").symlink_to(tmp_path / "target")
    os.mkfifo(folder / "pipe.lease")
    (folder / "folder.lease").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket.lease"))
        assert book.entries() == []  # and nothing hangs


def test_a_file_that_may_not_be_opened_is_judged_by_the_kernels_list(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor = hostile(book.path / "leases", b"secret")
    real = os.open

    def refusing(path: object, *args: object, **kwargs: object) -> int:
        if path == "evil.lease":
            raise PermissionError(13, "denied")
        return real(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    assert [entry.locked for entry in book.entries()] == [False]
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert [entry.locked for entry in book.entries()] == [True]
    os.close(descriptor)


@pytest.mark.slow
def test_asking_whether_it_is_locked_never_looks_like_a_holder(book: Book) -> None:
    held = book.write_lease(lease(0))
    held.hold.close()
    stop = threading.Event()
    seen: list[bool] = []

    def ask() -> None:
        while not stop.is_set():
            seen.extend(entry.locked for entry in book.entries())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        assert [entry.locked for entry in book.entries()] == [False]
    stop.set()
    for thread in threads:
        thread.join()
    assert not any(seen)


def test_a_killed_writers_draft_is_swept_and_never_read(book: Book) -> None:
    draft = book.path / "leases" / ".0123"
    draft.write_text("half a lea")
    assert book.entries() == []
    book.write_lease(lease(0)).hold.close()
    book.sweep(book.entries())
    assert not draft.exists()


def test_tickets_live_with_their_owners_and_pushing_in_is_not_believed(book: Book) -> None:
    hold = book.write_ticket(ticket("t1", priority=9))
    assert [w.ticket.priority for w in book.waiting()] == [9]  # the book is ours
    if os.getuid() == 0:
        os.chown(book.path, 12345, -1)
        assert [w.ticket.priority for w in book.waiting()] == [9], "root may, in any book"
        for file in (book.path / "tickets").iterdir():
            os.chown(file, 12346, -1)
        assert [w.ticket.priority for w in book.waiting()] == [0], "neither root nor its owner"
    os.close(hold.descriptor)
    assert book.waiting() == []


def test_a_cordon_stays_until_it_is_taken_away(book: Book) -> None:
    book.cordon(Cordon("GPU-../../x", 1.0, "root", "new fan"))
    assert [c.uuid for c in book.cordons()] == ["GPU-../../x"]
    assert book.uncordon("GPU-../../x")
    assert not book.uncordon("GPU-../../x")
    assert book.cordons() == ()


def test_a_lease_is_found_by_the_beginning_of_its_id(book: Book) -> None:
    first, second = (
        book.write_lease(lease(0, name="abcde")),
        book.write_lease(lease(1, name="abxyz")),
    )
    assert book.find("abc")[2].id == "abcde"
    with pytest.raises(Invalid, match="2 leases"):
        book.find("ab")
    for name in ("zz", ""):
        with pytest.raises(Gone):
            book.find(name)
    first.release()
    second.release()


def test_a_short_number_is_a_gpu_and_not_the_beginning_of_an_id(book: Book) -> None:
    held = [book.write_lease(lease(n, name=name)) for n, name in enumerate(["3k7qm", "23456", "7"])]
    for name in ("3", "2", "234"):
        with pytest.raises(Gone):
            book.find(name)
    for name, found in (("3k", "3k7qm"), ("2345", "23456"), ("23456", "23456"), ("7", "7")):
        assert book.find(name)[2].id == found
    for one in held:
        one.release()


# The mutex.


def test_a_mutex_that_is_never_given_back_is_named_and_not_waited_for_for_ever(book: Book) -> None:
    holder = os.open(book.path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(Conflict, match=f"by pid {os.getpid()}"), mutex([book.path], 0.05):
        pass
    os.close(holder)
    with mutex([book.path], 0.05):
        pass


def test_who_waits_for_a_second_book_does_not_keep_the_first(book: Book, tmp_path: Path) -> None:
    second, done = tmp_path / "second", threading.Event()
    second.mkdir()

    def both() -> None:
        with mutex([book.path, second], 60):
            done.set()

    holder = os.open(second, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    waiting = threading.Thread(target=both)
    with noticed("open") as opened:
        waiting.start()
        wait_for(lambda: sum(path == str(second) for path, *_ in opened) > 1)
    with mutex([book.path], 10):
        assert not done.is_set()
    os.close(holder)
    waiting.join(60)
    assert done.is_set()


def test_threads_exclude_each_other(book: Book) -> None:
    inside, most = [0], [0]

    def enter() -> None:
        for _ in range(50):
            with book.locked():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


# Where a book can be.

MOUNTS = "/dev/sda1 / ext4 rw 0 0\nserver:/x /mnt/nfs nfs4 rw 0 0\nssh /mnt/s fuse.sshfs rw 0 0\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/run/andon", None),
        ("/mnt/nfs", "nfs4"),
        ("/mnt/nfs/a/b", "nfs4"),
        ("/mnt/nfsx", None),
        ("/mnt/s/book", "fuse.sshfs"),
    ],
)
def test_a_network_file_system_is_told_by_its_mount(path: str, kind: str | None) -> None:
    assert file_systems.network_system(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("path", ["/mnt/nfs/andon", "relative/andon"])
def test_a_book_on_a_network_or_nowhere_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        places.prepare(Path(path), MOUNTS)


def test_a_book_under_a_home_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Invalid, match="home"):
        places.prepare(tmp_path / "a" / "andon", MOUNTS)


def test_a_book_that_is_a_link_a_file_or_open_to_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name in ("file", "link", "open"):
        with pytest.raises(Denied):
            places.prepare(tmp_path / name, "")


def test_first_users_who_come_at_once_make_one_book(tmp_path: Path) -> None:
    path, failed = tmp_path / "andon", []
    barrier = threading.Barrier(8)

    def come() -> None:
        barrier.wait()
        try:
            places.prepare(path, "")
        except AndonError as error:
            failed.append(error)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {p.name for p in path.iterdir()} == {*places.MODES, places.RESERVATIONS}
    assert [p.name for p in tmp_path.iterdir()] == ["andon"]


def test_a_book_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        places.prepare(tmp_path / "file" / "andon", "")


def test_what_is_there_is_never_opened_to_be_made(book: Book, guarded: list[str]) -> None:
    """With fs.protected_regular a kernel refuses that where the file may be another user's."""
    held, waiting = book.write_lease(lease(0)), book.write_ticket(ticket("t1", since=time.time()))
    book.cordon(Cordon("GPU-1", time.time(), "root", ""))
    for _ in range(2):
        assert len(book.entries()) == len(book.waiting()) == len(book.cordons()) == 1
        with mutex([book.path]):
            book.sweep(book.entries())
    held.hold.add(Work(os.getpid(), 1, os.getpgid(0)))
    held.release()
    waiting.release()
    assert guarded, "it looked at nothing"


def test_a_server_before_the_first_lease_does_not_spoil_an_empty_folder(
    book_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_other_book(monkeypatch)
    book_folder.mkdir()
    (book_folder / "usage.lock").touch()
    (book_folder / "usage.json").touch()
    assert Book(make=False).entries() == [], "andon free"
    assert Book().entries() == [], "andon run"
    assert (book_folder / "leases").is_dir()
    (book_folder / "tickets").rmdir()
    with pytest.raises(Unavailable, match="has no folder tickets") as missing:
        Book(make=False).waiting()
    assert "andon run" in missing.value.hint


def test_a_server_counts_nothing_in_a_folder_that_is_no_book_yet(tmp_path: Path) -> None:
    meter = UsageMeter(
        Bus().subscribe(1.0, watching=False, size=2),
        lambda: None,
        {"ANDON_LEASE_DIR": str(tmp_path)},
    )
    assert not meter._is_writer()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "leases").mkdir()
    assert meter._is_writer()
    meter.close()
