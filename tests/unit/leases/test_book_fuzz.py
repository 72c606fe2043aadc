"""Anything in any part of the book: no exception, and the honest entries are still listed.

ANDON_FUZZ_EXAMPLES asks for more than the usual number of examples.
"""

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from andon.host.processes.kin import myself, pid_scope
from andon.leases.availability import Availability
from andon.leases.book import places
from andon.leases.book.lease_book import Book
from andon.leases.listing import read_listing
from andon.leases.rules.occupants import BLANK, page_of
from andon.leases.rules.queue import in_order
from andon.model import lease_wire, wire
from andon.model.codec import JsonDocument, document
from andon.model.device import Process, Snapshot
from andon.model.lease import FURTHEST, Cordon, Lease, Ticket, Work
from tests.support.homes import no_other_book, own_folders
from tests.support.sharing_parts import gpu, kin, lease, ticket

EXAMPLES = int(os.environ.get("ANDON_FUZZ_EXAMPLES", min(60, 2 * settings().max_examples)))
NODE = tuple(gpu(i, processes=[Process(os.getpid()), Process(2)]) for i in range(2))
KIN = {os.getpid(): kin(os.getpid()), 2: kin(2, uid=0)}
EVIL = lease(0, name="evil", owner=myself(), work=Work(os.getpid(), 1, os.getpgid(0)))
PARTS: dict[str, tuple[str, JsonDocument]] = {
    places.LEASES: ("evil-0.lease", EVIL),
    places.TICKETS: ("evil-0.ticket", ticket("evil")),
    places.CORDONS: ("cGPU-0", Cordon("GPU-0", 1.0, "root", "")),
}

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, -1, 2**22, 2**22 + 1, 2**31, 2**53, 2**62, 2**63, os.getpid()]),
    st.floats(),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(st.characters(), max_size=40)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    no_other_book(monkeypatch)


@contextmanager
def a_book(folder: str) -> Iterator[Book]:
    """One with an honest lease, ticket and cordon in it."""
    book = Book(own_folders(Path(folder)))
    held = book.write_lease(lease(1, owner=myself(), work=Work(os.getpid(), 1, os.getpid())))
    waiting = book.write_ticket(ticket("t1", since=time.time()))
    book.cordon(Cordon("GPU-1", time.time(), "root", "honest"))
    yield book
    held.release()
    waiting.release()


def check(book: Book) -> None:
    """Every way in which the book is read, and what is said of it."""
    for _ in range(2):  # the second time from memory
        entries = book.entries()
        assert "k7qm2" in {entry.lease.id for entry in entries if entry.lease}
        waiting = book.waiting()
        assert "t1" in {one.ticket.id for one in waiting}
        assert "GPU-1" in {cordon.uuid for cordon in book.cordons()}
        in_order(waiting, time.time())
        page = page_of(entries, NODE, KIN, pid_scope(), BLANK, time.time())
        for held in page.leases:
            assert "-" not in held.remedy
            assert set(held.remedy.split()[1:]) <= {str(pid) for pid in KIN} | _left(entries)
    availability = Availability(lambda: Snapshot("n", 1.0, devices=NODE))
    found = read_listing(availability, availability.view(), book).leases
    wire.dumps(document(found)).encode()
    book.sweep(entries)
    assert "k7qm2" in {entry.lease.id for entry in book.entries() if entry.lease}


def _left(entries: list[Any]) -> set[str]:
    return {str(pid) for entry in entries for pid in entry.left}


def put(book: Book, part: str, content: bytes, locked: bool) -> None:
    path = book.path / part / PARTS[part][0]
    path.write_bytes(content)
    path.with_suffix(".awake").touch()
    descriptor = os.open(path, os.O_RDONLY)
    if locked:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        check(book)
    finally:
        os.close(descriptor)


def fuzzed(test: Callable[..., None]) -> Callable[..., None]:
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return seed(12)(
        settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=quiet)(test)
    )


