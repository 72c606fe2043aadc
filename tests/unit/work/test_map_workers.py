"""The workers of a map: what they write, how they end, and what they give back."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from andon.errors import Gone, Invalid
from andon.leases.placement import Placement
from andon.model.run.record import ItemState, RunItem, RunKind, RunRow
from andon.model.run.wire import line_to_text
from andon.runs.record import RunRecorder
from andon.runs.rules.fold import RunFold, row_of
from andon.standalone import scribe
from andon.work.map.calls import MOST_OUTPUT_BYTES, CallEnd, ItemLimits
from andon.work.map.earlier import earlier_outcomes
from andon.work.map.places import CpuPlaces, MapPlace
from andon.work.map.pool import MapPool
from andon.work.map.session import MapSession
from andon.work.map.worker_calls import WorkerCaller, keep_end
from andon.work.process_group import ProcessGroup
from andon.work.rules.map.items import DIGEST, items_of
from andon.work.rules.map.plan import MapPlan, MapUnit
from tests.support.run_records import BEGAN, begin
from tests.support.waiting import wait_for

GRACE = 10.0
ANSWERS = """
import json, sys
def say(words): sys.stdout.write(words); sys.stdout.flush()
def fail(words): sys.stderr.write(words); sys.stderr.flush()
{before}
for line in sys.stdin:
    asked = json.loads(line)
    {work}
    say(json.dumps({{"index": asked["index"], "ok": True}}) + "\\n")
"""


def worker(tmp_path: Path, before: str = "", work: str = "pass") -> WorkerCaller:
    script = tmp_path / "worker.py"
    script.write_text(ANSWERS.format(before=before, work=work))
    return WorkerCaller(
        [sys.executable, "-S", str(script)], os.environ, tuple, ItemLimits(GRACE, 20.0)
    )


def units(*items: str) -> list[MapUnit]:
    return [MapUnit((item,)) for item in items_of(items)]


@pytest.mark.process
def test_a_worker_that_writes_much_before_it_reads_a_long_item(tmp_path: Path) -> None:
    caller = worker(tmp_path, before='say("x" * 300_000 + "\\n")')
    (unit,) = units("y" * 300_000)
    end = caller.call(unit)
    caller.close()
    assert (end.ok, end.reason) == (True, "")
    assert end.output is not None
    assert len(end.output.content) == 300_001


@pytest.mark.process
def test_a_worker_that_never_stops_printing_is_late_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First with an item, then after its input was closed."""
    monkeypatch.setattr("andon.work.map.worker_calls.LEAVE_SECONDS", 0.1)
    flood = "while True: print('x', flush=True)"
    caller = WorkerCaller(
        [sys.executable, "-S", "-c", flood],
        os.environ,
        tuple,
        ItemLimits(GRACE, 0.1),
    )
    (unit,) = units("a")
    end = caller.call(unit)
    assert (end.ok, end.reason) == (False, "took longer than 0 s (--item-timeout)")
    caller._started()
    caller.close()


@pytest.mark.process
def test_each_item_has_the_end_of_its_own_errors(tmp_path: Path) -> None:
    caller = worker(tmp_path, work=f'fail(asked["item"] * {MOST_OUTPUT_BYTES + 1500})')
    ends = [caller.call(unit) for unit in units("a", "b")]
    caller.close()
    assert [end.errors.content for end in ends if end.errors] == [
        b"a" * MOST_OUTPUT_BYTES,
        b"b" * MOST_OUTPUT_BYTES,
    ]


