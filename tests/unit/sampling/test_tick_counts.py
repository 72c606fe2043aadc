"""What one sample does, in counts: a step that does more work has to raise a number here.

How long it takes is measured by `python -m bench.gate`, not by a test.
"""

import os
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest

from andon.drivers.nvidia import Nvidia
from andon.drivers.reader import CardWorker, LineBuffer
from andon.host import driver_versions
from andon.host.processes.facts import ProcessTable
from andon.host.system import System
from andon.model import wire
from andon.model.device import Host
from andon.model.request import ReaderRequest
from andon.node.watched.live import WatchedLive
from andon.sampling.readers import Vendor
from andon.sampling.rules.masks import visibility
from andon.sampling.rules.roster import BackendChoice
from andon.sampling.sampler import NodeIdentity, Sampler
from tests.standin import StandIn, StandInProcess
from tests.support.counting import opened_files, python_calls
from tests.support.full_snapshot import FULL
from tests.support.snapshots import farm
from tests.support.web_parts import Hand


class Line:
    """A reader's answers, through a pipe."""

    def __init__(self) -> None:
        self.ends = os.pipe()
        self.buffer = LineBuffer(self.ends[1])

    def messages(self) -> list[wire.Json]:
        return wire.reader_messages(os.read(self.ends[0], 1 << 20))


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    for end in made.ends:
        os.close(end)


@pytest.fixture
def worker(nvidia: Nvidia, standin: StandIn, line: Line) -> CardWorker:
    """A busy card with a process, after its first readings."""
    standin.change(0, used=1 << 30, processes=(StandInProcess(os.getpid(), 1 << 30, sm=10),))
    leave: Any = None
    return CardWorker(
        nvidia, nvidia.open()[0], lambda: ProcessTable(Path("/")), line.buffer, leave, Path("/")
    )


def ask(worker: CardWorker, watched: bool = False) -> None:
    worker.serve(ReaderRequest(1, watched), lambda: True)


@pytest.mark.parametrize(("watched", "most"), [(False, 71), (True, 77)])
def test_a_reading_of_a_card_takes_this_many_calls(
    worker: CardWorker, watched: bool, most: int
) -> None:
    for _ in range(3):
        ask(worker, watched)
    calls = python_calls(lambda: ask(worker, watched))
    assert calls.total() <= most, calls


def test_a_reading_that_changed_nothing_names_no_process_again_and_opens_no_file(
    worker: CardWorker, line: Line
) -> None:
    for _ in range(3):
        ask(worker)
        line.messages()
    with opened_files() as opened:
        ask(worker)
    assert opened == []
    (message,) = line.messages()
    assert message["readings"][0].keys() == {"uuid", "state", "at", "values"}


class Silent:
    """A reader that only listens."""

    pid = 1

    def ask(self, request: object) -> None:
        pass


def test_an_answer_takes_this_many_calls_in_the_sampler(worker: CardWorker, line: Line) -> None:
    vendor = Vendor("nvidia", [BackendChoice("nvidia", {})], 1.0, cast("Any", lambda *_: Silent()))
    vendor.ask(1, False, 0.0)
    card = {"key": worker._card.key, "index": 0, "pci": worker._card.pci, "name": None}
    vendor.hear([{"hello": 1}, {"opened": [card], "versions": {}}], 1.0, 1.0)
    for _ in range(3):
        ask(worker)
        vendor.hear(line.messages(), 1.0, 1.0)
    ask(worker)
    messages = line.messages()

    def tick() -> None:
        vendor.ask(2, False, 1.0)
        vendor.hear(messages, 1.0, 1.0)
        vendor.settle(1.0, 1.0)
        vendor.roster.statuses({})

    calls = python_calls(tick)
    assert vendor.roster.devices()
    assert calls.total() <= 30, calls


def test_the_nodes_own_values_open_two_files_a_second_and_the_others_every_five() -> None:
    now = [0.0]
    system = System(Path("/"), clock=lambda: now[0], drivers=lambda: ())
    for now[0] in (0.0, 1.0):  # the first traffic, and the first rates
        system.read()
    with opened_files() as opened:
        for now[0] in range(2, 62):
            system.read()
    seconds = 60
    assert opened.count("/proc/stat") == opened.count("/proc/meminfo") == seconds
    rest = [path for path in opened if path not in ("/proc/stat", "/proc/meminfo")]
    assert len(rest) <= 4 * seconds / 5 + 4, rest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="NVIDIA's module is Linux's")
def test_the_drivers_versions_load_two_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once these were twelve, in the second sample of every command: 80 ms."""
    mine = ("andon.host.rules.nvml_library", "andon.host.libraries", "andon.host.files")
    for name in [name for name in sys.modules if name.startswith(mine)]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.1\n")
    before = set(sys.modules)
    assert driver_versions.driver_versions(tmp_path)
    found = {name for name in sys.modules.keys() - before if name.startswith("andon.")}
    assert found == set(mine)


def test_a_snapshot_of_two_devices_as_a_line_takes_this_many_calls() -> None:
    wire.snapshot_line(FULL)
    calls = python_calls(lambda: wire.snapshot_line(FULL))
    assert calls.total() <= 31, calls


def test_the_latest_snapshot_is_kept_without_a_thread() -> None:
    sampler, before = Hand(), threading.active_count()
    live = WatchedLive(sampler, 1.0)
    shown = farm()
    calls = python_calls(lambda: sampler.bus.publish(shown, 1.0))
    assert live.last is shown
    assert threading.active_count() == before
    assert calls.total() <= 6, calls
    live.close()


class CountedHost:
    """Counts how often the machine itself was read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> Host:
        self.reads += 1
        return Host(load_1m=float(self.reads))


@pytest.mark.slow
@pytest.mark.parametrize(("watching", "reads"), [(True, 6), (False, 0)])
def test_the_machine_itself_is_read_with_each_sample_only_while_someone_watches(
    watching: bool, reads: int
) -> None:
    host = CountedHost()
    with Sampler({}, host, NodeIdentity("n", None), lambda found: visibility(found, {})) as sampler:
        sampler.once()  # the baseline and the first share of the processors
        before = host.reads
        with sampler.subscribe(0.05, watching=watching) as session:
            shown = [one.host.load_1m for one in islice(session, 6)]
        assert (host.reads > before) is watching
        assert len(set(shown)) == max(1, reads)
