"""What must hold whatever happens: kills, users, namespaces, cleaners, broken places."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.host.processes.kin import myself, started_ticks
from andon.host.system_files import TMPFILES, wanted_files
from andon.leases.book import places
from andon.leases.book.lease_book import Book
from andon.model.lease import Work
from tests.conftest import REPOSITORY, need
from tests.integration.conftest import andon, is_alive
from tests.integration.lease_crowd import asked
from tests.integration.lease_storm import OF_RESERVATIONS, STATES
from tests.standin import StandIn, hung
from tests.support.homes import no_other_book
from tests.support.sharing_parts import lease

PROTECTED = Path("/proc/sys/fs/protected_regular")  # unit/leases/test_lease_book plays its 2
FULL = os.environ.get("ANDON_STORM") == "full"
GRANTS = 300 if FULL else 100


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="andon-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def book(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    monkeypatch.setenv("ANDON_LEASE_DIR", str(folder / "book"))
    return Book()


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated devices that can be had, and a home that is nowhere."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")


def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("other users and mounts need root")


def stormed(folder: Path, *more: str) -> dict[str, Any]:
    as_root()
    command = [sys.executable, "-m", "tests.integration.lease_storm", str(folder), *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["violations"] == []
    left = Book({"ANDON_LEASE_DIR": str(folder / "andon")})
    assert not any(entry.locked for entry in left.entries())
    left.sweep(left.entries())
    leaked = [p.name for part in ("leases", "tickets") for p in (left.path / part).iterdir()]
    assert leaked == []
    return found


@pytest.mark.timeout(300)
def test_no_device_is_ever_held_twice_whoever_is_killed_in_whatever_state(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four users with umasks, homes and namespaces of their own; 32 processes on 8 devices."""
    more = ("--workers", "32", "--grants", str(GRANTS), "--seconds", "240", "--seed", "7")
    found = stormed(folder, *more)
    with capsys.disabled():
        guard = PROTECTED.read_text().strip()
        print(f"\nleases: {found['grants']} grants; killed while: {found['kills']}")
        print(f"fs.protected_regular is {guard} here; no test changes it")
    assert found["grants"] >= GRANTS
    assert set(found["kills"]) == set(STATES) - {"born"} - OF_RESERVATIONS
    assert min(found["kills"].values()) >= 3


@pytest.mark.timeout(300)
def test_nothing_is_promised_twice_and_no_lease_lasts_into_a_reservation_whoever_is_killed(
    folder: Path,
) -> None:
    """The same users reserve, change and cancel beside those who take devices."""
    workers, kills = ("32", "3") if FULL else ("16", "1")
    more = ("--workers", workers, "--grants", str(GRANTS), "--kills", kills, "--seconds", "240")
    found = stormed(folder, *more, "--reserving", "0.3")
    assert found["grants"] >= GRANTS
    assert set(found["kills"]) == set(STATES) - {"born"}
    assert found["reserved"] >= GRANTS // 20
    assert found["left"] == [], "the next one removes what was not finished"


def test_systemd_tmpfiles_takes_nothing_that_is_held(book: Book, folder: Path) -> None:
    need("systemd-tmpfiles")
    as_root()
    held = book.write_lease(lease(0))
    plain = folder / "plain"
    plain.mkdir()
    (plain / "file").write_text("")
    rules = folder / "rules.conf"
    rules.write_text(f"d {book.path} 0755 root root 0\nd {plain} 0755 root root 0\n")
    subprocess.run(["systemd-tmpfiles", "--clean", str(rules)], check=True)
    assert not (plain / "file").exists(), "it cleaned nothing: this proves nothing"
    assert [entry.locked for entry in book.entries()] == [True]
    assert held.hold.stands
    held.release()


