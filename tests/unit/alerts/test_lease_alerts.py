"""What alerts about leases say, whom they concern, and that the owner of an idle one is told."""

import pytest
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import board
from andon.alerts.rules.messages import message
from andon.alerts.rules.routes import Route, concerns
from andon.alerts.rules.rule_page import rule_list
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.finding import Finding
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.use.stalled import Stalled, describe
from andon.explain.evidence.observation import (
    HeldDevices,
    Moment,
    Observation,
    PreviousLease,
    ReservedDevices,
    Sharing,
)
from andon.leases.rules.occupants import BookView
from andon.model.alert import Alert, Notice, NoticeKind
from andon.model.codec import document
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.device import State as DeviceState
from andon.model.event import Party
from andon.units import GIB
from tests.support.alerting_parts import Heard, Playing
from tests.support.sharing_parts import gpu
from tests.support.views import facts
from tests.support.waiting import wait_for

AT = 1_767_614_400.0
ALICE = Party(100, "alice", None, "python train.py")
HELD = HeldDevices("lease:k3f9", ("GPU-0", "GPU-1"), AT, "alice", "python train.py", who=(ALICE,))
BOB = Process(4711, user="bob", name="python", command="/usr/bin/python /home/bob/train.py",
              memory_bytes=22 * GIB)  # fmt: skip
BOOK = Rulebook()


def after(
    seconds: float,
    *statuses: DeviceStatus,
    leases: tuple[HeldDevices, ...] | None = (HELD,),
    sharing: Sharing | None = None,
    reserved: tuple[ReservedDevices, ...] = (),
) -> AlertState:
    """The state when this has been so for a while, with a look every twenty seconds."""
    state, passed = EMPTY, 0.0
    while passed <= seconds:
        node = Snapshot("n", AT + passed, boot="one", devices=statuses or (gpu(0), gpu(1)))
        shared = sharing or Sharing()
        seen = Observation(node, leases=leases, sharing=shared, reserved=reserved)
        state = step(state, seen, Moment(AT + passed, passed), BOOK).state
        passed += 20.0
    return state


def one(state: AlertState, rule: str) -> Alert:
    [found] = [alert for alert in current(state) if alert.rule == rule]
    return found


def test_a_squatter_is_named_beside_the_lease_with_the_time() -> None:
    there = gpu(0, used_gib=44, processes=[Process(9, user="alice", memory_bytes=22 * GIB), BOB])
    state = after(120, there, gpu(1), sharing=Sharing({"GPU-0": frozenset({4711})}))
    alert = one(state, "squatter")
    assert alert.message == (
        "GPU 0: used outside lease k3f9 (alice) by pid 4711 (bob, python) for 2 min"
    )
    assert alert.advice == "Ask bob to lease a device: andon run -- COMMAND"
    assert [(party.pid, party.user) for party in alert.affected] == [(4711, "bob"), (100, "alice")]
    assert (alert.value, alert.unit) == (22 * GIB, "bytes")
    assert alert.evidence == {"lease": "k3f9", "user": "alice", "since": AT, "pids": "4711"}
    lamp = board(Snapshot("n", AT, devices=(there,)), [alert])
    assert lamp.headline.startswith("GPU 0 is used outside its lease · bob's train.py")


def test_a_process_of_a_slurm_job_is_named_with_its_number() -> None:
    there = gpu(0, used_gib=22, processes=[replace(BOB, job="slurm:42.0")])
    state = after(120, there, gpu(1), sharing=Sharing({"GPU-0": frozenset({4711})}))
    assert "by pid 4711 (bob, python, Slurm job 42)" in one(state, "squatter").message
    left = Party(4711, "alice", "python", "python train.py", job="slurm:42.batch")
    orphan = HeldDevices("lease:k3f9", ("GPU-0",), AT, "alice", orphaned=True, who=(left,))
    told = one(after(120, leases=(orphan,)), "orphan").message
    assert "pid 4711 (python, Slurm job 42) is still running" in told


