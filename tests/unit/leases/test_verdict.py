"""One verdict on each device, and the same one on every surface."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.api import watch as library
from andon.api.compat import selection
from andon.api.compat.monitor import GPUMonitor
from andon.cli.main import run
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.errors import Conflict
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.rules.choice import available, obstacle
from andon.leases.rules.eligibility import Obstacle, ObstacleKind
from andon.leases.rules.verdict import need_of_any, verdict, verdicts
from andon.model.codec import read, read_document, to_json
from andon.model.device import DeviceStatus, Process, Snapshot, State
from andon.model.lease import Cordon, LeaseState, Work
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.node.broken_devices import BrokenDevicesQuery
from andon.settings.resolution import Settings
from andon.units import GIB
from tests.support.replaced import answers
from tests.support.rows import rows
from tests.support.sharing_parts import capacities_of, claim, gpu, lease, request
from tests.support.surroundings import server_may_run
from tests.support.web_parts import HOME, Caller, Parts

NOBODY = 2**22 + 5  # a pid that no process has
STRANGER = Process(NOBODY, user="bob", memory_bytes=5 * GIB)
XID = {"GPU-2": "reports Xid 79: the GPU has fallen off the bus"}
NODE = (
    gpu(0, used_gib=5, processes=[STRANGER]),
    gpu(1, used_gib=40),
    gpu(2),
    gpu(3, ecc_uncorrected=2),
    gpu(4),
    gpu(5),
    gpu(6),
    gpu(7),
)
WANTED = {"GPU-5", "GPU-6", "GPU-7"}
KINDS = {
    "GPU-0": ("in_use", "unleased_process", "bob"),
    "GPU-1": ("withheld", "unattributed_memory", None),
    "GPU-2": ("withheld", "broken", None),
    "GPU-3": ("withheld", "ecc", None),
    "GPU-4": ("withheld", "cordoned", "root"),
    "GPU-5": ("free", None, None),
    "GPU-6": ("free", None, None),
    "GPU-7": ("free", None, None),
}
"""FINDINGS V2, and what each surface must say about it."""


def snapshot(devices: tuple[DeviceStatus, ...] = NODE) -> Snapshot:
    return Snapshot("node17", time.time(), devices=devices)


@pytest.fixture
def book(book: Book, monkeypatch: pytest.MonkeyPatch) -> Book:
    """Device 4 is cordoned, and a server reports an Xid of device 2."""
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    answers(monkeypatch, BrokenDevicesQuery, "__call__", XID)
    server_may_run(monkeypatch, True)
    book.cordon(Cordon("GPU-4", 1.0, "root", "new fan"))
    return book


class SampledHere:
    """This process's sampler, with the devices of the test."""

    settings = Settings()

    def __init__(self, devices: tuple[DeviceStatus, ...]) -> None:
        self._devices, self.looks = devices, 0

    def __enter__(self) -> "SampledHere":
        return self

    def __exit__(self, *raised: object) -> None:
        """There is nothing to close."""

    def begin(self) -> None:
        """There is nothing to start."""

    def once(self, expensive_fields: bool = False, with_host: bool = True) -> Snapshot:
        self.looks += 1
        return snapshot(self._devices)

    def ask_places(self) -> None:
        """They are not part of these devices."""


Show = Callable[[tuple[DeviceStatus, ...]], SampledHere]


@pytest.fixture
def show(book: Book, monkeypatch: pytest.MonkeyPatch) -> Show:
    """Give these devices to the Python functions and to the commands."""

    def shown(devices: tuple[DeviceStatus, ...]) -> SampledHere:
        here = SampledHere(devices)

        answers(monkeypatch, library, "shared", here)
        answers(monkeypatch, "andon.app.sampler", "open_sampler", here)
        return here

    shown(NODE)
    return shown


def indices(uuids: set[str]) -> list[int]:
    return sorted(int(uuid[4:]) for uuid in uuids)


# Every surface.


