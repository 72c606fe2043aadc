"""Maps on clusters are sessions like those on this machine: workers' records become one, and a
cluster that is away for a while makes no second job."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.errors import Denied, Invalid, Unavailable
from andon.jobs.clusters import map_blocks, map_jobs
from andon.jobs.clusters.map_blocks import BlockPool
from andon.jobs.clusters.map_jobs import JobCaller
from andon.jobs.rules.cluster_views import ClusterPage
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import Accepted, JobOutcome, LogPart, Submission
from andon.model.job.facts import JobState
from andon.model.run.record import ItemState, RunDevice, RunEnd, RunLine, RunSample, RunState
from andon.model.run.wire import line_to_text
from andon.runs.files import RecordFile, read_ends
from andon.runs.record import RunRecorder
from andon.work.map.blocks import BlockFolder, CallResult, SharedPlan
from andon.work.map.calls import CallEnd
from andon.work.map.places import CpuPlaces, MapPlace
from andon.work.map.pool import MapPool
from andon.work.map.session import MapResult, MapSession
from andon.work.rules.map.items import items_of
from andon.work.rules.map.plan import MapPlan, MapUnit
from andon.work.rules.map.template import CommandTemplate
from tests.support.run_records import begin

WORDS = ("true", "{item}")


class Desk:
    """A cluster whose jobs are what a test says."""

    name = "lab"
    able: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.faults: list[Unavailable] = []
        self.cancelled: list[str] = []
        self.states: dict[str, JobState] = {}
        self.taken: Callable[[Submission], None] = lambda one: None

    def submit(self, jobs: Sequence[Submission]) -> list[Accepted]:
        (one,) = jobs
        self.sent.append(one.label)
        if self.faults:
            raise self.faults.pop()
        self.states[one.label] = JobState.SUCCEEDED
        self.taken(one)
        return [Accepted(one, f"lab:{one.label}")]

    def id_of(self, label: str) -> str:
        return label.removeprefix("lab:")

    def latest(self, holds: object) -> ClusterPage:
        jobs = [
            ClusterJob(id_, "map", state, "ann", 0.0, where="n1 GPU 1", started=5.0, ended=7.0)
            for id_, state in self.states.items()
        ]
        return ClusterPage("lab", jobs=tuple(jobs))

    def log(self, job: str, start: int, most: int) -> LogPart:
        return LogPart(start, 4, "" if start else "out\n", True)

    def act(self, act: object, ids: Sequence[str]) -> list[Any]:
        self.cancelled += ids
        return []


class Jobs(map_jobs.MapJobs, frozen=True):
    """Submissions without a spec."""

    def submission(self, command: Sequence[str], recorder: Any = None, **more: Any) -> Any:
        known: Any = None
        return Submission(f"a{len(self.desk.sent)}", known, **more)  # type: ignore[attr-defined]


class Outputs:
    def __init__(self) -> None:
        self.states: list[ItemState] = []

    def ended(self, unit: MapUnit, end: CallEnd, state: ItemState) -> None:
        self.states.append(state)

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_jobs, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(map_jobs, "doubled_seconds", lambda *_: 0.0)
    monkeypatch.setattr(map_blocks, "FIRST_POLL_SECONDS", 0.0)
    monkeypatch.setattr(map_blocks, "FRESH_SECONDS", 0.0)


def run(pool: Any, path: Path, outputs: Any) -> MapResult:
    def record(places: object) -> RunRecorder:
        recorder = RunRecorder(
            begin(at=time.time(), devices=()), RecordFile(path), None, why_none="none read"
        )
        recorder.start()
        return recorder

    return MapSession(pool.plan, pool, record, outputs).run(lambda progress: None)


def job_pool(
    desk: Any,
    plan: MapPlan,
    said: list[str],
    most: int = 2,
    command: Callable[[MapUnit], Sequence[str]] = lambda unit: WORDS,
) -> MapPool:
    none: Any = None
    caller = JobCaller(Jobs(desk, none), plan, said.append, command)
    return MapPool(plan, CpuPlaces(most), caller.of, said.append, lambda _: MapPlace("lab"))


def test_a_job_whose_cluster_was_away_is_sent_again_under_its_label(tmp_path: Path) -> None:
    desk, said = Desk(), list[str]()

    def taken(one: Submission) -> None:  # both run at the same time
        state = JobState.SUCCEEDED if len(desk.states) == 2 else JobState.RUNNING
        desk.states |= dict.fromkeys(desk.states, state)
        desk.faults += [Unavailable("lab: away")] * (len(desk.sent) == 1)

    desk.taken = taken
    result = run(job_pool(desk, MapPlan(items_of(["a", "b"])), said), tmp_path / "a", Outputs())
    assert desk.sent == ["a0", "a1", "a1"]
    assert "lab: away; trying again" in said
    assert (result.progress.done, result.used) == (2, ("lab", "lab"))
    items = read_ends(tmp_path / "a").fold.items
    ended = [one for one in items if one.state is ItemState.OK]
    assert {(one.device, one.runtime_seconds, one.output) for one in ended} == {
        ("n1:1", 2.0, "out")
    }


def test_jobs_are_submitted_in_the_order_of_their_items(tmp_path: Path) -> None:
    desk, plan, made = Desk(), MapPlan(items_of([str(number) for number in range(40)])), list[int]()

    def command(unit: MapUnit) -> tuple[str, ...]:
        made.append(unit.items[0].index)
        return WORDS

    run(job_pool(desk, plan, [], 8, command), tmp_path / "a", Outputs())
    assert made == list(range(40))


def test_a_cluster_that_never_took_a_job_ends_the_map(tmp_path: Path) -> None:
    desk = Desk()
    desk.faults.append(Unavailable("lab: away"))
    with pytest.raises(Unavailable):
        run(job_pool(desk, MapPlan(items_of(["a"])), []), tmp_path / "a", Outputs())


def test_a_map_that_is_refused_in_the_middle_cancels_its_jobs_and_ends_with_the_reason(
    tmp_path: Path,
) -> None:
    desk, said = Desk(), list[str]()

    def runs(one: Submission) -> None:
        desk.states[one.label] = JobState.RUNNING
        if len(desk.sent) == 2:
            desk.faults.append(Invalid("lab: no more than two"))  # type: ignore[arg-type]

    desk.taken = runs
    plan = MapPlan(items_of(["a", "b", "c", "d"]))
    with pytest.raises(Invalid, match="no more than two"):
        run(job_pool(desk, plan, said, 3), tmp_path / "a", Outputs())
    assert sorted(desk.cancelled) == ["a0", "a1"]
    assert said == ["2 jobs on lab are asked to end"]
    assert plan.stopped == "lab: no more than two"


def test_a_map_whose_login_ends_names_the_jobs_that_it_cannot_cancel(tmp_path: Path) -> None:
    desk, said = Desk(), list[str]()
    desk.taken = lambda one: desk.states.update({one.label: JobState.RUNNING})
    expired = Denied("lab: the login is not valid")

    def latest(holds: object) -> ClusterPage:
        if len(desk.sent) == 2:
            raise expired
        return Desk.latest(desk, holds)

    desk.latest = latest  # type: ignore[method-assign]
    desk.act = lambda act, ids: [JobOutcome("lab:a0", error=expired)]  # type: ignore[method-assign]
    plan = MapPlan(items_of(["a", "b"]))
    with pytest.raises(Denied):
        run(job_pool(desk, plan, said), tmp_path / "a", Outputs())
    assert said == ["lab: the login is not valid; what may go on: lab:a0, lab:a1"]


def test_the_records_of_workers_on_two_nodes_become_one(tmp_path: Path) -> None:
    """Each has a GPU 0, of another node; one of them was killed while it worked on an item."""
    desk, plan, now = Desk(), MapPlan(items_of(["a", "b"])), time.time()
    shared = SharedPlan(CommandTemplate(WORDS), plan.units)

    def work(one: Submission) -> None:
        folder = BlockFolder(Path(one.runs).parent)
        for number in range(2):
            device = RunDevice(f"GPU-{number}", 0, "0", "H100")
            readings = {"state": "ok", "utilization_percent": 20.0 + 40 * number}
            lines: list[RunLine] = [
                begin(id=f"w{number}", node=f"n{number}", at=now, devices=(device,)),
                RunSample(now + 0.1 * (2 - number), {device.uuid: readings}, 50.0),
                RunEnd(now + 0.3, RunState.SUCCEEDED, 0.3, 1, {}),
            ]
            text = "".join(line_to_text(line) for line in lines[: 3 - number])
            (Path(one.runs) / f"{number}.jsonl").write_text(text)
            call = CallResult(number, ItemState.START, 0.0, run=f"w{number}", at=now)
            folder.write(number, 1, call)
        folder.write(0, 1, replace(call, call=0, state=ItemState.OK, run="w0", at=now + 0.2))

    desk.taken = work
    cluster: Any = desk
    none: Any = None
    pool = BlockPool(Jobs(cluster, none), plan, print, shared, tmp_path, 2)
    outputs = Outputs()
    result = run(pool, tmp_path / "a", outputs)
    fold = read_ends(tmp_path / "a").fold
    assert fold.begin is not None
    assert [one.label for one in fold.begin.devices] == ["n0:0", "n1:0"]
    assert result.end.samples == 2
    busy = {uuid: use["utilization_percent"]["mean"] for uuid, use in result.end.summary.items()}
    assert busy == {"GPU-0": 20.0, "GPU-1": 60.0}
    assert result.end.node["cpu_percent"]["mean"] == 50.0
    assert {one.device for one in fold.items if one.index == 1} == {"n1:0"}
    assert outputs.states == [ItemState.OK, ItemState.FAILED]
    assert result.progress.stopped == "its worker ended before it"
    assert result.used == ("n0:0", "n1:0")
