"""The parts of the live side that need no network."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from andon.access.roles import BLIND
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.model.device import Snapshot
from andon.node.seen.sights import HIDDEN, seen_by
from andon.web.answers.payloads import busy_uuids
from andon.web.bindings.live_server import OUTBOX_PACKETS, BoundedQueue, ClientSocket
from tests.support import snapshots as drawn
from tests.support.live_parts import without_routes
from tests.support.web_parts import Parts

__all__ = ["without_routes"]
pytestmark = pytest.mark.usefixtures("without_routes")


def test_an_outbox_ends_and_says_so_and_putting_never_waits() -> None:
    async def filled() -> BoundedQueue:
        outbox = BoundedQueue()
        for number in range(OUTBOX_PACKETS):
            await outbox.put(number)
            assert not outbox.overrun
        for number in range(1000):
            await outbox.put(number)
        return outbox

    outbox = asyncio.run(filled())
    assert outbox.overrun
    assert outbox.qsize() == OUTBOX_PACKETS


def test_the_end_of_a_connection_fits_into_a_full_outbox() -> None:
    async def filled() -> int:
        outbox = BoundedQueue()
        for number in range(OUTBOX_PACKETS):
            await outbox.put(number)
        await outbox.put(None)
        assert not outbox.overrun
        return outbox.qsize()

    assert asyncio.run(filled()) == OUTBOX_PACKETS + 1


@pytest.mark.slow
def test_a_line_is_cut_although_its_holder_clings_to_it() -> None:
    async def clinging() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()  # as a writer does whose client takes nothing

    async def cut() -> None:
        line = ClientSocket(clinging())
        held = asyncio.ensure_future(line.held())
        await asyncio.sleep(0)
        line.cut()
        await asyncio.wait_for(held, 30)

    asyncio.run(cut())


def test_a_line_that_nobody_cut_passes_the_servers_end_on() -> None:
    async def held() -> None:
        line = ClientSocket(asyncio.Event().wait())  # type: ignore[arg-type]
        task = asyncio.ensure_future(line.held())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(held())


def test_high_usage_follows_the_threshold_of_its_rule() -> None:
    farm = drawn.farm()
    assert len(busy_uuids(farm, Rulebook())) == len(busy_uuids(farm)) == 2
    strict = Rulebook(thresholds(high_usage_percent=90.0))
    assert len(busy_uuids(farm, strict)) == 1
    assert not busy_uuids(farm, Rulebook(thresholds(off=frozenset({"high_usage"}))))


def test_strangers_see_names_and_a_reason_and_no_command() -> None:
    farm = drawn.farm()
    shown = seen_by(BLIND, farm)
    assert any(process.command for status in farm.devices for process in status.processes)
    for before, after in zip(farm.devices, shown.devices, strict=True):
        assert all(process.command is None for process in after.processes)
        assert [p.name for p in before.processes] == [p.name for p in after.processes]
        hidden = any(process.command for process in before.processes)
        assert (after.missing.get("command") == HIDDEN) == hidden


def test_a_listener_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    parts, heard = Parts(tmp_path, [drawn.farm()]), list[Snapshot]()

    def failing(snapshot: Snapshot) -> None:
        raise RuntimeError("a listener's mistake")

    parts.live.listen(failing)
    parts.live.listen(heard.append)
    while not heard:
        parts.sampler.give(drawn.farm())
    assert parts.live.runs
    parts.close()


def test_dear_readings_are_taken_only_while_someone_looks(tmp_path: Path) -> None:
    parts = Parts(tmp_path, [drawn.farm()])
    assert not parts.sampler.bus.is_watched
    assert parts.live.last is not None
    assert not parts.sampler.bus.is_watched
    parts.live.latest()
    assert parts.sampler.bus.is_watched
    parts.close()
