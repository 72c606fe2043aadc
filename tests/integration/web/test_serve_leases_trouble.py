"""Leases over the network where the book is another's, full, read-only or hostile."""

import fcntl
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter as TallyOf
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.host.processes.kin import myself
from andon.leases.book.lease_book import Book
from andon.model.codec import document
from tests.conftest import REPOSITORY, need
from tests.integration.lending import Counter, children, lending
from tests.integration.parts import need_root
from tests.standin import StandIn, StandInProcess
from tests.support.sharing_parts import lease
from tests.support.waiting import wait_for
from tests.support.web_parts import end_holders

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
PACKAGES = os.pathsep.join(
    [str(REPOSITORY / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One that every user can reach."""
    monkeypatch.setenv("HOME", "/nonexistent")
    with tempfile.TemporaryDirectory(prefix="andon-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def disk(folder: Path) -> Iterator[Path]:
    """A small file system of its own, which can become full or read-only."""
    need("mount", "umount")
    need_root()
    mounted = folder / "disk"
    mounted.mkdir()
    mount("-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mounted))
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def python_for_all() -> str:
    """This interpreter, or the system's of the same version where this one is in root's home."""
    check = (
        "import subprocess, sys, andon.cli, fastapi, pydantic_core; "
        "subprocess.run([sys.executable, '-c', ''], check=True)"
    )
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        command = [*AS_NOBODY, python, "-c", check]
        done = subprocess.run(
            command, env={"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"]}, capture_output=True
        )
        if not done.returncode:
            return python
    pytest.skip("no other user can run this Python")


def test_another_users_lease_is_refused_with_who_to_ask(folder: Path) -> None:
    need("setpriv")
    need_root()
    (folder / "state").mkdir()
    os.chown(folder / "state", NOBODY, NOBODY)
    book = Book({"ANDON_LEASE_DIR": str(folder / "book")})
    held = book.write_lease(lease(0, owner=myself(), until=2_000_000_000.0))
    python = python_for_all()
    with lending(folder, wrapped=AS_NOBODY, python=python, PYTHONPATH=PACKAGES) as counter:
        [row] = counter.listed()["leases"]
        assert (row["releasable"], row["not_releasable_reason"]) == (
            False,
            "lease k7qm2 belongs to root: ask root",
        )
        for method, path, body in (
            ("DELETE", "/api/leases/k7qm2", None),
            ("POST", "/api/leases/k7qm2/renew", {"seconds": 60}),
        ):
            answer = counter.ask(method, path, body)
            assert (answer.status, answer.json()["error"]["kind"]) == (403, "denied")
            assert answer.json()["error"]["reason"] == "lease k7qm2 belongs to root"
            assert answer.json()["error"]["hint"] == "ask root"
        own = counter.lend(gpus=1)
        assert own["uid"] == NOBODY
        assert counter.ask("PUT", "/api/devices/0/cordon", {}).status == 403
        assert counter.ask("POST", "/api/leases", {"priority": 1}).status == 403
        assert counter.release(own).status == 200
    assert held.until() == 2_000_000_000.0
    held.release()


@pytest.mark.parametrize(
    ("trouble", "words"), [("full", "No space left"), ("ro", "Read-only file system")]
)
def test_a_book_that_is_full_or_read_only_refuses_and_nothing_is_half_done(
    disk: Path, trouble: str, words: str
) -> None:
    with lending(disk.parent, ANDON_LEASE_DIR=str(disk / "book")) as plain:
        counter = Counter(plain.served, Book({"ANDON_LEASE_DIR": str(disk / "book")}))
        before = set(children(counter.served.process.pid))
        if trouble == "ro":
            mount("-o", "remount,ro", str(disk))
        else:
            fill(disk / "ballast")
        answer = counter.ask("POST", "/api/leases", {"gpus": 1})
        assert (answer.status, answer.json()["error"]["kind"]) == (503, "unavailable")
        assert words in answer.json()["error"]["reason"]
        assert counter.listed()["leases"] == []
        assert list((disk / "book" / "leases").iterdir()) == []
        wait_for(lambda: set(children(counter.served.process.pid)) == before)
        if trouble == "ro":
            mount("-o", "remount,rw", str(disk))
        else:
            (disk / "ballast").unlink()
        assert counter.release(counter.lend(gpus=1)).status == 200


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"0" * 4096)


def test_a_hostile_file_withholds_and_breaks_nothing(folder: Path) -> None:
    with lending(folder) as counter:
        lent = counter.lend(gpus=1)
        evil = counter.book.path / "leases" / "evil.lease"
        evil.write_bytes(b"\xff" * 100)
        with evil.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            wait_for(lambda: len(counter.listed()["leases"]) == 2)
            row = next(row for row in counter.listed()["leases"] if row["id"] is None)
            assert (row["state"], row["kind"], row["devices"]) == ("unreadable", None, [])
            assert row["releasable"] is False
            refused = counter.ask("POST", "/api/leases", {"gpus": 1})
            assert refused.status == 409
            assert counter.renew(lent).status == 200
        evil.unlink()
        assert counter.release(lent).status == 200


def test_a_forged_lease_is_shown_as_it_is_and_harms_no_other(folder: Path) -> None:
    """No text, the largest fence, an end beyond all clocks, and the id of another's lease."""
    with lending(folder) as counter:
        lent = counter.lend(gpus=1)
        forged = document(
            replace(lease(3), id=lent["id"], fence=2**63 - 1, until=1.0, owner=myself()),
        )
        forged["command"] = "\ud800 no text"
        path = counter.book.path / "leases" / f"{lent['id']}-0.lease"
        path.write_text(json.dumps(forged) + "\n")
        os.utime(path, (2.0**40, 2.0**40))
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        with path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            wait_for(lambda: len(counter.listed()["leases"]) == 2)
            assert counter.ask("GET", "/api/leases", token=False).status == 200
            other = counter.lend(gpus=1)
            assert lent["fence"] < other["fence"] < 2**53
            refused = counter.ask("POST", "/api/leases", {"gpus": 4})
            assert refused.status == 409
            if os.geteuid() == 0:
                assert counter.renew(lent).status == 200
                assert counter.release(lent).status == 200
        path.unlink()
        assert counter.release(other).status == 200
        end_holders(counter.book)


def test_a_mutex_that_somebody_keeps_is_named_and_stops_nothing_else(folder: Path) -> None:
    with lending(folder) as counter, counter.book.locked():
        answer = counter.ask("POST", "/api/leases", {"gpus": 1})
        assert answer.status == 409
        assert f"pid {os.getpid()}" in answer.json()["error"]["reason"]
        assert counter.listed()["leases"] == []
        assert counter.ask("GET", "/api/health").status == 200


def test_a_book_on_a_bad_place_is_told_and_never_used(folder: Path) -> None:
    with lending(folder, ANDON_LEASE_DIR="relative/book") as counter:
        answer = counter.ask("POST", "/api/leases", {"gpus": 1})
        assert (answer.status, answer.json()["error"]["kind"]) == (503, "unavailable")
        assert "relative/book" in counter.listed()["note"]
        wait_for(lambda: counter.ask("GET", "/api/health").json()["leases"]["reason"])
        said = counter.ask("GET", "/api/health").json()
        assert (said["status"], said["leases"]["readable"]) == ("degraded", False)


def test_a_cordon_keeps_a_device_back(folder: Path) -> None:
    with lending(folder) as counter:
        said = counter.ask("PUT", "/api/devices/1/cordon", {"reason": "new fan"})
        assert said.status == 200, said.body
        assert said.json()["cordoned"] is True
        [cordon] = counter.listed()["cordons"]
        assert (cordon["index"], cordon["reason"]) == (1, "new fan")
        refused = counter.ask("POST", "/api/leases", {"gpus": 4})
        assert "cordoned by" in " ".join(refused.json()["error"]["details"])
        assert counter.ask("DELETE", "/api/devices/1/cordon").json()["cordoned"] is False
        assert counter.ask("DELETE", "/api/devices/1/cordon").status == 404
        assert counter.listed()["cordons"] == []
        assert counter.release(counter.lend(gpus=4)).status == 200


def test_what_runs_on_lent_devices_is_the_leases_and_a_stranger_is_named(
    folder: Path, node: StandIn
) -> None:
    """Over a driver: who was there before the lease is no part of it, who came after it is."""
    first, second = list(StandIn.devices(2))
    with asleep() as stranger:
        before = StandInProcess(stranger, memory=22 << 30)
        node.write([replace(first, processes=(before,), used=22 << 30), second])
        with lending(folder, simulate=0) as counter:
            refused = counter.ask("POST", "/api/leases", {"gpus": 2})
            assert refused.status == 409
            words = refused.json()["error"]["details"][0]
            assert f"pid {stranger} (" in words
            assert "uses 22.0 GiB without a lease" in words
            lent = counter.lend(gpus=1)
            assert [device["index"] for device in lent["devices"]] == [1]
            assert lent["simulated"] is False
            with asleep() as work:
                after = StandInProcess(work, memory=9 << 30)
                node.write(
                    [
                        replace(first, processes=(before,), used=22 << 30),
                        replace(second, processes=(after,), used=9 << 30),
                    ]
                )
                wait_for(lambda: counter.listed()["leases"][0]["used_bytes"] == 9 << 30)
            assert counter.release(lent).status == 200


@contextmanager
def asleep() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


LENDING = """
import sys, time
from andon.leases.rules.requests import RequestOptions
from andon.leases.network import NetworkLeases
from andon.leases.availability import Availability
from andon.model.device import Snapshot
from tests.support.sharing_parts import gpu

def look():
    return Snapshot("n", time.time(), devices=tuple(gpu(i) for i in range(4)))

lender = NetworkLeases(Availability(look), look)
while True:
    print("asks", flush=True)
    row = lender.lend(RequestOptions(2).request(), 600.0).row
    print("lent", flush=True)
    lender.release(row.id, row.fence)
"""


def test_a_server_that_is_killed_at_any_moment_leaves_whole_leases_or_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_LEASE_DIR", str(folder / "book"))
    book, chance, held = Book(), random.Random(7), TallyOf[int]()
    for _ in range(16):
        command = [sys.executable, "-c", LENDING]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 4)):
                process.stdout.readline()
            time.sleep(chance.uniform(0, 0.2))  # any moment, and the same ones each time
            process.kill()
        wait_for(lambda: holders(book.path) == locked(book))
        held[len(locked(book))] += 1
        end_holders(book)
    with capsys.disabled():
        print(f"\nkilled lenders left leases: {dict(held)}")
    assert set(held) <= {0, 1}
    assert not any(entry.locked for entry in book.entries())


def locked(book: Book) -> set[int]:
    return {e.lease.owner.pid for e in book.entries() if e.locked and e.lease is not None}


def holders(path: Path) -> set[int]:
    """The holder processes of this book, as the system lists them."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = f"ANDON_LEASE_DIR={path}".encode() in (folder / "environ").read_bytes()
            if ours and b"andon.process\0holder" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found