def test_of_a_long_output_the_end_is_kept() -> None:
    kept, size = bytearray(), MOST_OUTPUT_BYTES
    for number in range(50):
        keep_end(kept, bytes([number]) * (size // 10))
        assert len(kept) <= 2 * size
    assert kept[-size:] == b"".join(bytes([n]) * (size // 10) for n in range(39, 50))[-size:]


class Heard:
    """Is told what happens."""

    def joined(self, place: MapPlace, at: float | None = None) -> None: ...
    def left(self, place: MapPlace, at: float | None = None) -> None: ...
    def began(self, unit: MapUnit, place: MapPlace, at: float | None = None) -> None: ...
    def ended(
        self,
        unit: MapUnit,
        place: MapPlace,
        end: CallEnd,
        state: ItemState,
        at: float | None = None,
    ) -> None: ...
    def withdrawn(self, unit: MapUnit, place: MapPlace) -> None: ...


NO_RECORD: Any = None


class Unclosable:
    """Makes its calls, and fails when it is closed."""

    def call(self, unit: MapUnit) -> CallEnd:
        return CallEnd(True, 0.0)

    def end(self, number: int) -> None: ...

    def close(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_worker_that_cannot_be_closed_ends_the_map_and_gives_its_device_back() -> None:
    given_back: list[int] = []
    place = Placement(give_back=lambda: given_back.append(1))
    plan = MapPlan(items_of(["a"]))
    pool = MapPool(plan, CpuPlaces(1), lambda *_: Unclosable(), lambda words: None)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            pool.run([place], NO_RECORD, Heard(), lambda: None)
        except OSError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive()
    assert [str(error) for error in raised] == ["[Errno 5] Input/output error"]
    assert given_back == [1]


class OneLater(CpuPlaces):
    """Has one more place, later."""

    last: list[Placement]

    def later(self, taken: Sequence[Placement], unwanted: Callable[[], bool]) -> Placement | None:
        return self.last.pop()


class Slow(Unclosable):
    """Holds its item until it is let go."""

    def __init__(self, may_end: threading.Event) -> None:
        self._may_end = may_end

    def call(self, unit: MapUnit) -> CallEnd:
        self._may_end.wait(10.0)
        return CallEnd(True, 0.0)

    def close(self) -> None: ...


def test_a_later_worker_that_cannot_be_started_ends_the_map_and_gives_its_device_back() -> None:
    given_back = threading.Event()
    first, second = Placement(), Placement(give_back=given_back.set)

    def caller_of(place: Placement, recorder: RunRecorder) -> Slow:
        if place is second:
            raise OSError(24, "Too many open files")
        return Slow(given_back)

    plan = MapPlan(items_of(["a", "b"]))
    pool = MapPool(plan, OneLater(2, [second]), caller_of, lambda words: None)
    with pytest.raises(OSError, match="Too many open files"):
        pool.run([first], NO_RECORD, Heard(), lambda: None)
    assert given_back.is_set()


class Nothing:
    def ended(self, unit: MapUnit, end: CallEnd, state: ItemState) -> None: ...
    def close(self) -> None: ...


class OnePlace(CpuPlaces):
    """That says when it was given back."""

    given_back: int = 0

    def first(self) -> Placement:
        return Placement(give_back=self._back)

    def _back(self) -> None:
        self.given_back += 1


def test_a_map_that_cannot_be_recorded_gives_its_devices_back() -> None:
    def record(places: object) -> RunRecorder:
        raise OSError(24, "Too many open files")

    places = OnePlace(2)
    plan = MapPlan(items_of(["a", "b", "c"]))
    pool = MapPool(plan, places, lambda *_: Unclosable(), print)
    session = MapSession(plan, pool, record, Nothing())
    with pytest.raises(OSError, match="Too many open files"):
        session.run(lambda progress: None)
    assert places.given_back == 2


@pytest.mark.process
def test_a_process_that_has_just_ended_can_be_asked_to_end() -> None:
    group = ProcessGroup(["true"], os.environ, GRACE)
    assert group.reap() == 0
    group.end(signal.SIGKILL)
    group.send(signal.SIGTERM)
    assert group.end_requested


@pytest.mark.process
def test_a_group_that_ignores_sigterm_is_killed_after_the_grace_period() -> None:
    script = (
        "import os, signal; signal.signal(15, signal.SIG_IGN); os.write(1, b'r'); signal.pause()"
    )
    group = ProcessGroup(
        [sys.executable, "-S", "-c", script], os.environ, 0.1, stdout=subprocess.PIPE
    )
    assert group.process.stdout is not None
    with group.process.stdout as ready:
        ready.read(1)
    group.end()
    assert group.reap() == -signal.SIGKILL


@pytest.mark.process
def test_what_a_killed_map_has_handed_over_is_read_although_it_is_not_written_yet(
    tmp_path: Path,
) -> None:
    """The process that writes the record is stopped, with the end of an item in its pipe."""
    path = tmp_path / "a.jsonl"
    with subprocess.Popen(
        [sys.executable, scribe.__file__, str(path)], stdin=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        begun = begin(kind=RunKind.MAP, params={DIGEST: "d"})
        writer.stdin.write(line_to_text(begun).encode())
        writer.stdin.flush()
        wait_for(lambda: path.exists() and path.stat().st_size > 0)
        os.kill(writer.pid, signal.SIGSTOP)
        ok = RunItem(BEGAN, ItemState.OK, 0, "a")
        writer.stdin.write(line_to_text(ok).encode())
        writer.stdin.close()  # as a kill does
        row = row_of(begun, RunFold(), str(path), False)
        threading.Timer(0.1, os.kill, (writer.pid, signal.SIGCONT)).start()
        found = earlier_outcomes(row, "d", lambda word: row)
    assert found == {0: ("a", ItemState.OK)}


def test_of_a_chain_of_maps_only_records_of_this_command_count_and_each_once(
    tmp_path: Path,
) -> None:
    """A hostile or damaged record names itself, a file, another command or nothing sensible."""

    def map_of(run: str, item: int, **params: object) -> RunRow:
        path = tmp_path / f"{run}.jsonl"
        begun = begin(id=run, kind=RunKind.MAP, params={DIGEST: "d", **params})
        line = RunItem(BEGAN, ItemState.OK, item, str(item))
        path.write_text(line_to_text(begun) + line_to_text(line))
        return row_of(begun, RunFold(), str(path), False)

    known = {
        row.id: row
        for row in (
            map_of("first", 0),
            map_of("itself", 1, resumes="itself"),
            map_of("circle", 2, resumes="itself"),
            map_of("good", 3, resumes="first"),
            map_of("other", 4, **{DIGEST: "another"}),
            map_of("of-other", 5, resumes="other"),
            map_of("file", 6, resumes=str(tmp_path / "first.jsonl")),
            map_of("number", 7, resumes=2**64),
            map_of("list", 8, resumes=["first"]),
            map_of("long", 9, resumes="a" * 5000),
            map_of("deleted", 10, resumes="nobody"),
        )
    }
    asked: list[str] = []

    def resolve(word: str) -> RunRow:
        asked.append(word)
        if word not in known:
            raise Gone("there is none")
        return known[word]

    found = {name: sorted(earlier_outcomes(row, "d", resolve)) for name, row in known.items()
             if name != "other"}  # fmt: skip
    assert found == {
        "first": [0], "itself": [1], "circle": [1, 2], "good": [0, 3], "of-other": [5],
        "file": [6], "number": [7], "list": [8], "long": [9], "deleted": [10],
    }  # fmt: skip
    assert asked == ["itself", "itself", "itself", "first", "other", "nobody"]


def test_a_record_of_a_terabyte_is_refused_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    begun = begin(kind=RunKind.MAP, params={DIGEST: "d"})
    path.write_text(line_to_text(begun))
    os.truncate(path, 1 << 40)
    row = row_of(begun, RunFold(), str(path), False)
    with pytest.raises(Invalid, match="larger than 16 GiB"):
        earlier_outcomes(row, "d", lambda word: row)
