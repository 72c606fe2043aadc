"""Workers that share a map: each block is claimed once, and what a dead one left is done."""

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.model.run.record import ItemState
from andon.work.map.block_worker import BlockWorker
from andon.work.map.blocks import SILENT_SECONDS, BlockFolder, CallResult, SharedPlan, block_size
from andon.work.rules.map.items import items_of
from andon.work.rules.map.template import CommandTemplate

ITEMS = items_of(["a", "b", "c", "d", "e"])
PLAN = SharedPlan(
    CommandTemplate(("sh", "-c", 'echo "$0"; test "$0" != c', "{item}")),
    tuple((item,) for item in ITEMS),
    block=2,
)


@pytest.fixture
def folder(tmp_path: Path) -> BlockFolder:
    found = BlockFolder(tmp_path / "map")
    found.make(PLAN)
    return found


def ok(call: int) -> CallResult:
    return CallResult(call, ItemState.OK, 1.0, output=b"\xff\n")


def test_the_plan_is_read_as_it_was_written(folder: BlockFolder) -> None:
    odd = replace(PLAN, units=((items_of(["\udcff"])[0],),), timeout_seconds=5.0)
    folder.make(odd)
    assert folder.plan() == odd
    assert [list(PLAN.calls(block)) for block in range(PLAN.blocks)] == [[0, 1], [2, 3], [4]]
    assert (block_size(1000, 4), block_size(3, 4)) == (15, 1)


def test_a_block_is_claimed_once(folder: BlockFolder) -> None:
    one, two = folder.enter("0"), folder.enter("1")
    found = [folder.claim(PLAN, worker) for worker in (one, two, one, two)]
    assert found == [(0, 1), (1, 1), (2, 1), None]
    assert folder.is_alive()


def test_the_blocks_of_a_silent_worker_are_taken_by_another(folder: BlockFolder) -> None:
    dead, alive = folder.enter("0"), folder.enter("1")
    assert folder.claim(PLAN, dead) == (0, 1)
    folder.write(0, 1, ok(0))
    assert [folder.claim(PLAN, alive) for _ in range(3)] == [(1, 1), (2, 1), None]
    for block in (1, 2):
        folder.finish(block)
    past = alive.stat().st_mtime - SILENT_SECONDS - 5
    os.utime(dead, (past, past))
    assert folder.claim(PLAN, alive) == (0, 2)
    assert [one.call for one in folder.of_block(0, 2)] == [0]
    assert folder.claim(PLAN, alive) is None
    assert not folder.is_over(PLAN)
    folder.finish(0)
    assert folder.is_over(PLAN)


def test_results_are_read_on_from_where_they_ended(folder: BlockFolder) -> None:
    read: dict[str, int] = {}
    assert list(folder.results(read)) == []
    folder.write(0, 1, ok(0))
    with (folder.path / "results" / "0.1").open("ab") as file:
        file.write(b'{"call": 1, "st')  # half a line
    assert list(folder.results(read)) == [ok(0)]
    assert list(folder.results(read)) == []
    assert folder.outcomes() == {0: ("a", ItemState.OK)}


@pytest.mark.process
def test_a_worker_does_what_is_left_and_skips_what_another_finished(folder: BlockFolder) -> None:
    dead = folder.enter("dead")
    assert folder.claim(PLAN, dead) == (0, 1)
    folder.write(0, 1, ok(0))
    folder.leave(dead)  # as a worker does that is asked to end
    assert BlockWorker(folder, "0").run() == 1  # one failed
    found = {one.call: (one.state, one.output) for one in folder.results({})}
    assert found == {
        0: (ItemState.OK, b"\xff\n"),
        1: (ItemState.OK, b"b\n"),
        2: (ItemState.FAILED, b"c\n"),
        3: (ItemState.OK, b"d\n"),
        4: (ItemState.OK, b"e\n"),
    }
    assert folder.is_over(PLAN)
    folder.delete()
    assert not folder.path.exists()


@pytest.mark.process
def test_a_worker_that_is_asked_to_end_leaves_its_block_to_the_others(folder: BlockFolder) -> None:
    worker = BlockWorker(folder, "0")
    worker.stop(signal.SIGTERM, None)
    assert worker.run() == 0
    assert list(folder.results({})) == []
    assert not folder.is_alive()
