"""Leases and hostile neighbours: whose process is signalled, whose lock counts, who is stopped."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from andon.errors import Conflict, Gone
from andon.host.processes.kin import myself, pid_scope, started_ticks
from andon.leases import releaser
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import open_holder
from andon.leases.releaser import overdue
from andon.model import wire
from andon.model.codec import document
from andon.model.lease import Claim, Lease, LeaseKind, LeaseState
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import FOREVER, end_of, line, running, work_pid
from tests.integration.lending import children, lending
from tests.support.sharing_parts import lease, owner
from tests.support.waiting import wait_for
from tests.support.web_parts import end_holders

PYTHON = sys.executable
ALICE, MALLORY = 65_533, 65_534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="plays other users")
HOG = "hogxx"

# Opened before the user is changed: the folders of a test are closed to others, the book is not.
LOCKS = """
import fcntl, os, sys, time
uid, folder, name, flags, content, fork = sys.argv[1:]
book = os.open(folder, os.O_RDONLY)
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
file = os.open(name, int(flags), 0o644, dir_fd=book)
os.write(file, content.replace("PID", str(os.getpid())).encode()) if content else None
fcntl.flock(file, fcntl.LOCK_EX)
if fork == "fork" and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(1000)
"""
STUBBORN = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCONT, lambda *_: os.kill(os.getpid(), signal.SIGSTOP))
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
print(os.getpid(), flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture(autouse=True)
def _surroundings(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_SIMULATE", "4")
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")


@pytest.fixture
def book() -> Iterator[Book]:
    made = Book()
    yield made
    end_holders(made)


@contextmanager
def process(*arguments: str, **more: object) -> Iterator["subprocess.Popen[str]"]:
    started = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


@contextmanager
def locking(
    book: Book, uid: int, name: str, content: str = "", flags: int = os.O_RDONLY, fork: str = ""
) -> Iterator[int]:
    """A process of another user that keeps a file of the book locked; its pid."""
    folder = str(book.path / "leases")
    made = [PYTHON, "-c", LOCKS, str(uid), folder, name, str(flags), content, fork]
    with process(*made) as started:
        pid = int(line(started))
        try:
            yield pid
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def forged(pid: int) -> str:
    """A lease file that names a process."""
    ticks = started_ticks(pid) or 0
    named = owner(
        "mallory", MALLORY, pid, started_ticks=ticks, boot=pid_scope().boot,
        pid_namespace=pid_scope().pid_namespace,
    )  # fmt: skip
    return wire.dumps(document(lease(0, name=HOG, owner=named))) + "\n"


NEW = os.O_RDWR | os.O_CREAT


@AS_ROOT
def test_root_signals_no_process_that_a_strangers_file_names(book: Book) -> None:
    with (
        process("sleep", "1000", user=ALICE, group=ALICE, extra_groups=[]) as victim,
        locking(book, MALLORY, f"{HOG}-1.lease", forged(victim.pid), NEW),
    ):
        with pytest.raises(Conflict, match=f"names pid {victim.pid}") as told:
            releaser.release(book, HOG, timeout_seconds=0.1)
        assert "nothing was stopped" in told.value.hint
        refused = andon("release", HOG)
        assert refused.code == 6
        assert is_alive(victim.pid)
        assert victim.poll() is None


@AS_ROOT
def test_a_process_that_does_not_hold_the_lock_is_not_signalled(book: Book) -> None:
    """Of the file's own user, and even the one that the server of that user is."""
    with (
        process("sleep", "1000", user=MALLORY, group=MALLORY, extra_groups=[]) as other,
        locking(book, MALLORY, f"{HOG}-1.lease", forged(other.pid), NEW),
    ):
        with pytest.raises(Conflict, match="does not hold it"):
            releaser.release(book, HOG, timeout_seconds=0.1)
        assert other.poll() is None


def test_a_holder_that_has_just_started_is_given_time_to_take_the_lock(tmp_path: Path) -> None:
    """Released right after it was granted: the program has the lock, its holder not yet."""
    file = tmp_path / f"{HOG}-1.lease"
    file.touch()
    program = f"import fcntl; input(); f = open({str(file)!r}); fcntl.flock(f, 2); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        telling = threading.Timer(0.2, os.write, (holder.stdin.fileno(), b"\n"))
        telling.start()
        try:
            open_holder(lease(0, owner=myself(holder.pid)), file, os.getuid()).close()
        finally:
            telling.join()
            holder.kill()


