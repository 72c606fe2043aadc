"""What the book makes of devices and processes: marks, strangers, orphans, leases that ended."""

import pytest
from msgspec.structs import replace

from andon.explain.evidence.observation import PreviousLease
from andon.leases.rules.occupants import (
    BLANK,
    SETTLING_SECONDS,
    BookView,
    Holder,
    Marker,
    holders,
    page_of,
    wanted_pids,
)
from andon.model.device import NAMES_MISSING, DeviceStatus, Process, ProcessKind
from andon.model.lease import BookEntry, Kin, LeaseState, PidScope, Work
from andon.units import GIB
from tests.support.sharing_parts import claim, entry, gpu, kin, lease, owner

HERE, AT = PidScope("b", "n"), 5000.0
MINE, OTHER = kin(300), kin(400, uid=1001)


def page(
    entries: list[BookEntry],
    statuses: list[DeviceStatus],
    *known: Kin,
    before: BookView = BLANK,
    at: float = AT,
) -> BookView:
    return page_of(entries, statuses, {one.pid: one for one in known}, HERE, before, at)


def on(index: int, *processes: Process, **more: object) -> DeviceStatus:
    return gpu(index, processes=processes, **more)  # type: ignore[arg-type]


def test_a_process_is_marked_with_its_lease_and_another_is_a_stranger() -> None:
    found = page([entry(lease(0))], [on(0, Process(300), Process(400))], MINE, OTHER)
    assert found.marks == {"GPU-0": {300: "k7qm2"}}
    assert found.sharing.strangers == {"GPU-0": frozenset({400})}
    assert found.sharing.unsure == frozenset()
    [held] = found.leases
    assert (held.id, held.user, held.devices, held.orphaned) == (
        "lease:k7qm2", "alice", ("GPU-0",), False,
    )  # fmt: skip
    assert [(party.pid, party.user) for party in held.who] == [(100, "alice")]


@pytest.mark.parametrize(
    ("status", "known"),
    [
        (on(0, Process(400)), ()),  # hidden from us
        (on(0, Process(400), missing={NAMES_MISSING: "pids of the host"}), (OTHER,)),
        (on(0, missing={"processes": "not permitted"}), ()),
    ],
)
def test_nobody_is_a_stranger_on_what_is_not_known(
    status: DeviceStatus, known: tuple[Kin, ...]
) -> None:
    found = page([entry(lease(0))], [status], *known)
    assert found.sharing.strangers == {}
    assert found.sharing.unsure == {"GPU-0"}


def test_a_desktop_and_a_device_without_a_lease_have_no_strangers() -> None:
    desktop = Process(400, kind=ProcessKind.GRAPHICS)
    found = page([entry(lease(0))], [on(0, desktop), on(1, Process(400))], OTHER)
    assert (found.sharing.strangers, found.sharing.unsure) == ({}, frozenset())


def test_a_container_that_came_later_may_be_the_holders() -> None:
    """An engine runs it as root and in a session of its own, whoever asked for it."""
    later, early = kin(400, uid=0, container="c9"), kin(500, uid=7, container="c1", started_ticks=9)
    found = page([entry(lease(0))], [on(0, Process(400))], later)
    assert (found.sharing.strangers, found.sharing.unsure) == ({}, frozenset({"GPU-0"}))
    found = page([entry(lease(0))], [on(0, Process(500))], early)
    assert found.sharing.strangers == {"GPU-0": frozenset({500})}


def test_nobody_is_a_stranger_on_a_device_of_their_own() -> None:
    notebook, server = Process(300), Process(600, name="nvidia-cuda-mps-server")
    own, root = kin(300, started_ticks=1), kin(600, uid=0, started_ticks=1)
    found = page([entry(lease(0))], [on(0, notebook, server)], own, root)
    assert (found.marks, found.sharing.strangers) == ({"GPU-0": {}}, {})
    assert found.sharing.unsure == frozenset()


def test_who_took_a_used_device_knows_those_that_were_there() -> None:
    held = lease(0, even_if_used=True, since_ticks=60)
    early, late = kin(400, uid=1001, started_ticks=10), kin(500, uid=1001, started_ticks=99)
    found = page([entry(held)], [on(0, Process(400), Process(500))], early, late)
    assert found.sharing.strangers == {"GPU-0": frozenset({500})}


def test_who_leased_around_a_process_knows_those_that_came_after_it_and_before_the_lease() -> None:
    """Its ticks are those of the process: the wall clock says when the device was taken."""
    held = lease(0, even_if_used=True, since_ticks=60, since=1000.0)
    early, late = kin(400, uid=1001, started_ticks=70), kin(500, uid=1001, started_ticks=99)
    there = on(0, Process(400, started=900.0), Process(500, started=1100.0))
    assert page([entry(held)], [there], early, late).sharing.strangers == {"GPU-0": {500}}


def test_a_simulated_process_has_no_relations_and_is_known_all_the_same() -> None:
    status = on(0, Process(5_000_001, started=AT), Process(5_000_002, started=10.0))
    simulated = replace(status, device=replace(status.device, vendor="sim"))
    held = lease(0, even_if_used=True, since=1000.0)
    found = page([entry(held)], [simulated])
    assert found.sharing.strangers == {"GPU-0": frozenset({5_000_001})}
    assert wanted_pids([entry(held)], [simulated]) == set()


def test_only_those_on_leased_devices_are_looked_up() -> None:
    statuses = [on(0, Process(300)), on(1, Process(400))]
    assert wanted_pids([entry(lease(0)), entry(None)], statuses) == {300}


