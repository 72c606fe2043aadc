"""What the REST answers say, from snapshots alone."""

import pytest
from msgspec.structs import replace

from andon.access.roles import BLIND
from andon.fleet.rules.states import NodeRow
from andon.model.device import DeviceStatus, Snapshot, State
from andon.model.lease import LeaseKind, LeaseState, Share
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.node.seen.sights import seen_by
from andon.settings.resolution import Settings
from andon.units import GIB
from andon.web.answers import health, payloads
from andon.web.fleet.listing import own_row
from tests.support import snapshots as drawn

ROW = LeaseRow(
    id="k7qm2", user="dora", whom=None, uid=1000, state=LeaseState.HELD, kind=LeaseKind.LIBRARY,
    devices=(), since=1.0, until=None, command=None, simulated=False, used_bytes=0,
    promised_bytes=None, utilization_percent=None, fence=None, pid=7, releasable=True,
    not_releasable_reason=None,
)  # fmt: skip


def with_first(status: DeviceStatus, snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, devices=(status, *snapshot.devices[1:]))


def holding(*shares: Share) -> LeaseList:
    return LeaseList(1.0, leases=tuple(replace(ROW, devices=(share,)) for share in shares))


def node(snapshot: Snapshot, leases: LeaseList | None) -> NodeRow:
    return own_row(snapshot, leases, (), {}, snapshot.at)


def test_the_summary_answers_the_question_of_the_fan_and_says_who_is_on_it() -> None:
    first = drawn.farm().devices[0]
    assert first.sample is not None
    fan = replace(first, sample=replace(first.sample, fan_percent=63))
    gpu = payloads.gpu_summary(with_first(fan, drawn.farm()), Settings())["gpus"][0]
    assert (gpu["fan_percent"], gpu["memory_percent"]) == (63, 86.4)
    assert gpu["processes"][0] == {
        "pid": 4101, "name": "python", "user": "alice", "memory_used_mb": 98508,
    }  # fmt: skip


def test_the_processes_of_a_device_that_does_not_answer_are_not_known_instead_of_none() -> None:
    hung = replace(drawn.farm().devices[0], state=State.STALE)
    gpu = payloads.gpu_summary(with_first(hung, drawn.farm()), Settings())["gpus"][0]
    assert gpu["processes"] is None
    assert gpu["memory_percent"] is None
    idle = payloads.gpu_summary(drawn.farm(), Settings())["gpus"][1]
    assert idle["processes"] == []


def test_the_metrics_have_processes_and_only_the_command_lines_that_the_caller_may_see() -> None:
    def commands(snapshot: Snapshot) -> list[str | None]:
        gpus = payloads.gpu_metrics(snapshot)["gpus"]
        return [process["command"] for gpu in gpus for process in gpu["processes"]]

    assert any(commands(drawn.farm()))
    hidden = commands(seen_by(BLIND, drawn.farm()))
    assert len(hidden) == len(commands(drawn.farm()))
    assert not any(hidden)


def test_a_summary_never_has_a_command_line() -> None:
    """It is sent to everyone alike."""
    every = [p.command for s in drawn.farm().devices for p in s.processes if p.command]
    said = str(payloads.gpu_summary(drawn.farm(), Settings()))
    assert every
    assert not [command for command in every if command in said]


def test_a_node_has_devices_and_what_leases_take_of_them() -> None:
    farm = drawn.farm()
    whole, part = farm.devices[0].device, farm.devices[1].device
    found = node(farm, holding(Share(whole.uuid, 0), Share(part.uuid, 1, 10 * GIB)))
    assert found.gpus == len([s for s in farm.devices if s.device.parent is None])
    assert (found.allocated, found.tasks) == (2, 2)
    assert isinstance(found.utilization_percent, float)


def test_two_parts_of_one_device_are_one_device() -> None:
    uuid = drawn.farm().devices[0].device.uuid
    assert node(drawn.farm(), holding(Share(uuid, 0, GIB), Share(uuid, 0, 2 * GIB))).allocated == 1


@pytest.mark.parametrize(
    "leases",
    [
        None,
        LeaseList(1.0, note="the lease directory cannot be read"),
        LeaseList(1.0, leases=(ROW,)),
    ],
)
def test_an_allocation_that_is_not_known_is_not_zero(leases: LeaseList | None) -> None:
    assert node(drawn.farm(), leases).allocated is None


def test_a_node_without_leases_has_none_allocated() -> None:
    """A31: null, because the list said that there are no leases."""
    judged = tuple(
        DeviceVerdict(s.device.uuid, s.device.index, "0", VerdictKind.FREE)
        for s in drawn.farm().devices
    )
    said = LeaseList(1.0, note="no leases; to take one: andon run", devices=judged)
    for leases in (LeaseList(1.0), said):
        assert node(drawn.farm(), leases).allocated == 0


def test_the_processes_of_a_node_that_does_not_answer_are_not_counted_as_none() -> None:
    silent = replace(drawn.farm(), devices=(drawn.silent(0, State.STALE, "hangs", None, 5),))
    for nothing in (silent, replace(silent, devices=())):
        assert payloads.gpu_summary(nothing, Settings())["process_count"] is None


def test_a_process_on_several_devices_is_counted_once() -> None:
    """A21: on a MIG board, for example, which has it as its own and in an instance."""
    farm = drawn.farm()
    pids = {p.pid for s in farm.devices for p in s.processes}
    first = farm.devices[0]
    instance = replace(first, device=replace(first.device, uuid="MIG-1", parent=first.device.uuid))
    both = replace(farm, devices=(*farm.devices, instance))
    assert payloads.gpu_summary(farm, Settings())["process_count"] == len(pids)
    assert payloads.gpu_summary(both, Settings())["process_count"] == len(pids)


def test_silent_devices_of_a_vendor_are_counted_in_words() -> None:
    lost = [drawn.silent(n, State.LOST, "gone", None, 5) for n in range(2)]
    for many, words in ((1, "1 device does not respond"), (2, "2 devices do not respond")):
        seen = replace(drawn.farm(), devices=tuple(lost[:many]), faults=())
        assert [one.reason for one in health._backends(seen)] == [words]