@AS_ROOT
def test_a_server_of_roots_signals_no_such_process_either(tmp_path: Path, book: Book) -> None:
    with (
        lending(tmp_path) as counter,
        process("sleep", "1000", user=ALICE, group=ALICE, extra_groups=[]) as victim,
        locking(book, MALLORY, f"{HOG}-1.lease", forged(victim.pid), NEW),
    ):
        assert counter.ask("DELETE", f"/api/leases/{HOG}").status == 409
        assert victim.poll() is None


@AS_ROOT
def test_root_ends_the_lease_of_a_process_that_holds_it(book: Book) -> None:
    """So that the tests above fail for the right reason."""
    name, content = (
        f"{HOG}-1.lease",
        forged(os.getpid()).replace(f'"pid":{os.getpid()}', '"pid":PID'),
    )
    with locking(book, MALLORY, name, content, NEW) as pid:
        file = book.path / "leases" / name
        ticks = f'"started_ticks":{started_ticks(os.getpid())}'
        rewrite(file, file.read_text().replace(ticks, f'"started_ticks":{started_ticks(pid)}'))
        released = releaser.release(book, HOG, timeout_seconds=120)
        assert released.owner.pid == pid
        wait_for(lambda: not is_alive(pid))


def rewrite(file: Path, text: str) -> None:
    """A file of another user in a sticky folder: many kernels refuse an open that creates."""
    with file.open("r+", encoding="utf-8") as opened:
        opened.truncate()
        opened.write(text)


def ended(book: Book, uid: int) -> Path:
    """The file of a lease whose holder was killed."""
    with process("sleep", "1000") as holder:
        content = forged(holder.pid)
    path = book.path / "leases" / f"{HOG}-1.lease"
    path.write_text(content)
    path.chmod(0o644)
    os.chown(path, uid, uid)
    return path


@AS_ROOT
@pytest.mark.parametrize("fork", ["", "fork"])
def test_a_strangers_lock_holds_nothing_in_anothers_name(book: Book, fork: str) -> None:
    path = ended(book, ALICE)
    with locking(book, MALLORY, path.name, fork=fork):
        [entry] = book.entries()
        assert not entry.locked
        assert andon("leases", "--json").json()["leases"] == []
        assert releaser.release(book, HOG).id == HOG
        assert not path.exists()


@AS_ROOT
@pytest.mark.parametrize("uid", [0, ALICE])
def test_the_lock_of_root_or_of_the_leases_own_user_counts(book: Book, uid: int) -> None:
    path = ended(book, ALICE)
    with locking(book, uid, path.name):
        [entry] = book.entries()
        assert entry.locked


@AS_ROOT
def test_a_lock_that_the_killed_holder_left_to_its_child_counts(book: Book) -> None:
    """The kernel still names the holder, who is dead: only its number is left."""
    name = f"{HOG}-1.lease"
    content = forged(os.getpid()).replace(f'"pid":{os.getpid()}', '"pid":PID')
    with locking(book, ALICE, name, content, NEW, "fork"):
        [entry] = book.entries()
        assert entry.lease is not None
        holder = entry.lease.owner.pid
        wait_for(lambda: not is_alive(holder))
        assert entry.locked


@AS_ROOT
def test_a_lock_of_another_pid_namespace_counts(book: Book) -> None:
    path = ended(book, ALICE)
    inside = [PYTHON, "-c", LOCKS, str(MALLORY), str(path.parent), path.name, "0", "", ""]
    with process("unshare", "--fork", "--pid", *inside) as started:
        line(started)
        text = path.read_text().replace(str(pid_scope().pid_namespace), "pid:[1]")
        rewrite(path, text)
        try:
            assert book.entries()[0].locked
        finally:
            [child] = children(started.pid)
            os.kill(child, signal.SIGKILL)


def test_a_holder_that_is_stopped_goes_on_and_ends() -> None:
    with running("--simulate", "4", "run", "--", PYTHON, "-c", FOREVER) as held:
        assert line(held) == "started"
        pid = work_pid()
        os.kill(held.pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGSTOP)
        [entry] = Book(make=False).entries()
        assert entry.lease is not None
        assert andon("release", entry.lease.id).code == 0
        assert end_of(held).code == 143
        assert not is_alive(pid)
    assert Book(make=False).entries() == []


def stubborn(book: Book, until: float | None = None) -> "tuple[Lease, subprocess.Popen[str]]":
    """A lease whose holder ignores SIGTERM and stops whenever it is let go on."""
    name = book.path / "leases" / f"{HOG}-1.lease"
    name.touch()
    started = subprocess.Popen(
        [PYTHON, "-c", STUBBORN, str(name)], stdout=subprocess.PIPE, text=True
    )
    held = lease(0, name=HOG, owner=myself(int(line(started))), until=until)
    name.write_text(wire.dumps(document(held)) + "\n")
    return held, started


