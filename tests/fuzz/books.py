"""Fuzzes the lease book: whatever another user may leave in its folders.

No forged entry is ever released here: that would signal the process that it names.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from andon.access.roles import ANONYMOUS
from andon.host.processes.kin import pid_scope
from andon.leases.availability import Availability, AvailabilityView
from andon.leases.book.lease_book import Book
from andon.leases.listing import read_listing
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.node.seen.sights import leases_seen_by
from andon.web.live.watch import prepared
from tests.fuzz.chance import NUMBERS, Chance, nested, rounds
from tests.fuzz.target import COMMAND, LIMIT_SECONDS, Target
from tests.integration.conftest import andon
from tests.support.sharing_parts import gpu

NOBODY = 65534
PARTS = {"leases": ".lease", "tickets": ".ticket", "cordons": ""}
MOST_FILES = 12
COMMANDS = (
    ("leases", "--json"), ("leases",), ("free", "--json"), ("free",), ("status", "--json"),
    ("ps", "--json"), ("doctor", "--json"), ("who",),
)  # fmt: skip
OWNER = {
    "uid": 1000, "user": "alice", "pid": 4194304, "started_ticks": 50, "session": 4194304,
    "boot": pid_scope().boot, "pid_namespace": pid_scope().pid_namespace, "container": None,
}  # fmt: skip
LEASE: dict[str, Any] = {
    "schema": "andon.lease/1", "id": "hogxx", "kind": "command", "since": 1700000000.0,
    "since_ticks": 60, "until": None, "command": "python x.py", "simulated": False,
    "even_if_used": False, "fence": 7, "owner": OWNER,
    "shares": [{"uuid": "GPU-0", "index": 0, "memory_bytes": None}],
    "work": {"pid": 4194304, "started_ticks": 50, "group": 4194304},
}  # fmt: skip
TICKET: dict[str, Any] = {
    "schema": "andon.ticket/1", "id": "waitx", "owner": OWNER, "priority": 0,
    "since": 1700000000.0, "simulated": False, "until": None,
    "need": {"eligible": ["GPU-0"], "least": 1, "most": 1, "memory_bytes": None, "shared": False,
             "balanced": True, "even_if_used": False},
}  # fmt: skip
CORDON: dict[str, Any] = {
    "schema": "andon.cordon/1", "uuid": "GPU-3", "at": 1700000000.0, "by": "root", "reason": "fan",
}  # fmt: skip
PROCESSES = (0, 1, 2, 2**22, 2**22 + 1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, -1, True, 1.5)
ENTRIES = {"leases": LEASE, "tickets": TICKET, "cordons": CORDON}


def play(target: Target, seed: int, seconds: float) -> int:
    """Rounds of up to a dozen files, read in this process, by the server and by commands."""
    readers = Book({"ANDON_LEASE_DIR": str(target.book)}, make=False)
    state = target.book.parent / "state-of-commands"
    (honest,) = (target.book / "leases").glob(f"{target.lease}-*")

    def one(chance: Chance, number: int) -> None:
        with forged(honest, chance):
            _read(readers if chance.random() < 0.8 else Book(_env(target), make=False), target)
            if number % 5 == 0:
                target.check()
                status, told = target.get("/api/board")
                assert status == 200, told[:500]
            if number % 20 == 0:
                _command(chance, target, state)

    return rounds("books", seed, seconds, one)


def _env(target: Target) -> dict[str, str]:
    return {"ANDON_LEASE_DIR": str(target.book)}


# What is left in the book.


@contextmanager
def forged(honest: Path, chance: Chance) -> Iterator[None]:
    """Some files in the book, some of them locked; all of them gone afterwards."""
    with ExitStack() as stack:
        for _ in range(chance.randrange(1, MOST_FILES)):
            with suppress(OSError, ValueError):  # a name that the system refuses
                stack.enter_context(_one(honest, chance))
        yield


@contextmanager
def _one(honest: Path, chance: Chance) -> Iterator[None]:
    part = chance.choice(("leases", "leases", "tickets", "tickets", "cordons"))
    path = os.fsencode(honest.parents[1] / part) + b"/" + _name(honest, chance, part)
    if os.path.lexists(path):
        yield  # the honest lease's own name, or one of this round's
        return
    descriptor = -1
    try:
        descriptor = _made(path, chance, honest, part)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        _remove(path)


def _remove(path: bytes) -> None:
    for remove in (os.unlink, os.rmdir):
        with suppress(OSError):
            remove(path)


def _name(honest: Path, chance: Chance, part: str) -> bytes:
    lease = chance.choice(("hogxx", honest.name.partition("-")[0], "x" * 120))
    plain = f"{lease}-{chance.getrandbits(64):016x}"
    odd = chance.text().replace("/", "").replace("\x00", "")[:80]
    named = (
        f"{plain}{PARTS[part]}".encode(),
        f"{plain}.lease".encode(),
        honest.name.encode(),  # the name of a lease in the folder of tickets
        f".{plain}".encode(),
        plain.encode(),
        (odd + PARTS[part]).encode("utf-8", "surrogatepass"),
        b"\xff\xfe" + PARTS[part].encode(),
        b"c" * 250,
    )
    return chance.choices(named, (6, 1, 2, 1, 1, 2, 1, 1))[0] or b"-"


def _made(path: bytes, chance: Chance, honest: Path, part: str) -> int:
    """The file; its descriptor where it stays locked, else -1."""
    kinds = ("file", "link", "pipe", "folder", "socket", "huge")
    kind = chance.choices(kinds, (20, 1, 1, 1, 1, 1))[0]
    if kind == "link":
        leads = chance.choice(("/etc/shadow", "/dev/zero", os.fsdecode(path), "/nonexistent"))
        Path(os.fsdecode(path)).symlink_to(leads)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        Path(os.fsdecode(path)).mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path)
    else:
        return _file(path, chance, honest, part, huge=kind == "huge")
    return -1


def _file(path: bytes, chance: Chance, honest: Path, part: str, huge: bool) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    same_name = path.endswith(b"/" + honest.name.encode())
    os.write(descriptor, _content(chance, honest, part, same_name))
    if huge:
        os.truncate(descriptor, chance.choice((64 * 1024, 64 * 1024 + 1, 1 << 40)))
    with suppress(OverflowError, OSError):
        at = chance.choice((0.0, time.time(), time.time() + 1e6, 4e9, 1e11, -1e6))
        os.utime(descriptor, (at, at))
    if os.geteuid() == 0 and part != "cordons" and chance.random() < 0.7:
        os.fchown(descriptor, NOBODY, NOBODY)
    os.fchmod(descriptor, chance.choices((0o644, 0o600, 0o000, 0o777), (12, 1, 1, 1))[0])
    how = chance.choices((None, fcntl.LOCK_EX, fcntl.LOCK_SH), (4, 5, 1))[0]
    if how is None:
        os.close(descriptor)
        return -1
    fcntl.flock(descriptor, how)
    return descriptor


def _content(chance: Chance, honest: Path, part: str, same_name: bool) -> bytes:
    value = chance.choice((ENTRIES[part], ENTRIES[part], ENTRIES[part], *ENTRIES.values()))
    written = chance.json_bytes(chance.one_field(value))
    kind = chance.choice((8, 8, 3)) if same_name else chance.randrange(10)
    if kind < 2:
        return written + b"\n" + _work(chance)
    if kind < 5:
        return chance.json_bytes(_numbered(chance, value)) + b"\n" + _work(chance)
    if kind == 5:
        return chance.json_bytes(chance.changed(value, 0.3)) + b"\n"
    if kind == 6:
        return chance.spoiled(written)
    if kind == 7:
        return chance.choice((b"", b"\n", nested(5000), b"[" * 20000, chance.junk()))
    if kind == 8:
        size = honest.stat().st_size  # what is known by its name and size is not read again
        return chance.json_bytes(value).ljust(size)[:size]
    return chance.json_bytes(chance.odd()) + b"\n"


def _numbered(chance: Chance, value: dict[str, Any]) -> dict[str, Any]:
    """An odd number as a pid, a group, a time or a count, and all else as it should be."""
    inside = [inner for inner in value.values() if isinstance(inner, dict)]
    holder = chance.choice([value, *inside, *inside])
    names = [name for name, found in holder.items() if isinstance(found, int | float)]
    name = chance.choice(names or ["uid"])
    number = chance.choice(PROCESSES if name in ("pid", "group", "session") else NUMBERS)
    changed = {**holder, name: number}
    if holder is value:
        return changed
    return {name: changed if inner is holder else inner for name, inner in value.items()}


def _work(chance: Chance) -> bytes:
    """A later line of a lease says what it is for."""
    if chance.random() < 0.5:
        return b""
    return chance.json_bytes({"work": chance.one_field(LEASE["work"])}) + b"\n"


# Who reads it.


def _read(book: Book, target: Target) -> None:
    """As every lease command does: entries, queue, cordons, what is free, and the list of it."""
    began = time.monotonic()
    snapshot = Snapshot("node", time.time(), devices=tuple(gpu(index) for index in range(4)))
    availability = Availability(lambda: snapshot)
    found = read_listing(availability, AvailabilityView(snapshot, {}), book).leases
    assert target.lease in {row.id for row in found.leases}, "the honest lease is not listed"
    for trusted in (False, True):
        seen = found if trusted else leases_seen_by(ANONYMOUS, found)
        shown = prepared(document(seen))
        json.loads(shown)
        assert trusted or COMMAND not in shown
    took = time.monotonic() - began
    assert took < LIMIT_SECONDS, f"reading a dozen files took {took:.1f} s"


def _command(chance: Chance, target: Target, state: Path) -> None:
    words = chance.choice(COMMANDS)
    before = dict(os.environ)
    os.environ |= {**_env(target), "XDG_STATE_HOME": str(state)}
    try:
        done = andon(*words, "--simulate", "2", timeout_seconds=LIMIT_SECONDS * 2)
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert "Traceback" not in done.out + done.err, f"andon {' '.join(words)}: {done.err[-3000:]}"
    assert done.code in (0, 1, 3, 6), f"andon {' '.join(words)} ended with {done.code}: {done.err}"
    if words == ("leases", "--json"):
        assert target.lease in {row["id"] for row in done.json()["leases"]}
