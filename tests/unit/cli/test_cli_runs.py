"""`andon runs`: what people, scripts and spreadsheets see of runs."""

import csv
import io
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pytest
from pyarrow import parquet

from andon.app.runs import INDEX
from andon.cli.commands.command_group import CommandGroup
from andon.cli.commands.runs import tail
from andon.cli.commands.runs.group import COMMANDS, runs
from andon.cli.commands.runs.opened import complete_run
from andon.cli.main import cli, run
from andon.cli.terminal import Choices
from andon.errors import Denied, Unavailable
from andon.host.machine_id import node_name
from andon.host.processes.kin import pid_scope, started_ticks
from andon.host.state.node_folder import open_node_folder
from andon.host.state.user_folder import runs_folder
from andon.jobs.folder import open_jobs_folder
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobNote
from andon.model.job.spec import JobSpec
from andon.model.run.record import (
    ItemState,
    RunBegin,
    RunEvent,
    RunItem,
    RunLine,
    RunState,
)
from andon.runs.follower import RecordFollower
from andon.stores.sqlite_runs import SqliteRunIndex
from tests.support.replaced import fails
from tests.support.run_records import (
    BEGAN,
    FULL,
    HAPPENINGS,
    begin,
    end,
    sample,
    used,
    write_record,
)
from tests.support.snapshots import assert_golden

Told = Callable[..., str]