def test_a_holder_that_stays_stopped_is_reported_with_the_way_out(book: Book) -> None:
    held, started = stubborn(book, until=1000.0)
    try:
        os.utime(book.path / "leases" / f"{HOG}-1.lease", (1000.0, 1000.0))
        os.kill(started.pid, signal.SIGSTOP)
        with pytest.raises(Conflict, match="is stopped") as told:
            releaser.release(book, HOG, timeout_seconds=0.5)
        assert told.value.hint.endswith(f"kill -CONT {started.pid}")
        claim = Claim(held, LeaseState.HELD, os.getuid(), "me", f"{HOG}-1.lease")
        [(name, words)] = overdue(book, [claim], 1000.0 + 3600)
        assert name == HOG
        assert words.endswith(f"resume it: kill -CONT {started.pid}")
        assert "expired 1 h ago" in words
        assert not list(overdue(book, [claim], 1005.0))
        shown = andon("leases")
        assert f"kill -CONT {started.pid}" in shown.err
    finally:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def test_an_overdue_lease_names_no_process_that_is_not_its_holder(book: Book) -> None:
    with process("sleep", "1000") as other:
        held = lease(0, name=HOG, owner=myself(other.pid), until=1000.0)
        made = book.write_lease(held)
        claim = Claim(held, LeaseState.HELD, os.getuid(), "mallory", made.hold.name)
        [(_, words)] = overdue(book, [claim], 5000.0)
        assert str(other.pid) not in words
        made.release()


def files_of(book: Book) -> list[str]:
    return sorted(os.listdir(book.path / "leases"))  # noqa: PTH208 - names alone


def locked_files(book: Book) -> list[str]:
    return [entry.file for entry in book.entries() if entry.locked]


def remove(book: Book, name: str) -> None:
    (book.path / "leases" / name).unlink()


def move(book: Book, name: str) -> None:
    book.path.rename(book.path.with_name("gone"))


@pytest.mark.parametrize("lose", [remove, move])
def test_a_run_whose_lease_is_gone_says_so_and_is_in_the_book_again(
    book: Book, lose: Callable[[Book, str], None]
) -> None:
    with running("--simulate", "4", "run", "--for", "1h", "--", PYTHON, "-c", FOREVER) as held:
        assert line(held) == "started"
        pid = work_pid()
        [first] = locked_files(book)
        lose(book, first)
        wait_for(lambda: book.path.is_dir() and locked_files(Book(make=False)))
        [entry] = Book(make=False).entries()
        assert entry.file != first
        assert entry.lease is not None
        assert entry.lease.work is not None
        assert (entry.lease.owner.pid, entry.lease.work.pid) == (held.pid, pid)
        assert andon("release", entry.lease.id).code == 0
        said = end_of(held).err
    assert said.count("was removed from the lease book") == 1
    assert "another command may be given the same GPU; it has been written again" in said
    assert Book(make=False).entries() == []


def test_a_run_whose_device_was_given_away_says_that(book: Book) -> None:
    with running("--simulate", "4", "run", "--", PYTHON, "-c", FOREVER) as held:
        assert line(held) == "started"
        work_pid()
        [entry] = book.entries()
        assert entry.lease is not None
        with book.locked():
            remove(book, entry.file)
            other = book.write_lease(
                Lease("zzzzz", entry.lease.shares, myself(), LeaseKind.COMMAND, 1.0, 1)
            )
        assert held.stderr is not None
        said = next(said for said in held.stderr if "running on" not in said)
        assert "cannot be written again: GPU" in said
        assert "is held by lease zzzzz" in said
        assert locked_files(book) == [other.hold.name]
        other.release()
        held.send_signal(signal.SIGTERM)
        held.wait()


def test_a_program_whose_lease_is_gone_keeps_it() -> None:
    program = """
import sys, andon
with andon.lease(simulated=True) as held:
    print("held", flush=True)
    sys.stdin.readline()
    print(held.stands, held.until is not None, flush=True)
    held.extend("2h")
    print(held.stands, flush=True)
"""
    book = Book()
    started = subprocess.Popen(
        [PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        assert line(started) == "held"
        [first] = locked_files(book)
        remove(book, first)
        wait_for(lambda: locked_files(book))
        assert locked_files(book) != [first]
        started.stdin.write("\n")
        started.stdin.flush()
        assert line(started) == "True True"
        assert line(started) == "True"
        assert started.wait(60) == 0
        wait_for(lambda: not files_of(book))
    finally:
        started.kill()
        started.wait()
        started.stdin.close()
        started.stdout.close()


def test_a_lease_that_nobody_holds_any_more_cannot_be_released(book: Book) -> None:
    with pytest.raises(Gone):
        releaser.release(book, HOG)