@pytest.mark.slow
@fuzzed
@given(st.sampled_from(sorted(PARTS)), st.binary(max_size=300), st.booleans())
def test_any_bytes(part: str, content: bytes, locked: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, a_book(folder) as book:
        put(book, part, content, locked)


@pytest.mark.slow
@fuzzed
@given(st.sampled_from(sorted(PARTS)), values, st.booleans())
def test_any_json(part: str, content: Any, locked: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, a_book(folder) as book:
        put(book, part, json.dumps(content).encode(), locked)


@pytest.mark.slow
@fuzzed
@given(st.sampled_from(sorted(PARTS)), st.data(), st.booleans())
def test_any_value_in_any_field(part: str, data: st.DataObject, locked: bool) -> None:
    """A whole entry of which one field, or one in a table of it, is anything."""
    _, whole = PARTS[part]
    value = document(whole)
    table = value
    name = data.draw(st.sampled_from(sorted(value)))
    if isinstance(value[name], dict) and data.draw(st.booleans()):
        table = value[name]
        name = data.draw(st.sampled_from(sorted(table)))
    table[name] = data.draw(st.one_of(numbers, values))
    line = json.dumps({"work": data.draw(values)}) if data.draw(st.booleans()) else "{"
    with tempfile.TemporaryDirectory() as folder, a_book(folder) as book:
        put(book, part, f"{json.dumps(value)}\n{line}\n".encode(), locked)


@pytest.mark.slow
@fuzzed
@given(st.sampled_from(sorted(PARTS)), st.binary(min_size=1, max_size=40), st.booleans())
def test_any_name(part: str, name: bytes, locked: bool) -> None:
    plain = name.replace(b"/", b"_").replace(b"\0", b"_")
    with tempfile.TemporaryDirectory() as folder, a_book(folder) as book:
        where = os.fsencode(book.path / part)
        target = os.path.join(where, b"x" + plain + data_suffix(part))  # noqa: PTH118 - bytes
        descriptor = os.open(target, os.O_RDWR | os.O_CREAT, 0o644)
        if locked:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        check(book)
        os.close(descriptor)


def data_suffix(part: str) -> bytes:
    return {places.LEASES: b".lease", places.TICKETS: b".ticket"}.get(part, b"")


@pytest.mark.slow
@fuzzed
@given(st.floats(allow_nan=False, min_value=-4e9, max_value=2e11), st.booleans())
def test_any_time_of_the_file(at: float, locked: bool) -> None:
    """Its owner sets the file's time: the end of a lease, and when a waiter was last awake."""
    with tempfile.TemporaryDirectory() as folder, a_book(folder) as book:
        for part in (places.LEASES, places.TICKETS):
            name, whole = PARTS[part]
            path = book.path / part / name
            path.write_text(json.dumps(document(whole)) + "\n")
            path.with_suffix(".awake").touch()
            for one in (path, path.with_suffix(".awake")):
                os.utime(one, (at, at))
        check(book)


# What is written can be read.

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
pids = st.integers(1, 2**22)
ticks = st.integers(0, 2**53)


@fuzzed
@given(texts, pids, ticks, st.floats(0, 3e10), st.floats(0, 1e300), st.integers(2, 2**22))
def test_every_honest_lease_can_be_read(
    command: str, pid: int, tick: int, since: float, until: float, group: int
) -> None:
    made = lease(
        0, command=command, since=since, since_ticks=tick, fence=tick, until=until,
        owner=myself(pid), work=Work(pid, tick, group), memory_gib=0.5,
    )  # fmt: skip
    read: Lease = lease_wire.lease_from_json(wire.loads(wire.dumps(document(made)), wire.ANSWER))
    assert (read.command, read.owner, read.work) == (made.command, made.owner, made.work)
    assert read.until == min(until, FURTHEST)


@fuzzed
@given(st.integers(-1000, 1000), st.floats(0, 3e10), pids)
def test_every_honest_ticket_can_be_read(priority: int, since: float, pid: int) -> None:
    made = ticket("t1", since, priority, pid=pid)
    read: Ticket = lease_wire.ticket_from_json(wire.loads(wire.dumps(document(made)), wire.ANSWER))
    assert read == made
