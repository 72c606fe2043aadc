"""What a list of leases says, and what it keeps for itself."""

import pytest
from msgspec.structs import replace

from andon.access.roles import ANONYMOUS, Identity, Role
from andon.errors import Invalid
from andon.leases.rules.rights import LeaseRequester
from andon.leases.rules.rows import cordon_rows, lease_rows, waiting_rows
from andon.model.codec import document, read_document
from andon.model.device import Process
from andon.model.lease import Claim, Cordon, LeaseKind, LeaseState, PidScope
from andon.model.lease_list import BookRow, LeaseList
from andon.node.seen.sights import leases_seen_by
from andon.units import GIB
from tests.support.sharing_parts import capacities_of, claim, gpu, kin, lease, need, ticket

HERE = PidScope("b", "n")
ALICE = LeaseRequester(1000, HERE)


def test_what_is_used_is_summed_over_the_leases_devices_and_no_others() -> None:
    mine = claim(lease(0, 1, until=5000.0, command="python train.py", fence=9))
    statuses = [
        gpu(0, busy=90, processes=[Process(7, memory_bytes=10 * GIB)]),
        gpu(1, busy=50, processes=[Process(8, memory_bytes=5 * GIB)]),
        gpu(2, busy=10, processes=[Process(9, memory_bytes=40 * GIB)]),
    ]
    family = {pid: kin(pid) for pid in (7, 8, 9)}
    [row] = lease_rows([mine], capacities_of(statuses, mine, kin=family, scope=HERE), ALICE)
    assert (row.used_bytes, row.promised_bytes) == (15 * GIB, None)
    assert row.utilization_percent == 70.0
    assert (row.id, row.user, row.kind, row.pid) == ("k7qm2", "alice", LeaseKind.COMMAND, 100)
    assert (row.since, row.until, row.command, row.fence) == (1000.0, 5000.0, "python train.py", 9)
    assert (row.releasable, row.not_releasable_reason) == (True, None)


def test_promises_are_summed_where_memory_was_promised() -> None:
    part = claim(lease(0, 1, memory_gib=10))
    [row] = lease_rows([part], capacities_of([gpu(0), gpu(1)], part), ALICE)
    assert row.promised_bytes == 20 * GIB


def test_of_what_cannot_be_read_nothing_is_claimed() -> None:
    closed = Claim(None, LeaseState.UNREADABLE, 1001, "bob", "x.lease")
    [row] = lease_rows([closed], capacities_of([gpu(0, busy=90)], closed), ALICE)
    unknown = (row.id, row.kind, row.since, row.until, row.command, row.fence, row.pid)
    assert unknown == (None,) * 7
    assert (row.devices, row.utilization_percent, row.releasable) == ((), None, False)
    assert row.not_releasable_reason == "a lease of bob cannot be read: ask bob, or root"


def test_a_device_that_is_not_here_has_no_utilisation() -> None:
    away = claim(lease(7))
    [row] = lease_rows([away], capacities_of([gpu(0, busy=90)], away), ALICE)
    assert row.utilization_percent is None


def test_the_line_and_the_cordons_are_told_in_order() -> None:
    line = [ticket("a", wanted=need(2, memory_bytes=GIB)), ticket("b", user="bob", priority=-1)]
    first, second = waiting_rows(line)
    assert (first.position, first.gpus, first.memory_bytes) == (1, 2, GIB)
    assert (second.position, second.user, second.priority) == (2, "bob", -1)
    devices = [gpu(0).device]
    rows = cordon_rows([Cordon("GPU-0", 1.0, "root", "fan"), Cordon("GPU-9", 2.0, "root")], devices)
    assert [row.index for row in rows] == [0, None]


def a_list() -> LeaseList:
    held = [claim(lease(0, command="secret", fence=9)), claim(None, LeaseState.UNREADABLE)]
    return LeaseList(
        1000.0,
        lease_rows(held, capacities_of([gpu(0)], *held), ALICE),
        waiting_rows([ticket()]),
        cordon_rows([Cordon("GPU-9", 2.0, "root")], []),
        BookRow("/run/andon", "root"),
    )


def test_a_list_is_read_as_it_was_written() -> None:
    said = document(a_list())
    assert read_document(LeaseList, said) == a_list()
    newer = {**said, "leases": [{**row, "more": 1} for row in said["leases"]]}
    assert read_document(LeaseList, newer) == a_list()


@pytest.mark.parametrize(
    "change",
    [{"schema": "andon.leases/2"}, {"leases": [{}]}, {"leases": 3}, {"at": "now"}, {"book": []}],
)
def test_what_is_no_list_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        read_document(LeaseList, {**document(a_list()), **change})


def test_strangers_learn_who_and_not_what_for() -> None:
    shown = leases_seen_by(ANONYMOUS, a_list())
    assert [row.command for row in shown.leases] == [None, None]
    assert [row.fence for row in shown.leases] == [None, None]
    assert [row.user for row in shown.leases] == ["alice", "alice"]


def test_a_lease_for_somebody_names_both_and_knows_their_processes() -> None:
    dora = claim(lease(0, whom="dora", kind=LeaseKind.NETWORK))
    status = gpu(0, processes=[Process(7, user="dora", memory_bytes=GIB), Process(8, user="bob")])
    family = {pid: kin(pid, uid=2000) for pid in (7, 8)}
    [capacity] = capacities_of([status], dora, kin=family, scope=HERE)
    [row] = lease_rows([dora], [capacity], ALICE)
    assert (row.user, row.whom, row.holder, row.used_bytes) == (
        "alice", "dora", "alice for dora", GIB,
    )  # fmt: skip
    assert [process.user for process in capacity.strangers] == ["bob"]
    assert dora.holder == "alice for dora"
    assert claim(lease(0)).holder == "alice"


def test_a_user_may_end_the_own_lease_and_is_told_whose_the_others_are() -> None:
    [row, *_] = a_list().leases
    uid = row.uid
    whole = replace(a_list(), leases=(row,))
    [own] = leases_seen_by(Identity(Role.USER, uid, "alice"), whole).leases
    assert (own.command, own.fence) == (row.command, row.fence)
    [other] = leases_seen_by(Identity(Role.USER, uid + 1, "bob"), whole).leases
    assert (other.command, other.fence, other.releasable) == (None, None, False)
    assert other.not_releasable_reason == (
        "bob may not release this: it belongs to alice: ask alice, or root"
    )
    [root] = leases_seen_by(Identity(Role.OWNER, 0, "root"), whole).leases
    assert root == row


def test_a_server_that_cannot_end_a_users_own_lease_names_the_command() -> None:
    row = replace(a_list().leases[0], releasable=False, not_releasable_reason="x")
    whole = replace(a_list(), leases=(row,))
    [own] = leases_seen_by(Identity(Role.USER, row.uid, "alice"), whole, "carol").leases
    assert own.not_releasable_reason == (
        f"carol runs this server and cannot end it: andon release {row.id}"
    )