def test_an_orphan_names_what_is_left_of_it_and_how_to_end_it() -> None:
    dead = lease(0, work=Work(150, 61, 150), command="python train.py")
    there = Process(300, user="alice", name="python", command="python train.py")
    found = page([entry(dead, locked=False)], [on(0, there)], kin(300, group=150))
    [held] = found.leases
    assert held.orphaned
    assert [party.pid for party in held.who] == [300]
    assert held.remedy == "kill 300"
    elsewhere = replace(dead, owner=owner(pid_namespace="another"))
    [held] = page([entry(elsewhere, locked=False)], [on(0, there)], kin(300)).leases
    assert held.remedy == "kill 300"
    [held] = page([entry(dead, locked=False, left=(151,))], [on(0)]).leases
    [left] = held.who
    # Who may not see the command line gets no word of it.
    assert (left.pid, left.name, left.command) == (151, None, "python train.py")
    assert held.remedy == "kill 151"


def test_a_remedy_names_only_pids_that_were_verified_and_never_a_group() -> None:
    dead = lease(0, 1, work=Work(1, 61, 1), command="x")
    victim, own = Process(400, user="bob"), Process(300, user="alice")
    known = kin(400, uid=1001, session=90), kin(300, session=90)
    found = page([entry(dead, locked=False, left=(0, 1, 301))], [on(0, victim, own)], *known)
    [held] = found.leases
    assert held.remedy == "kill 300 301"
    assert [party.pid for party in held.who] == [300]
    assert page([entry(dead, locked=False)], [on(0, victim)], known[0]).leases == ()


def test_a_lease_that_ended_is_remembered_while_memory_stays() -> None:
    full, empty = gpu(0, used_gib=40), gpu(0)
    first = page([entry(lease(0))], [full])
    ended = page([], [full], before=first, at=AT + 1)
    assert ended.sharing.former == {"GPU-0": PreviousLease("lease:k7qm2", "alice", AT + 1)}
    much_later = page([], [full], before=ended, at=AT + 90_000)
    assert much_later.sharing.former == ended.sharing.former
    gone = page([], [empty], before=ended, at=AT + 1 + SETTLING_SECONDS)
    assert gone.sharing.former == {}


def test_an_ended_lease_is_remembered_for_a_moment_in_any_case_and_not_beyond_the_next() -> None:
    first = page([entry(lease(0))], [gpu(0)])
    ended = page([], [gpu(0)], before=first, at=AT + 1)
    assert "GPU-0" in ended.sharing.former
    taken = page([entry(lease(0, name="next"))], [gpu(0, used_gib=40)], before=ended, at=AT + 2)
    assert taken.sharing.former == {}
    unlisted = page([], [gpu(1)], before=ended, at=AT + 2)
    assert unlisted.sharing.former == {}


def test_a_device_whose_processes_cannot_be_read_keeps_its_last_lease() -> None:
    first = page([entry(lease(0))], [gpu(0)])
    hidden = gpu(0, missing={"processes": "not permitted"})
    assert page([], [hidden], before=first, at=AT + 1000).sharing.former.keys() == {"GPU-0"}


def test_what_a_file_says_reaches_no_id_and_no_screen_as_it_is() -> None:
    hostile = lease(0, name="a/b\x1b[31m#9@" + "z" * 4000, command="rm\x1b]0;pwned\x07\n" * 90)
    found = page([entry(hostile), entry(lease(0, name="")), entry(lease(0, name="\n"))], [on(0)])
    names = [held.id for held in found.leases]
    assert names == ["lease:ab31m9zzzzzzzzzz", "lease:unnamed", "lease:unnamedx"]
    assert len(found.leases[0].name or "") == 200
    assert all(c.isprintable() for held in found.leases for c in (held.name or ""))


def test_two_files_of_one_id_are_two_subjects() -> None:
    found = page([entry(lease(0)), entry(lease(1))], [gpu(0), gpu(1)])
    assert [held.id for held in found.leases] == ["lease:k7qm2", "lease:k7qm2x"]


def test_holders_are_told_by_device_and_what_cannot_be_read_may_hold_any() -> None:
    whole = claim(lease(0, until=9.0))
    part = claim(lease(1, name="p3xw9", memory_gib=10), user="bob")
    closed = replace(claim(None, LeaseState.UNREADABLE, "mallory"), file="x.lease")
    assert holders(BookView((whole, part)), ["GPU-0", "GPU-1", "GPU-2"]) == {
        "GPU-0": [Holder("k7qm2", "alice", 9.0, None, LeaseState.HELD)],
        "GPU-1": [Holder("p3xw9", "bob", None, 10 * GIB, LeaseState.HELD)],
    }
    unreadable = Holder(None, "mallory", None, None, LeaseState.UNREADABLE)
    assert holders(BookView((closed,)), ["GPU-2"]) == {"GPU-2": [unreadable]}


def test_marks_leave_what_did_not_change_the_same_object() -> None:
    marker, processes = Marker(), (Process(300), Process(400))
    status, other = on(0), on(1, Process(500))
    status = replace(status, processes=processes)
    first = marker.marked((status, other), {"GPU-0": {300: "k7qm2"}})
    assert [p.lease for p in first[0].processes] == ["k7qm2", None]
    assert first[1] is other
    again = marker.marked((replace(status), other), {"GPU-0": {300: "k7qm2"}})
    assert again[0].processes is first[0].processes
    changed = marker.marked((status, other), {"GPU-0": {300: "p3xw9"}})
    assert changed[0].processes[0].lease == "p3xw9"
    statuses = (status, other)
    assert marker.marked(statuses, {}) is statuses
