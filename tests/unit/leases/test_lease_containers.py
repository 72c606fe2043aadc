"""A lease knows its containers: whose their processes are, and whether it is orphaned."""

import os
from pathlib import Path

import pytest

from andon.errors import Unavailable
from andon.leases.book.hold import append_container, name_container_in
from andon.leases.book.lease_book import Book
from andon.leases.book.rejoin import lease_of, shorten
from andon.leases.rules.membership import (
    BY_ITSELF,
    BY_WORD,
    believed_in_containers,
    bond,
    judge,
    occupancy,
)
from andon.leases.rules.rights import LeaseRequester, barred
from andon.model import lease_wire, wire
from andon.model.codec import document
from andon.model.device import Process
from andon.model.lease import Claim, LeaseState, PidScope, Work
from andon.units import GIB
from tests.support.sharing_parts import entry, gpu, kin, lease

HERE = PidScope("b", "n")
ID, OTHER = "a" * 64, "c" * 64
HELD = lease(0, containers=(ID,))


def test_its_processes_are_its_own_and_their_memory_counts() -> None:
    rows = [
        (kin(7, container=ID), BY_ITSELF),  # its owner's
        (kin(7, uid=0, started_ticks=70, container=ID), BY_WORD),  # root's, in the container
        (kin(7, uid=0, container=OTHER), 0),
        (kin(7, uid=0), 0),
    ]
    assert [bond(HELD, one, HERE) for one, _ in rows] == [strength for _, strength in rows]
    status = gpu(0, processes=[Process(7, memory_bytes=5 * GIB)])
    claims = [Claim(HELD, LeaseState.HELD, 1000, "alice")]
    found = occupancy(status, claims, {7: kin(7, uid=0, container=ID)}, HERE)
    assert (found.used_bytes, found.strangers) == ({"k7qm2": 5 * GIB}, ())


def test_only_its_owners_live_processes_prove_that_it_is_orphaned() -> None:
    members = {
        ID: (kin(7), kin(8, uid=0), kin(9, ended=True)),
        OTHER: (kin(10),),
    }
    assert believed_in_containers(HELD, 1000, members) == (7,)
    assert believed_in_containers(HELD, 0, members) == (7, 8)  # root may stop any process
    assert believed_in_containers(lease(0), 1000, members) == ()
    left = judge([entry(HELD, locked=False, left=(7,))], [], {}, HERE)
    assert [claim.state for claim in left] == [LeaseState.ORPHANED]
    assert judge([entry(HELD, locked=False)], [], {}, HERE) == ()


def test_whoever_wants_to_release_an_orphan_is_told_how_to_adopt_it() -> None:
    claim = Claim(HELD, LeaseState.ORPHANED, 1000, "alice", left=(7,))
    found = barred(claim, LeaseRequester(1000, HERE))
    assert found is not None
    assert found.hint == "take it over: andon lease adopt k7qm2; or stop it (pid 7)"


def test_containers_survive_json_and_their_number_is_bounded() -> None:
    text = wire.dumps(document(HELD))
    assert lease_wire.lease_from_json(wire.loads(text, wire.ANSWER)).containers == (ID,)
    old = {k: v for k, v in document(HELD).items() if k != "containers"}
    assert lease_wire.lease_from_json(old).containers == ()
    many = lease(0)
    for number in range(lease_wire.MOST_CONTAINERS + 9):
        many = lease_wire.with_work(many, {"container": f"c{number}"})
    assert len(many.containers) == lease_wire.MOST_CONTAINERS
    for hostile in ({"container": 5}, {"container": "x" * 999}, {"container": None}):
        assert lease_wire.with_work(HELD, hostile) == HELD


def test_a_container_is_added_to_the_file_and_its_end_stays(book: Book) -> None:
    held = book.write_lease(lease(0, until=5_000_000_000.0))
    held.hold.name_container(ID)
    held.hold.name_container(OTHER)
    (found,) = book.entries()
    assert found.lease is not None
    assert (found.lease.containers, found.lease.until) == ((ID, OTHER), 5_000_000_000.0)
    held.release()


def test_a_container_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """It must not be started: its processes would be strangers on their own device."""
    (tmp_path / "lease").write_text("")
    with (tmp_path / "lease").open("rb") as closed_to_writing, pytest.raises(Unavailable):
        append_container(closed_to_writing.fileno(), ID)


def test_a_lease_that_names_a_container_per_item_stays_readable(book: Book) -> None:
    """Readers take 256 containers: it is written again, and is held by the same process."""
    with book.locked():
        held = book.write_lease(lease(0))
    for number in range(600):
        shorten(held.hold)
        held.hold.name_container(f"{number:064d}")
        (found,) = book.entries() if number % 100 == 99 else (None,)
        if found is not None:
            assert found.locked
            assert found.lease is not None
            assert (found.lease.id, found.lease.containers[-1]) == ("k7qm2", f"{number:064d}")
    assert held.hold.is_in_book
    held.release()
    assert book.entries() == []


def test_what_follows_half_a_line_is_read(book: Book) -> None:
    """A full disk took only half of an earlier line."""
    with book.locked():
        held = book.write_lease(lease(0))
    for container in (ID, OTHER):
        os.write(held.hold.descriptor, b'{"work":{"pi')
        held.hold.name_container(container)
    os.write(held.hold.descriptor, b'{"work":{"pi')
    held.hold.add(Work(4711, 5))
    (found,) = book.entries()
    assert found.lease is not None
    assert found.lease.containers == (ID, OTHER)
    assert found.lease.work == Work(4711, 5)
    assert lease_of(held.hold).containers == (ID, OTHER)
    held.release()


def test_another_process_names_a_container_after_half_a_line(book: Book) -> None:
    with book.locked():
        held = book.write_lease(lease(0))
    os.write(held.hold.descriptor, b'{"work":{"pi')
    name_container_in(Path(held.hold.place), ID)
    (found,) = book.entries()
    assert found.lease is not None
    assert found.lease.containers == (ID,)
    held.release()