def test_every_python_function_gives_the_same_answer(show: Show) -> None:
    assert sorted(GPUMonitor().get_available_gpus(8000)) == indices(WANTED)
    assert sorted(GPUMonitor().get_available_gpus()) == indices(WANTED)
    assert sorted(selection.select_gpus_for_task(3)) == indices(WANTED)
    assert selection.check_gpu_availability(3)[0]
    is_free, words = selection.check_gpu_availability(4)
    assert not is_free
    assert "4 GPUs requested, 3 available" in words
    assert "GPU 4: cordoned by root: new fan" in words


@pytest.mark.parametrize(
    "command", [["free", "--json", "-g", "3"], ["wait", "--no-wait", "-g", "3"]]
)
def test_the_commands_give_the_same_answer(
    show: Show, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert run(command) == 0
    said = capsys.readouterr()
    if command[0] == "wait":
        assert "GPU 5, 6, 7" in said.err
        assert run([*command[:-1], "4"]) == 6
        return
    assert run([*command[:-1], "4"]) == 1
    found = json.loads(said.out)["devices"]
    assert {d["uuid"]: (d["kind"], d["code"], d["by"]) for d in found} == KINDS


def test_the_last_line_of_status_gives_the_same_answer(
    show: Show, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status"]) == 0
    *_, not_free, free = capsys.readouterr().out.splitlines()
    assert free == "free: GPU 5–7"
    assert not_free == "not free: GPU 2 (broken), GPU 3 (memory errors), GPU 4 (cordoned)"
    assert run(["status", "-d", "4"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("free: none")


def test_status_says_who_holds_a_device_that_looks_idle(
    show: Show, book: Book, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Granter(book, Availability(snapshot)).grant(
        request(2, devices=("5", "6")), LeaseTerms(), 0
    )
    assert run(["status", "-d", "5,6,7"]) == 0
    *_, not_free, free = capsys.readouterr().out.splitlines()
    held.held.release()
    user = held.held.lease.owner.user
    assert (not_free, free) == (f"not free: GPU 5, 6 (held by {user})", "free: GPU 7")


def test_free_answers_in_its_first_line(show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["free"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"3 of {len(NODE)} free: GPU 5–7"
    assert any("4 " in line and "cordoned by root: new fan" in line for line in lines)
    assert run(["free", "--gpus", "4"]) == 1
    assert capsys.readouterr().out.startswith("no: 4 GPUs requested, 3 free\n")
    assert run(["free", "5", "6", "--gpus", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "yes: 2 GPUs are free: GPU 5, 6"
    assert len(lines) == 4, "only the named ones"
    assert run(["free", "--gpus", "all", "-d", "5,6,7"]) == 0
    assert capsys.readouterr().out.startswith("yes: all GPUs are free: GPU 5–7\n")


@pytest.mark.slow
def test_rest_and_the_board_give_the_same_answer(book: Book, tmp_path: Path) -> None:
    parts = Parts(tmp_path, [snapshot()], HOME, broken=lambda: XID)
    try:
        caller = Caller(parts.app, "127.0.0.1", "localhost")
        listed = read_document(LeaseList, caller.get("/api/leases").json()).devices
        board = caller.get("/api/board").json()["devices"]
    finally:
        parts.close()
    assert {one.uuid: (str(one.kind), one.code, one.by) for one in listed} == KINDS
    shown = [one["verdict"] for one in board]
    assert {one["uuid"]: (one["kind"], one["code"], one["by"]) for one in shown} == KINDS
    assert [to_json(one) for one in listed] == shown


def test_a_grant_gives_the_same_answer(book: Book) -> None:
    granter = Granter(book, Availability(snapshot, broken=lambda: XID))
    with pytest.raises(Conflict, match="3 available"):
        granter.grant(request(4), LeaseTerms(), 0)
    held = granter.grant(request(3), LeaseTerms(), 0).held
    assert {share.uuid for share in held.lease.shares} == WANTED
    held.release()


def test_a_lease_of_another_is_named_with_its_end(book: Book) -> None:
    until = time.time() + 3600
    held = claim(lease(5, name="k7qm2", until=until))
    found = verdicts(capacities_of(NODE, held), {})[5]
    assert (found.kind, found.by, found.lease, found.until) == (
        VerdictKind.HELD, "alice", "k7qm2", until,
    )  # fmt: skip


# The kept functions.


def test_the_balance_rule_is_a_keyword_of_the_kept_functions(show: Show) -> None:
    show((gpu(0), gpu(1, total=40 * GIB), gpu(2, total=16 * GIB)))
    with pytest.raises(RuntimeError, match="similar memory"):
        selection.select_gpus_for_task(2)
    assert selection.select_gpus_for_task(2, balanced=False) == [0, 1]
    assert not selection.check_gpu_availability(2)[0]
    assert selection.check_gpu_availability(2, balanced=False)[0]
    assert selection.wait_for_gpu_availability(2, balanced=False)[0]
    assert not selection.wait_for_gpu_availability(2)[0]


@pytest.mark.parametrize(
    ("devices", "count", "memory", "words"),
    [
        ((), 1, None, "no GPU found here"),
        (NODE, 80, None, "80 GPUs requested, only 8 visible"),
        (NODE, 1, 200_000, "no GPU can satisfy this"),
        (NODE, 0, None, "not a number of GPUs"),
    ],
)
def test_what_can_never_be_met_is_refused_at_once_by_all(
    show: Show,
    devices: tuple[DeviceStatus, ...],
    count: int,
    memory: float | None,
    words: str,
) -> None:
    here = show(devices)
    is_free, said = selection.wait_for_gpu_availability(count, memory, timeout_seconds=0.05)
    assert not is_free
    assert words in said
    assert here.looks == (count > 0), "it does not look again"
    assert words in selection.check_gpu_availability(count, memory)[1]
    with pytest.raises(RuntimeError, match=words):
        selection.select_gpus_for_task(count, memory or 0)


def test_a_busier_device_is_listed_only_if_the_caller_allows_it(show: Show) -> None:
    show((gpu(5, busy=70), gpu(6, busy=30), gpu(7)))
    assert GPUMonitor().get_available_gpus() == [7, 6]
    assert GPUMonitor().get_available_gpus(max_utilization=90) == [7, 6, 5]
    assert GPUMonitor().get_available_gpus(max_utilization=10) == [7]


def test_devices_in_use_are_listed_if_the_caller_says_so_and_never_busier_ones(show: Show) -> None:
    """A notebook that does nothing is a use, too: it may go on at any moment."""
    used = (Process(NOBODY, user="bob", memory_bytes=300 << 20),)
    busy = [gpu(i, 0.3, at, processes=used) for i, at in ((5, 20), (6, 70), (8, 0))]
    show((*busy, gpu(7)))
    monitor = GPUMonitor()
    assert monitor.get_available_gpus() == [7]
    assert monitor.get_available_gpus(even_if_used=True) == [7, 8, 5]
    assert monitor.get_available_gpus(max_utilization=10, even_if_used=True) == [7, 8]
    assert not selection.check_gpu_availability(4)[0]
    assert selection.check_gpu_availability(4, even_if_used=True)[0]
    assert not selection.wait_for_gpu_availability(4, timeout_seconds=0)[0]
    assert selection.wait_for_gpu_availability(4, timeout_seconds=0, even_if_used=True)[0]
    assert sorted(selection.select_gpus_for_task(4, 1, even_if_used=True)) == [5, 6, 7, 8]


def test_our_own_lease_counts_as_available(show: Show, book: Book) -> None:
    mine = LeaseTerms(work=Work(os.getpid(), 0))
    for terms, listed in ((mine, True), (LeaseTerms(work=Work(1, 0)), False)):
        held = Granter(book, Availability(snapshot)).grant(request(devices=("6",)), terms, 0).held
        assert (6 in GPUMonitor().get_available_gpus()) is listed
        held.release()


# The verdict itself.


@rows(
    ("kind", "expected"),
    [
        (ObstacleKind.LEASED, VerdictKind.HELD),
        (ObstacleKind.ORPHANED, VerdictKind.HELD),
        (ObstacleKind.UNREADABLE, VerdictKind.HELD),
        (ObstacleKind.UNLEASED_PROCESS, VerdictKind.IN_USE),
        (ObstacleKind.BUSY, VerdictKind.IN_USE),
        (ObstacleKind.FULL, VerdictKind.IN_USE),
        (ObstacleKind.CORDONED, VerdictKind.WITHHELD),
        (ObstacleKind.NEXT, VerdictKind.WITHHELD),
        (ObstacleKind.MASKED, VerdictKind.WITHHELD),
    ],
)
def test_each_obstacle_has_its_kind(kind: ObstacleKind, expected: VerdictKind) -> None:
    found = verdict(gpu(0).device, "0", Obstacle(kind, "why"))
    assert (found.kind, found.code, found.reason) == (expected, str(kind), "why")
    assert read(DeviceVerdict, to_json(found)) == found


def test_what_a_file_says_cannot_break_an_answer() -> None:
    odd = Obstacle(ObstacleKind.UNREADABLE, "eve\udc80 holds \x1b[2J" + "x" * 9999, by="eve\udc80")
    said = verdict(gpu(0).device, "0", odd)
    assert json.dumps(to_json(said), ensure_ascii=False).encode()
    assert (said.by, (said.reason or "")[:16]) == ("eve?", "eve? holds ?[2Jx")
    assert len(said.reason or "") == 400


def test_the_rest_of_a_shared_device_is_held_and_not_in_use() -> None:
    found = Obstacle(ObstacleKind.FULL, "too little is left", by="alice", lease="k7qm2")
    assert verdict(gpu(0).device, "0", found).kind is VerdictKind.HELD


statuses = st.lists(
    st.builds(
        gpu,
        st.integers(0, 7),
        used_gib=st.sampled_from([0.0, 30.0]),
        busy=st.sampled_from([0, 40, 80, None]),
        processes=st.sampled_from([(), (STRANGER,)]),
        state=st.sampled_from([State.OK, State.OK, State.LOST, State.ASLEEP]),
        visible=st.booleans(),
        ecc_uncorrected=st.sampled_from([0, 0, 3]),
    ),
    unique_by=lambda status: status.device.index,
    max_size=6,
)


@given(statuses, st.sets(st.integers(0, 7)), st.sampled_from(list(LeaseState)))
def test_free_means_that_a_grant_would_take_it(
    node: list[DeviceStatus], leased: set[int], state: LeaseState
) -> None:
    claims = [replace(claim(lease(index, name=f"l{index}")), state=state) for index in leased]
    capacities = capacities_of(node, *claims)
    need = need_of_any(capacities)
    found = {one.uuid for one in verdicts(capacities, {}) if one.kind is VerdictKind.FREE}
    assert found == {one.uuid for one in available(capacities, need)}
    for one, said in zip(capacities, verdicts(capacities, {}), strict=True):
        if said.kind is not VerdictKind.FREE:
            assert said.reason
            assert one.uuid not in need.eligible or obstacle(one, need) is not None


def test_without_a_book_and_a_server_the_readings_alone_give_the_same_verdicts(
    book_folder: Path, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    monkeypatch.setenv("ANDON_PORT", "1")
    Book()
    left_over = book_folder / "leases" / ".draft"  # with it the book has to be read
    for devices, mask in ((NODE, "1"), (NODE, "GPU-5"), (NODE[:1], "99"), (NODE, "a,b")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
        seen = snapshot(devices)
        leases = node_of(Choices()).leases
        left_over.touch()
        whole = leases.verdicts(seen)
        left_over.unlink()
        assert leases.verdicts(seen) == whole
