"""The index follows the records: new ones, ended ones, moved ones; and RUN means one run."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.errors import Conflict, Gone, Invalid
from andon.host.machine_id import node_name
from andon.host.processes.kin import pid_scope, started_ticks
from andon.host.users import user_name
from andon.model.job.progress import WorkProgress
from andon.model.run.record import RunBegin, RunKind, RunLogged, RunState
from andon.model.run.wire import line_to_text
from andon.runs.files import read_ends
from andon.runs.index import BATCH, FRESH_SECONDS, RunFinder, is_alive
from andon.runs.rules.fold import row_of
from andon.runs.rules.matching import RunQuery
from andon.stores.sqlite_runs import SqliteRunIndex
from tests.support.rows import rows
from tests.support.run_records import BEGAN, begin, end, sample, write_record

NOW = BEGAN + 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def finder(tmp_path: Path, folder: Path) -> Iterator[RunFinder]:
    with closing(SqliteRunIndex(tmp_path / "runs.db")) as index:
        yield RunFinder(index, folder, clock=lambda: NOW)


def mine(**changed: object) -> RunBegin:
    """A run of this very process."""
    pid = os.getpid()
    facts = {
        "pid": pid,
        "boot": pid_scope().boot,
        "started": started_ticks(pid),
        "node": node_name(),
    }
    return begin(**{**facts, "pid_namespace": pid_scope().pid_namespace, **changed})


def ids(finder: RunFinder) -> list[str]:
    return [row.id for row in finder.index.find(RunQuery())]


def test_records_of_the_folder_are_found_by_themselves(finder: RunFinder, folder: Path) -> None:
    write_record(folder / "a.jsonl")
    (folder / "notes.txt").write_text("no record")
    assert finder.refresh() == 0
    (row,) = finder.index.find(RunQuery())
    assert (row.id, row.state, row.path) == (
        "kqzvmtra", RunState.SUCCEEDED, str(folder / "a.jsonl"),
    )  # fmt: skip


def test_a_run_in_progress_shows_what_it_has_used_so_far(finder: RunFinder, folder: Path) -> None:
    path = folder / "a.jsonl"
    write_record(path, mine(), *(sample(n) for n in range(20)))
    finder.refresh()
    (row,) = finder.index.find(RunQuery())
    read = read_ends(path)
    shown = row_of(read.begin, read.fold, row.path, alive=True)
    assert (row.state, row.energy_joules) == (RunState.RUNNING, shown.energy_joules)
    assert row.mean_utilization_percent == shown.mean_utilization_percent is not None
    assert row.peak_memory_bytes == shown.peak_memory_bytes is not None
    with path.open("a") as file:
        file.write(line_to_text(sample(20)))
    assert (finder.resolve(row.id).energy_joules or 0) > (row.energy_joules or 0) > 0


def test_what_is_not_added_up_in_time_stays_as_it_was_known(
    finder: RunFinder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.jsonl"
    write_record(path, mine(), *(sample(n) for n in range(20)))
    finder.refresh()
    (row,) = finder.index.find(RunQuery())
    later = RunFinder(finder.index, folder, clock=lambda: NOW)
    monkeypatch.setattr("andon.runs.growing.PIECE_BYTES", 100)
    later.refresh(0.0)
    assert finder.index.find(RunQuery())[0] == row


def test_the_user_of_a_run_is_the_owner_of_its_file_whatever_the_record_says(
    finder: RunFinder, folder: Path, tmp_path: Path
) -> None:
    owner = user_name(os.getuid())
    write_record(folder / "a.jsonl", begin(user="mallory"), end())
    added = write_record(tmp_path / "b.jsonl", begin(id="bqzvmtra", user="root2"), end())
    finder.refresh()
    finder.add([added])
    assert {row.user for row in finder.index.find(RunQuery())} == {owner}
    assert finder.at(added).user == owner


def test_a_foreign_or_empty_file_does_not_hide_the_others(finder: RunFinder, folder: Path) -> None:
    (folder / "a.jsonl").write_text("")
    (folder / "b.jsonl").write_text("{}\n")
    write_record(folder / "c.jsonl")
    finder.refresh()
    assert ids(finder) == ["kqzvmtra"]


def test_a_run_that_goes_on_is_settled_when_it_ended(finder: RunFinder, folder: Path) -> None:
    path = write_record(folder / "a.jsonl", mine(), sample(1))
    finder.refresh()
    assert finder.resolve("kq").state is RunState.RUNNING
    write_record(path, mine(), sample(1), end(state=RunState.FAILED, exit_code=3))
    finder.index.annotate("kqzvmtra", ["mine"], "a note")
    found = finder.resolve("kq")
    assert (found.state, found.exit_code) == (RunState.FAILED, 3)
    assert (found.tags, found.note) == (("mine",), "a note")
    finder.refresh()
    assert list(finder.index.find(RunQuery())) == [found]


def test_a_run_that_goes_on_says_how_far_it_is_and_one_that_ended_does_not(
    finder: RunFinder, folder: Path
) -> None:
    logged = (
        RunLogged(BEGAN + 10, {"total_steps": 1000.0}, 0),
        RunLogged(BEGAN + 60, {"total": 1000.0}, 500),
    )
    path = write_record(folder / "a.jsonl", mine(), *logged)
    finder.refresh()
    (found,) = finder.index.find(RunQuery())
    assert found.progress == WorkProgress(500, 1000, "step", 10.0, BEGAN + 110)
    write_record(path, mine(), *logged, end())
    finder.refresh()
    assert finder.resolve("kq").progress is None


@pytest.mark.parametrize("more", [0, 200])
def test_a_run_is_as_far_as_its_latest_sample_says(
    finder: RunFinder, folder: Path, more: int
) -> None:
    """In a short record and in one of which only the ends are read; a half-written line is none."""
    far = WorkProgress(3, 10, "epoch")
    filling = [replace(sample(n), devices={"x" * 500: {"state": "ok"}}) for n in range(more)]
    path = write_record(folder / "a.jsonl", mine(), *filling, replace(sample(300), progress=far))
    with path.open("a") as file:
        file.write(line_to_text(sample(301))[:-20])
    finder.refresh()
    (found,) = finder.index.find(RunQuery())
    assert found.progress == far


def test_the_run_of_a_job_is_as_far_as_the_output_of_the_job_says(
    tmp_path: Path, folder: Path
) -> None:
    printed = WorkProgress(3, 10, "epoch")
    outputs = {"kqzvmtra": printed, "bqzvmtra": printed}
    write_record(folder / "a.jsonl", mine(kind=RunKind.JOB), sample(1))
    write_record(folder / "b.jsonl", mine(id="bqzvmtra"), sample(1))  # of `andon run`
    with closing(SqliteRunIndex(tmp_path / "more.db")) as index:
        finder = RunFinder(index, folder, clock=lambda: NOW, printed=lambda: outputs)
        finder.refresh()  # the first look says it too
        assert {row.id: row.progress for row in index.find(RunQuery())} == {
            "kqzvmtra": printed, "bqzvmtra": None,
        }  # fmt: skip
        write_record(folder / "a.jsonl", mine(kind=RunKind.JOB), sample(1), end())
        assert finder.resolve("kqzvmtra").progress is None


def test_a_run_whose_process_is_gone_is_lost(finder: RunFinder, folder: Path) -> None:
    path = write_record(folder / "a.jsonl", mine(), sample(1, 30))
    finder.refresh()
    write_record(path, mine(started=1.0), sample(1, 30))  # another process has its pid now
    finder.refresh()
    (row,) = finder.index.find(RunQuery())
    assert (row.state, row.mean_utilization_percent, row.samples) == (RunState.LOST, 30, 1)


def test_a_running_record_that_vanished_is_lost(finder: RunFinder, folder: Path) -> None:
    write_record(folder / "a.jsonl", mine()).rename(folder / "b.jsonl")
    write_record(folder / "a.jsonl", mine())
    (folder / "b.jsonl").unlink()
    finder.refresh()
    (folder / "a.jsonl").unlink()
    finder.refresh()
    assert finder.index.find(RunQuery())[0].state is RunState.LOST


def test_a_moved_record_keeps_what_people_added(
    finder: RunFinder, folder: Path, tmp_path: Path
) -> None:
    path = write_record(folder / "a.jsonl")
    finder.refresh()
    finder.index.annotate("kqzvmtra", ["best"], None)
    (tmp_path / "else" / "deep").mkdir(parents=True)
    moved = path.rename(tmp_path / "else" / "deep" / "z.jsonl")
    done = finder.add([tmp_path / "else"])
    assert (len(done.moved), done.known, done.added, done.refused) == (1, 0, [], [])
    found = finder.resolve("kqzvmtra")
    assert (found.path, found.tags) == (str(moved), ("best",))


def test_a_copy_is_refused_while_the_first_is_there(
    finder: RunFinder, folder: Path, tmp_path: Path
) -> None:
    write_record(folder / "a.jsonl")
    finder.refresh()
    copy = write_record(tmp_path / "copy.jsonl")
    ((path, why),) = finder.add([copy]).refused
    assert path == copy
    assert why.startswith("a copy of run kqzvmtra")


def test_another_run_of_the_same_id_is_refused(finder: RunFinder, tmp_path: Path) -> None:
    one = write_record(tmp_path / "1.jsonl")
    other = write_record(tmp_path / "2.jsonl", begin(at=BEGAN + 5), end())
    for paths in ([one, other], [other]):  # in one batch, and one after the other
        ((_, why),) = finder.add(paths).refused
        assert "another one" in why


def test_what_is_added_is_told_apart_from_what_is_refused(
    finder: RunFinder, folder: Path, tmp_path: Path
) -> None:
    good = write_record(tmp_path / "good.jsonl")
    bad = tmp_path / "bad.jsonl"
    bad.write_text("x\n")
    done = finder.add([good, bad, tmp_path / "none.jsonl"])
    assert [row.id for row in done.added] == ["kqzvmtra"]
    assert [path for path, _ in done.refused] == [bad, tmp_path / "none.jsonl"]


def test_few_new_records_at_a_time(finder: RunFinder, folder: Path) -> None:
    for n in range(BATCH + 3):
        path = write_record(folder / f"{n}.jsonl", begin(id=f"run{n}"), end())
        os.utime(path, (n, n))
    assert finder.refresh(budget_seconds=-1) == 3
    assert set(ids(finder)) == {f"run{n}" for n in range(3, BATCH + 3)}  # the newest first
    assert finder.refresh(budget_seconds=60) == 0
    assert len(ids(finder)) == BATCH + 3


def test_run_is_an_id_its_beginning_a_file_or_last(
    finder: RunFinder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_record(folder / "a.jsonl", begin(id="aabbccdd"), end())
    write_record(folder / "b.jsonl", begin(id="aaxxyyzz", at=BEGAN + 5), end())
    for word in ("aabbccdd", "aab", str(path)):
        assert finder.resolve(word).id == "aabbccdd", word
    assert finder.resolve("last").id == finder.resolve("@").id == "aaxxyyzz"
    monkeypatch.chdir(folder)
    assert finder.resolve("a.jsonl").path == str(path)


def test_an_ambiguous_beginning_is_refused_with_the_candidates(
    finder: RunFinder, folder: Path
) -> None:
    for n, name in enumerate(("aabb", "aacc")):
        write_record(folder / f"{n}.jsonl", begin(id=name, name=f"train-{n}"), end())
    with pytest.raises(Conflict, match="2 runs begin with 'aa'") as error:
        finder.resolve("aa")
    assert {line.split()[0] for line in error.value.mistakes} == {"aabb", "aacc"}


def test_a_name_means_its_run_the_newest_of_several_or_none_where_that_would_be_wrong(
    finder: RunFinder, folder: Path
) -> None:
    said: list[str] = []
    finder = RunFinder(finder.index, folder, notify=said.append)
    for n, (name, called) in enumerate(
        (("qqbb", "train"), ("rrcc", "train"), ("sstt", "once"), ("uuvv", "qqb"))
    ):
        write_record(folder / f"{n}.jsonl", begin(id=name, name=called, at=BEGAN + n), end())
    table = {"once": "sstt", "train": "rrcc", "qqb": "uuvv", "qqbb": "qqbb", "qq": "qqbb"}
    assert {word: finder.resolve(word).id for word in table} == table
    assert said == ["run rrcc is the newest of 2 called train: rrcc, qqbb"]
    with pytest.raises(Conflict, match="2 runs are called 'train'") as refused:
        finder.resolve("train", only_one=True)
    assert refused.value.hint == "name one by its id, the newest first: rrcc, qqbb"
    for word in ("tr*", "trai", "a\x00b"):
        with pytest.raises(Gone) as error:
            finder.resolve(word)
        assert error.value.hint == "andon runs lists them; name a file by its path"


def test_what_is_not_there_is_gone_with_a_hint(finder: RunFinder, folder: Path) -> None:
    for word in ("last", "nobody", "", "none.jsonl", "/no/such/file", "a" * 5000):
        with pytest.raises(Gone) as error:
            finder.resolve(word)
        assert error.value.hint, word
    (folder / "x.jsonl").write_text("x\n")
    with pytest.raises(Invalid):
        finder.resolve(str(folder / "x.jsonl"))


def test_a_file_that_the_index_knows_has_its_tags(finder: RunFinder, folder: Path) -> None:
    path = write_record(folder / "a.jsonl")
    finder.refresh()
    finder.index.annotate("kqzvmtra", ["best"], None)
    assert finder.resolve(str(path)).tags == ("best",)


def test_the_run_of_a_file_is_as_it_is_now_and_not_as_it_was_when_it_was_remembered(
    finder: RunFinder, folder: Path
) -> None:
    """A map that is killed just after its start is in the index as one that runs."""
    path = write_record(folder / "a.jsonl", mine(), sample(1))
    finder.refresh()
    finder.index.annotate("kqzvmtra", ["best"], None)
    write_record(path, mine(started=1.0), sample(1))  # its process is gone
    found = finder.resolve(str(path))
    assert (found.state, found.tags) == (RunState.LOST, ("best",))


ALIVE = (
    (mine(), 1e9, True),
    (mine(started=1.0), 0, False),  # the pid is another process's now
    (mine(pid=2**22 + 5), 0, False),
    (mine(pid_namespace="pid:[1]"), 0, True),  # in a container: by its record
    (mine(pid_namespace="pid:[1]"), FRESH_SECONDS, False),
    (mine(boot="earlier"), 0, False),  # this machine was started again since
    (replace(mine(), boot="b-2", node="another"), 0, True),
    (replace(mine(), boot="b-2", node="another"), FRESH_SECONDS, False),
)


@rows(("first", "age", "alive"), ALIVE, ids=range(len(ALIVE)))
def test_whether_a_run_lives(first: RunBegin, age: float, alive: bool) -> None:
    assert is_alive(first, NOW - age, NOW) is alive