def test_several_squatters_and_several_leases_are_counted() -> None:
    others = [BOB, Process(4712, user="carol", name="vllm"), Process(4713)]
    there = gpu(0, used_gib=44, processes=others)
    leases = (HELD, HeldDevices("lease:p3xw", ("GPU-0",), AT, "dave"))
    sharing = Sharing({"GPU-0": frozenset({4711, 4712, 4713})})
    told = one(after(0, there, gpu(1), leases=leases, sharing=sharing), "squatter").message
    assert told == (
        "GPU 0: used outside lease k3f9 (alice) and lease p3xw (dave) "
        "by pid 4711 (bob, python) and 2 more"
    )


def test_an_idle_lease_names_its_devices_and_the_command_that_gives_it_back() -> None:
    alert = one(after(1860), "idle_lease")
    assert alert.message == "Lease k3f9 (alice) has left GPU 0, 1 idle for 31 min"
    assert alert.advice == "If unused, alice can release it: andon release k3f9"
    assert (alert.where, alert.device, alert.threshold) == ("lease k3f9", None, 1800.0)
    assert [party.user for party in alert.affected] == ["alice"]
    idle = [a for a in current(after(1860)) if a.rule == "idle"]
    assert [a.inhibited_by for a in idle] == [alert.id, alert.id]
    assert {a.advice for a in idle} == {alert.advice}
    assert [party.user for a in idle for party in a.affected] == ["alice", "alice"]


def test_an_orphan_names_what_is_left_and_how_to_end_it() -> None:
    left = Party(4711, "alice", "python", "python train.py")
    orphan = HeldDevices("lease:k3f9", ("GPU-0",), AT, "alice", orphaned=True,
                  who=(left, Party(4712, "alice")), remedy="kill 4711 4712")  # fmt: skip
    alert = one(after(120, leases=(orphan,)), "orphan")
    assert alert.message == (
        "Lease k3f9 (alice) is orphaned: its holder exited but pid 4711 (python) and 1 more "
        "are still running, GPU 0 withheld for 2 min"
    )
    assert alert.advice == "Stop what is still running to free the devices: kill 4711 4712"
    assert alert.evidence["pids"] == "4711, 4712"


def test_a_ghost_names_the_lease_that_left_it() -> None:
    former = Sharing(former={"GPU-0": PreviousLease("lease:k3f9", "alice", AT)})
    alert = one(after(120, gpu(0, used_gib=40), leases=(), sharing=former), "leftover_memory")
    assert alert.message == "GPU 0: 40.0 GiB still in use after lease k3f9 (alice) ended"
    assert alert.advice == "Find out who has it open: sudo fuser -v /dev/nvidia*"
    assert alert.evidence == {"left_bytes": 40 * GIB, "lease": "k3f9", "user": "alice"}
    assert alert.value == 40 * GIB


RESERVED = ReservedDevices(
    "reservation:r7", ("GPU-0", "GPU-1"), AT + 1800, AT + 7200, "dora", AT + 3600
)


def test_an_older_lease_in_the_way_of_a_reservation_is_named_with_what_to_do() -> None:
    state = after(120, reserved=(RESERVED,))
    alert, other = (a for a in current(state) if a.rule == "reservation_blocked")
    assert alert.message == (
        "GPU 0 is reserved by dora in 28 min, and still held by lease k3f9 (alice) without an end"
    )
    assert alert.advice == "If unused, alice can release it: andon release k3f9"
    assert other.message.startswith("GPU 1 is reserved by dora")
    assert [party.user for party in alert.affected] == ["alice"]
    assert alert.evidence == {
        "reservation": "r7", "reserved_by": "dora", "begins": AT + 1800, "ends": AT + 7200,
        "lease": "k3f9",
    }  # fmt: skip
    told = [
        user for user in ("alice", "dora", "bob") if concerns(Route("x", owners=(user,)), alert)
    ]
    assert told == ["alice", "dora"], "who holds it, and who has reserved it"
    lamp = board(Snapshot("n", AT, devices=(gpu(0),)), [alert])
    assert lamp.devices[0].reason == alert.message, "andon why and the board say the same"
    begun = one(after(1900, reserved=(replace(RESERVED, lapses=None, devices=("GPU-0",)),)),
                "reservation_blocked")  # fmt: skip
    assert begun.message.startswith("GPU 0 is reserved by dora for another 1 h 28 min, and still")