def test_a_holder_that_is_stopped_with_the_mutex_is_named_and_not_waited_for(
    book: Book, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_other_book(monkeypatch)  # whoever waits for the second book has the first one locked
    code = (
        "import fcntl, os, sys, time; f = os.open(sys.argv[1], os.O_RDONLY); "
        "fcntl.flock(f, fcntl.LOCK_EX); print('locked', flush=True); time.sleep(1000)"
    )
    stopped = subprocess.Popen(
        [sys.executable, "-c", code, str(book.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "locked\n"
        stopped.send_signal(signal.SIGSTOP)
        assert run(["run", "--simulate", "1", "--no-wait", "--", "true"]) == 125
        said = capsys.readouterr().err
        assert f"by pid {stopped.pid} (" in said
        assert f"kill -CONT {stopped.pid}" in said
    finally:
        stopped.kill()
        stopped.communicate()


def test_a_later_process_of_the_same_number_is_never_signalled(book: Book) -> None:
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        ticks = started_ticks(bystander.pid) or 0
        owner = replace(myself(), pid=bystander.pid, started_ticks=ticks - 1)
        held = book.write_lease(lease(0, name="abcde", owner=owner))
        assert andon("release", "abcde").code == 5
        assert is_alive(bystander.pid)
        held.release()
    finally:
        bystander.kill()
        bystander.wait()


def test_a_later_group_of_the_same_number_is_nobodys_work(book: Book) -> None:
    """A lease whose holder and command were killed, and whose numbers were given away again."""
    bystander = subprocess.Popen(["sleep", "1000"], process_group=0)
    try:
        ticks = started_ticks(bystander.pid) or 0
        found = []
        for began in (ticks, ticks - 1):
            work = Work(bystander.pid, began, bystander.pid)
            held = book.write_lease(lease(0, owner=myself(), work=work))
            held.hold.close()
            found.append([entry.left for entry in book.entries() if not entry.locked])
            (book.path / "leases" / held.hold.name).unlink()
        assert found == [[(bystander.pid,)], [()]]
    finally:
        bystander.kill()
        bystander.wait()


def test_a_book_on_a_file_system_of_a_server_that_is_away_is_refused_without_a_touch(
    folder: Path,
) -> None:
    """A FUSE mount that nobody serves: whoever asks it anything hangs for ever."""
    as_root()
    need("unshare")
    if not Path("/dev/fuse").exists():
        pytest.skip("there is no /dev/fuse")
    code = (
        "import ctypes, os, subprocess, sys; f = os.open('/dev/fuse', os.O_RDWR); "
        "libc = ctypes.CDLL(None, use_errno=True); "
        "options = f'fd={f},rootmode=40000,user_id=0,group_id=0'.encode(); "
        "assert libc.mount(b'server', sys.argv[1].encode(), b'fuse.sshfs', 0, options) == 0, "
        "os.strerror(ctypes.get_errno()); "
        "sys.exit(subprocess.run([sys.executable, '-m', 'andon.cli', 'run', '--simulate', '1', "
        "'--', 'true'], env={**os.environ, 'ANDON_LEASE_DIR': sys.argv[1] + '/andon'}).returncode)"
    )
    command = ["unshare", "--mount", sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "network file system (fuse.sshfs)" in done.stderr
    assert done.returncode == 125


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("size=4k,nr_inodes=5", "cannot be written: No space left"),
        ("size=16k", "cannot be written: No space left"),
        ("ro", "Read-only file system"),
    ],
)
def test_a_book_that_is_full_or_read_only_refuses_at_once_and_leaves_nothing(
    folder: Path, options: str, words: str
) -> None:
    """Without --no-wait: what waiting cannot cure is not waited for."""
    as_root()
    need("unshare", "mount")
    read_only = options == "ro"
    script = (
        'mount -t tmpfs -o "$2" tmpfs "$1" && export ANDON_LEASE_DIR="$1/andon" && '
        'if [ "$3" = yes ]; then mount -o remount,rw "$1"; fi; '
        '"$4" -c "from andon.leases.book.lease_book import Book; Book()" && '
        'if [ "$3" = yes ]; then mount -o remount,ro "$1"; '
        'else dd if=/dev/zero of="$1/full" bs=1k 2>/dev/null; fi; '
        '"$4" -m andon.cli run --simulate 1 -- true; code=$?; '
        'ls -A "$1/andon/leases" "$1/andon/tickets"; exit $code'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), options]
    command += ["yes" if read_only else "no", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 125, done.stderr
    assert words in done.stderr
    assert ".lease" not in done.stdout


@pytest.mark.timeout(300)
def test_a_driver_that_hangs_holds_up_no_line(node: StandIn, book: Book) -> None:
    """12 wait for a device while one of the eight never answers."""
    results = asked(12, meanwhile=lambda: node.set_faults(hung(device=3)))
    assert [r for r in results if "error" in r] == []
    assert len(results) == 12
    assert all(3 not in result["indices"] for result in results)


def test_the_system_books_rules_make_the_modes_that_the_code_expects() -> None:
    rules = wanted_files("")[TMPFILES]
    for name, mode in places.MODES.items():
        assert f"d /run/andon/{name} {mode:04o} root root -" in rules