@pytest.fixture(autouse=True)
def _home(state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    runs_folder().mkdir(parents=True, mode=0o700)
    runs_folder().parent.chmod(0o700)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs `andon runs …` and returns what it prints; another exit code is a failure."""

    def call(*words: str, code: int = 0) -> str:
        found = run(["runs", *words])
        out, err = capsys.readouterr()
        assert found == code, err
        return out + err

    return call


def write(name: str, *lines: RunLine) -> Path:
    return write_record(runs_folder() / f"{name}.jsonl", *lines)


def three() -> None:
    """Two runs of one name that ended, and one that was lost when this machine was restarted."""
    write("a", begin(id="aabbccdd", tags=("paper",)), sample(1), end())
    write("b", begin(id="aaxxyyzz", at=BEGAN + 60, group="sweep"), end(state=RunState.FAILED))
    lost = begin(id="bbbbbbbb", at=BEGAN + 90, name="eval", simulated=True, node=node_name())
    write("c", lost, sample(1))


def test_a_run_of_a_sweep_is_told_by_its_parameters_and_its_energy_is_written_alike(
    told: Told,
) -> None:
    for n, name in enumerate(("kqzvmtra", "kqzvmtrb")):
        use = {**used(joules=96.3), "energy_source": "power"}
        first = begin(id=name, name="sw", group="sw", params={"lr": 0.1 * (n + 1), "job": n})
        last = end(summary={"GPU-a": use, "GPU-b": {**use, "energy_joules": 0.0}})
        write_record(runs_folder() / f"{n}.jsonl", first, last)
    listed, compared = told(), told("compare", "--group", "sw")
    assert "sw lr=0.1 " in listed
    assert "sw lr=0.2 " in listed
    assert "job=" not in listed
    assert listed.count("~96 J") == compared.count("~96 J") == 2
    sides = told("compare", "kqzvmtra", "kqzvmtrb")
    assert sides.count("~96 J") == 2


def test_without_runs_it_says_so(told: Told) -> None:
    assert told() == "no runs\n"
    assert json.loads(told("--json")) == {"schema": "andon.runs/1", "total": 0, "runs": []}


@pytest.mark.slow
def test_the_newest_come_first_and_filters_narrow_them(told: Told) -> None:
    three()

    def ids(*words: str) -> list[str]:
        return [one["id"] for one in json.loads(told("--json", *words))["runs"]]

    assert ids() == ["bbbbbbbb", "aaxxyyzz", "aabbccdd"]
    assert ids("--name", "tr*") == ["aaxxyyzz", "aabbccdd"]
    assert ids("--tag", "paper") == ["aabbccdd"]
    assert ids("--group", "sweep") == ["aaxxyyzz"]
    assert ids("--state", "failed") == ["aaxxyyzz"]
    assert ids("--search", "EVAL") == ["bbbbbbbb"]
    assert ids("--since", "2025-11-15T23:41:20+00:00") == ["bbbbbbbb"]
    assert ids("-n", "1") == ["bbbbbbbb"]
    assert json.loads(told("--json", "-n", "1"))["total"] == 3
    assert "the newest 1 of 3; all of them: -n 0" in told("-n", "1")


def test_the_list_as_csv_has_units_and_one_row_each(told: Told) -> None:
    three()
    rows = list(csv.DictReader(io.StringIO(told("--csv"))))
    assert [row["id"] for row in rows] == ["bbbbbbbb", "aaxxyyzz", "aabbccdd"]
    assert rows[2]["energy_joules"] == "6000.0"
    assert rows[2]["models"] == "2 × H200"
    assert rows[0]["energy_joules"] != "0"


def test_foreign_and_empty_files_do_not_hide_runs(told: Told) -> None:
    three()
    (runs_folder() / "empty.jsonl").write_text("")
    (runs_folder() / "foreign.jsonl").write_text('{"a": 1}\n')
    assert json.loads(told("--json"))["total"] == 3


def test_one_run_by_id_beginning_file_or_last(told: Told) -> None:
    three()
    for word in ("aabbccdd", "aab", str(runs_folder() / "a.jsonl")):
        assert json.loads(told("show", word, "--json"))["run"]["id"] == "aabbccdd"
    assert json.loads(told("show", "last", "--json"))["run"]["id"] == "bbbbbbbb"
    assert "2 runs begin with 'aa'" in told("show", "aa", code=6)
    assert "there is no run 'zz'" in told("show", "zz", code=5)


def test_show_says_everything_for_programs(told: Told) -> None:
    write("a", FULL, *HAPPENINGS, end())
    answer = json.loads(told("show", "last", "--json"))
    assert answer["schema"] == "andon.run_details/1"
    assert answer["begin"]["params"] == {"lr": 0.1, "layers": 12}
    assert answer["facts"]["git"]["dirty"] is True
    assert answer["end"]["samples"] == 10
    assert answer["summary"]["GPU-a"]["energy_joules"] == 3000.0


def test_a_record_that_was_moved_is_found_again(told: Told, tmp_path: Path) -> None:
    three()
    told("tag", "aabb", "best")
    (runs_folder() / "a.jsonl").rename(tmp_path / "moved.jsonl")
    text = told("show", "aabb", code=5)
    assert "is no longer at" in text
    assert "andon runs add DIR" in text
    assert told("add", str(tmp_path / "moved.jsonl")) == "1 found at its new path\n"
    assert told("add", str(tmp_path / "moved.jsonl")) == "1 known already\n"
    shown = json.loads(told("show", "aabb", "--json"))["run"]
    assert (shown["tags"], shown["path"]) == (["best", "paper"], str(tmp_path / "moved.jsonl"))
    assert Path(shown["path"]).is_file()


def test_add_says_what_it_took_and_what_not(told: Told, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write_record(tmp_path / "d" / "x.jsonl", begin(node="elsewhere"), end())
    (tmp_path / "d" / "y.jsonl").write_text("hello\n")
    text = told("add", str(tmp_path / "d"))
    assert "1 added, 1 not taken" in text
    assert "is not the record of a run" in text
    told("add", str(tmp_path / "nowhere"), code=1)


def test_a_pinned_run_is_listed_first_and_keeps_its_tags(told: Told) -> None:
    three()
    assert told("pin", "aabb") == "aabbccdd (train) is pinned\n"
    assert told("--tag", "pinned").count("aabbccdd") == 1
    newest = told("-n", "1")
    assert "aabbccdd" in newest.splitlines()[1]
    assert told("pin", "aabb", "--remove") == "aabbccdd (train) is not pinned\n"
    assert told("--tag", "pinned") == "no runs\n"
    assert "aabbccdd" in told("--tag", "paper")


def test_tags_and_notes_are_added_and_removed(told: Told) -> None:
    three()
    assert told("tag", "aabb", "x", "y") == "aabbccdd (train): paper x y\n"
    assert told("tag", "aabb", "--remove", "paper", "x") == "aabbccdd (train): y\n"
    told("note", "aabb", "the good one")
    assert "the good one" in told("show", "aabb")
    assert told("note", "aabb", "") == "aabbccdd (train): no note\n"
    assert told("note", "aabb", "b\udcff") == "aabbccdd (train): b?\n"
    for wrong in ("a b", "a,b", "", "x" * 61, "a\udcff"):
        assert "is not a tag" in told("tag", "aabb", wrong, code=2)


def test_a_file_that_is_not_listed_can_be_tagged(told: Told, tmp_path: Path) -> None:
    path = write_record(tmp_path / "x.jsonl")
    told("tag", str(path), "best")
    assert json.loads(told("--json", "--tag", "best"))["runs"][0]["path"] == str(path)


def test_rm_deletes_the_record_and_what_lies_beside_it(told: Told) -> None:
    three()
    (runs_folder() / "a.csv").write_text("at\n")
    told("tag", "aabb", "-r", "paper")
    told("tag", "bbbb", "-r", "paper")
    assert told("rm", "aabb", "bbbb") == "deleted aabbccdd (train)\ndeleted bbbbbbbb (eval)\n"
    assert sorted(path.name for path in runs_folder().iterdir()) == ["b.jsonl"]
    assert json.loads(told("--json"))["total"] == 1


def test_rm_can_leave_the_file(told: Told, tmp_path: Path) -> None:
    path = write_record(tmp_path / "x.jsonl")
    told("add", str(path))
    told("rm", "last", "--keep-file")
    assert path.exists()
    assert told() == "no runs\n"


@pytest.mark.slow
def test_rm_leaves_what_goes_on_and_what_a_baseline_needs(told: Told) -> None:
    three()
    write("d", mine(), sample(1))
    assert "still running" in told("rm", "live", "--force", code=6)
    assert "is tagged paper" in told("rm", "bbbb", "aabb", code=6)
    told("baseline", "set", "good", "aabb")
    assert "belongs to the baseline good" in told("rm", "aabb", code=6)
    assert (runs_folder() / "a.jsonl").exists()
    told("rm", "aabb", "--force")
    assert not (runs_folder() / "a.jsonl").exists()


def test_rm_leaves_records_of_other_folders_unless_it_is_forced(told: Told, tmp_path: Path) -> None:
    path = write_record(tmp_path / "x.jsonl", begin(tags=()), end())
    told("add", str(path))
    said = told("rm", "last")
    assert said.startswith("forgot ")
    assert f"its record stays at {path}" in said
    assert (path.exists(), told()) == (True, "no runs\n")
    told("add", str(path))
    assert told("rm", "last", "--force").startswith("deleted ")
    assert not path.exists()


def test_a_baseline_takes_the_name_of_runs(told: Told) -> None:
    for letter in "mno":
        write(letter, begin(id=letter * 8, name="nightly"), end())
    write("p", begin(id="pppppppp", name="nightly"), end(state=RunState.FAILED))
    said = told("baseline", "set", "good", "nightly")
    assert "baseline good: 3 runs" in said
    assert "1 of its runs did not succeed and are left out" in said
    assert "ok" in told("baseline", "check", "good", "nightly")


def test_one_run_alone_is_not_compared(told: Told) -> None:
    three()
    said = told("compare", "aabb", code=2)
    assert "comparing needs two runs; aabbccdd (train) is only one" in said
    assert "andon runs report aabbccdd" in said
    told("compare", "aabb", "aabb", code=2)
    told("compare", "aabb", "bbbb")


def mine() -> RunBegin:
    pid = os.getpid()
    return begin(
        id="livelive",
        pid=pid,
        boot=pid_scope().boot,
        started=started_ticks(pid),
        node=node_name(),
    )


@pytest.mark.slow
def test_a_baseline_is_set_listed_checked_and_forgotten(told: Told) -> None:
    three()
    assert "no baselines" in told("baseline")
    assert told("baseline", "set", "good", "aabb") == "baseline good: 1 run\n"
    assert "aabbccdd" in told("baseline")
    assert json.loads(told("baseline", "--json"))["baselines"][0]["name"] == "good"
    assert "ok" in told("baseline", "check", "good", "aabb")
    write("d", begin(id="dddddddd"), end(duration_seconds=20.0))
    told("baseline", "check", "good", "dddd", code=1)
    told("baseline", "check", "good", "dddd", "--tolerance", "100%")
    answer = json.loads(told("baseline", "check", "good", "dddd", "--json", code=1))
    assert answer["drifted"] is True
    told("baseline", "rm", "good")
    assert "there is no baseline 'good'" in told("baseline", "check", "good", "dddd", code=5)
    told("baseline", "rm", "good", code=5)


def test_a_baseline_outlives_the_records_of_its_runs(told: Told) -> None:
    three()
    told("baseline", "set", "good", "aabb")
    (runs_folder() / "a.jsonl").unlink()
    write("d", begin(id="dddddddd"), end())
    assert "ok" in told("baseline", "check", "good", "dddd")


def test_only_good_runs_make_a_baseline_and_only_ended_ones_are_checked(told: Told) -> None:
    three()
    write("d", mine(), sample(1))
    assert "a baseline is of runs that succeeded" in told("baseline", "set", "x", "aax", code=6)
    told("baseline", "set", "good", "aabb")
    assert "check it when it has ended" in told("baseline", "check", "good", "live", code=6)
    assert "failed" in told("baseline", "check", "good", "aax", code=1)
    for wrong in ("", "a b", "../x", "-x"):
        told("baseline", "set", "--", wrong, "aabb", code=2)
    for share in ("x", "-5%", "5%%", "1e9"):
        told("baseline", "check", "good", "aabb", f"--tolerance={share}", code=2)


def test_export_as_csv_has_a_row_for_each_device_and_sample(told: Told, tmp_path: Path) -> None:
    write("a", FULL, *HAPPENINGS, end())
    rows = list(csv.DictReader(io.StringIO(told("export", "last"))))
    assert len(rows) == 40
    assert (rows[2]["device"], rows[2]["elapsed_seconds"]) == ("GPU-a", "1.0")
    assert rows[2]["utilization_percent"] == "5"
    assert list(rows[2])[-1] == "at_iso", "the last column"
    assert datetime.fromisoformat(rows[2]["at_iso"]).timestamp() == float(rows[2]["at"])
    assert told("export", "last", "--csv") == told("export", "last", "--format", "csv")
    assert told("export", "last", "--csv", "--format", "jsonl", code=2)
    assert "jsonl is the whole record" in told(
        "export", "last", "--values", "--format", "jsonl", code=2
    )
    told("export", "last", "--out", str(tmp_path / "x.csv"))
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 41


def test_export_as_jsonl_is_the_record_without_what_cannot_be_read(
    told: Told, tmp_path: Path
) -> None:
    path = write("a", FULL, *HAPPENINGS, end())
    path.write_text(path.read_text() + "noise\n" + '{"event":"sam')
    text = told("export", "last", "--format", "jsonl", "--out", str(tmp_path / "x"))
    assert "1 lines could not be read" in text
    told("rm", "last", "--force")
    assert told("add", str(tmp_path / "x")) == "1 added\n"
    assert json.loads(told("show", "last", "--json"))["end"]["samples"] == 10


def test_export_as_parquet_is_typed(told: Told, tmp_path: Path) -> None:
    write("a", FULL, *HAPPENINGS, end())
    told("export", "last", "--out", str(tmp_path / "x.parquet"))
    table = parquet.read_table(tmp_path / "x.parquet")
    assert (table.num_rows, table.column("power_watts")[0].as_py()) == (40, 300.0)
    assert table.column("at")[0].as_py().timestamp() == BEGAN
    assert told("export", "last", "--format", "parquet", code=2)


def test_export_refuses_what_would_do_harm(told: Told, tmp_path: Path) -> None:
    path = write("a", FULL, end())
    assert "is the record itself" in told("export", "last", "--out", str(path), code=2)
    assert "does not imply a format" in told("export", "last", "--out", str(tmp_path / "x"), code=2)
    told("export", "last", "--out", str(tmp_path / "no" / "x.csv"), code=3)
    assert list(tmp_path.glob(".x*")) == []


def test_tail_shows_what_a_failed_item_wrote_and_which_began_twice(
    told: Told, tmp_path: Path
) -> None:
    said = "".join(f"line {n}\n" for n in range(9)) + "\x1b[31mno speech\nexit code 1"
    path = write_record(
        tmp_path / "x.jsonl", FULL,
        RunItem(BEGAN, ItemState.START, 33, "34", "0", begun_before=True),
        RunItem(BEGAN, ItemState.FAILED, 33, "34", "0", 1, 2.0, said, True),
        RunItem(BEGAN, ItemState.OK, 34, "35", "0", 1, 2.0, "fine"),
        end(),
    )  # fmt: skip
    text = told("tail", "--log", str(path))
    assert 'item no. 33 "34" started on GPU 0 (begun before, by a map that was killed)' in text
    lines = [line.strip() for line in text.splitlines()]
    after = lines.index(next(line for line in lines if "failed" in line))
    assert [line[-9:] for line in lines[after + 1 : after + 6]] == [
        "line 6", "line 7", "line 8", "no speech", "it code 1",
    ]  # fmt: skip
    assert "\x1b[31m" not in text
    assert "fine" not in text
    assert "1 item, which ran when the map" in told("report", str(path))


def test_tail_takes_a_run_or_a_file(told: Told, tmp_path: Path) -> None:
    path = write_record(tmp_path / "x.jsonl", FULL, *HAPPENINGS, end())
    text = told("tail", "--log", str(path), "-n", "4")
    assert 'item no. 1 "chunk-1.bin" failed on GPU 0 in 1 min' in text
    assert "chunk-0.bin" not in text  # only the latest four
    told("add", str(path))
    assert told("tail", "kqz", "-n", "4") == text
    told("tail", code=2)
    told("tail", "kqz", "--log", str(path), code=2)
    assert "is not the record" in _foreign(told, tmp_path)


def _foreign(told: Told, folder: Path) -> str:
    (folder / "y.txt").write_text("hello\n")
    return told("tail", "--log", str(folder / "y.txt"), code=2)


def test_following_prints_what_is_added_until_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a", mine(), sample(1))
    left = [
        lambda: _append(path, sample(2), RunEvent(BEGAN + 2, "epoch", {"number": 1})),
        lambda: _append(path, end()),
    ]
    with (
        click.Context(cli, obj=Choices()),
        RecordFollower(path, tail.SHOWN) as follower,
        ExitStack() as stack,
    ):
        shown, recent = tail._drawer(follower, True, stack), follower.recent()

        def draw(*drawn: Any) -> None:
            shown(*drawn)
            if left:
                left.pop(0)()

        draw(recent, [], RunState.RUNNING)
        tail._go_on(follower, recent, draw)
    text = capsys.readouterr().out
    assert text.index("running") < text.index("epoch  number=1") < text.index("succeeded")
    assert left == []


def _append(path: Path, *lines: RunLine) -> None:
    from tests.support.run_records import text_of

    with path.open("a") as file:
        file.write(text_of(lines))


def test_following_a_run_that_is_over_ends_at_once(told: Told) -> None:
    three()
    assert "lost" in told("tail", "last", "-f")


def test_gc_drops_old_runs_and_never_marked_ones(
    told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_RUNS_KEEP_DAYS", "30")
    three()
    write("new", begin(id="newnewne", at=time.time()), end())
    write("base", begin(id="basebase"), end())
    other = write_record(tmp_path / "other.jsonl", begin(id="otherone"), end())
    told("add", str(other))
    told("baseline", "set", "good", "base")
    assert run(["gc"]) == 0
    assert "2 runs deleted" in capsys.readouterr().out
    left = sorted(path.name for path in runs_folder().iterdir())
    assert left == ["a.jsonl", "base.jsonl", "new.jsonl"]  # tagged, of a baseline, young
    assert other.exists()
    assert json.loads(told("--json"))["total"] == 4


def test_gc_deletes_jobs_although_the_index_of_runs_cannot_be_written(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(
        monkeypatch,
        "andon.cli.commands.setup.gc",
        "open_run_finder",
        Unavailable("runs.db: the disk is full", hint="free some space, or: andon gc"),
    )
    three()
    made = open_jobs_folder().submit([JobSpec(0, "old", ("true",), "/", DeviceRequest(1, 1), 1.0)])
    open_jobs_folder().note(made[0].number, "cancelled", JobNote(1, 1.0, "ada"))
    assert run(["gc"]) == Unavailable.exit_code
    said = capsys.readouterr()
    assert "1 job deleted" in said.out
    assert "the disk is full" in said.err
    assert "andon gc" not in said.err


def test_gc_reports_a_history_that_cannot_be_opened_after_it_deleted_runs(
    told: Told, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "andon.cli.commands.setup.gc"
    fails(monkeypatch, module, "open_past", Unavailable("the database does not answer"))
    three()
    assert run(["gc"]) == Unavailable.exit_code
    assert "the database does not answer" in capsys.readouterr().err


FULL_DISK = "BEGIN SELECT RAISE(ABORT, 'no room'); END"


@pytest.mark.parametrize("when", ["opened", "written"])
def test_runs_are_listed_although_their_index_cannot_be(
    when: str, capsys: pytest.CaptureFixture[str]
) -> None:
    three()
    file = open_node_folder() / INDEX
    if when == "opened":
        file.mkdir()
    else:
        SqliteRunIndex(file, "").close()
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"CREATE TRIGGER full BEFORE INSERT ON runs {FULL_DISK}")
    assert run(["runs", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["total"] == 3
    assert "; runs are read from their records" in said.err
    assert ("no room" in said.err) == (when == "written")
    assert run(["runs", "show", "last"]) == 0
    assert run(["runs", "tag", "last", "x"]) == Unavailable.exit_code  # it would be lost


def test_runs_are_not_read_from_a_folder_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    three()
    runs_folder().parent.chmod(0o777)
    assert run(["runs"]) == Denied.exit_code
    assert "can write to the state folder" in capsys.readouterr().err


def test_the_index_can_be_made_again_from_the_records(told: Told, tmp_path: Path) -> None:
    three()
    before = json.loads(told("--json"))
    for index in (tmp_path / "state" / "andon" / "nodes").glob("*/runs.db*"):
        index.unlink()
    assert json.loads(told("--json")) == before


# How it fits the rest.


def test_every_command_of_the_group_is_there_and_has_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert isinstance(runs, CommandGroup)
    for name in COMMANDS:
        assert runs.get_command(click.Context(runs), name) is not None
        assert run(["runs", name, "--help"]) == 0
        assert_golden(f"help/runs-{name}.txt", capsys.readouterr().out)


def test_the_shell_completes_ids() -> None:
    three()
    run(["runs", "-q"])
    context = click.Context(runs)
    parameter = click.Argument(["run"])
    assert complete_run(context, parameter, "aa") == ["aaxxyyzz", "aabbccdd"]
    assert complete_run(context, parameter, "")[:2] == ["last", "bbbbbbbb"]
    assert complete_run(context, parameter, "la") == ["last"]