def test_a_process_in_the_way_of_a_reservation_is_named_and_its_owner_is_to_be_asked() -> None:
    there = gpu(0, used_gib=22, processes=[BOB])
    only = (replace(RESERVED, devices=("GPU-0",)),)
    alert = one(after(120, there, leases=(), reserved=only), "reservation_blocked")
    assert alert.message.endswith("28 min, and still used by pid 4711 (bob, python)")
    assert alert.advice == "Ask bob to end it, or dora to change the reservation"
    assert [(party.pid, party.user) for party in alert.affected] == [(4711, "bob")]
    unknown = gpu(0, used_gib=22, processes=[replace(BOB, user=None)])
    assert current(after(120, unknown, leases=(), reserved=only)) == ()


def test_an_unused_reservation_says_when_it_is_given_back_and_concerns_its_owner() -> None:
    begun = (replace(RESERVED, begins=AT - 60, lapses=AT + 1740),)
    alert = one(after(340, leases=(), reserved=begun), "reservation_unused")
    assert alert.message == "Reservation r7 (dora) of GPU 0, 1 is not used, given back in 23 min"
    assert alert.advice == ("dora can use it, or give it back now: andon reserve cancel r7")
    assert (alert.where, alert.affected) == ("reservation r7", ())
    assert concerns(Route("x", owners=("dora",)), alert)
    assert not concerns(Route("x", owners=("alice",)), alert)


@pytest.mark.parametrize("rule", ["squatter", "leftover_memory"])
def test_the_title_on_a_phone_says_more_than_the_device(rule: str) -> None:
    former = Sharing(
        {"GPU-0": frozenset({4711})}, former={"GPU-0": PreviousLease("k3f9", "alice", AT)}
    )
    leases = (HELD,) if rule == "squatter" else ()
    there = gpu(0, used_gib=60, processes=[BOB])
    alert = one(after(120, there, gpu(1), leases=leases, sharing=former), rule)
    said = message([Notice("x", NoticeKind.FIRING, alert, AT, "node7")], AT, lambda at: 0.0)
    assert "used outside its lease" in said.title or "memory left by a lease" in said.title


@pytest.mark.slow
def test_the_owner_of_an_idle_lease_is_told_and_nobody_else() -> None:
    alices, bobs, ours = Heard("alice"), Heard("bob"), Heard("all")
    page = BookView(leases=(HeldDevices("lease:k3f9", ("GPU-0",), AT, "alice", who=(ALICE,)),))
    playing = Playing(
        (alices, Route("alice", owners=("alice",))),
        (bobs, Route("bob", owners=("bob",))),
        ours,
        book=lambda: page,
    )
    playing.tick(DeviceState.OK, ticks=95)
    wait_for(lambda: alices.kinds("idle_lease") == [NoticeKind.FIRING])
    wait_for(lambda: ours.kinds("idle_lease") == [NoticeKind.FIRING])
    assert bobs.told == []
    rules = document(rule_list(playing.watcher.rulebook, (), playing.watcher.awake))["rules"]
    assert next(row for row in rules if row["name"] == "idle_lease")["active"]
    playing.watcher.close()


def test_a_book_that_nobody_can_read_judges_nothing() -> None:
    playing = Playing(book=lambda: None)
    playing.tick(DeviceState.OK, ticks=20)
    assert playing.watcher.alerts() == ()
    playing.watcher.close()


def test_a_route_by_owner_takes_the_holder_of_an_idle_device() -> None:
    idle = next(a for a in current(after(400)) if a.rule == "idle")
    assert concerns(Route("x", owners=("alice",)), idle)
    assert not concerns(Route("x", owners=("bob",)), idle)


def test_a_stalled_run_is_named_as_ps_names_it_to_everyone() -> None:
    about = Stalled(HELD, BOB)
    said = describe(facts(Finding((), about=about), lasted_seconds=1200.0)).text.text
    assert "alice's python worked, and does nothing" in said
    nameless = Stalled(HELD, replace(BOB, name=None))
    assert "train" not in describe(facts(Finding((), about=nameless))).text.text
