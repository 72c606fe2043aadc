"""How the server reads records: only the ends, only new bytes, and no file but the run's own."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from andon.access.roles import ALL_SEEING, BLIND, Sight
from andon.errors import AndonError, Conflict, Denied, Gone
from andon.model.run.record import RunAlert, RunEnd, RunEvent, RunLogged, RunSeries, RunState
from andon.node.seen.runs import SeenRuns, news
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.runs.files import tail_of
from andon.runs.growing import MOST_NEW_LINES, RunRecord, mark_lines, opened
from andon.runs.rules.matching import RunQuery
from tests.support.run_records import BEGAN, begin, end, sample, text_of, write_record
from tests.support.served_runs import NOW, index_of, row_at, runs_of

RUN = "kqzvmtra"
ADA = Sight(user="ada")
SERIES = RunSeries((0.0,), {"GPU-a": {"power_watts": (300.0,)}})


def append(path: Path, *lines: Any) -> None:
    with path.open("a") as file:
        file.write(text_of(lines))


class CountedRecord(RunRecord):
    """Says how many lines were taken one by one."""

    taken = 0

    def _take_new(self, *given: Any) -> None:
        self.taken += 1
        super()._take_new(*given)


def test_of_a_finished_run_only_the_ends_are_read(tmp_path: Path) -> None:
    samples = [sample(second) for second in range(3000)]
    path = write_record(tmp_path / "r.jsonl", begin(), *samples, end(series=SERIES))
    record = CountedRecord(str(path), RUN)
    record.refresh()
    assert record.taken == 0
    assert record.fold.samples < 1000
    assert record.fold.series() == SERIES
    assert record.read_bytes == record.of_bytes == path.stat().st_size


def bytes_read() -> int:
    """What this process has read from files so far, as the kernel counts it."""
    said = Path("/proc/self/io").read_text("ascii").split()
    return int(said[said.index("rchar:") + 1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count here")
def test_opening_a_long_run_reads_little_of_it(tmp_path: Path) -> None:
    """Ten times the samples, the same bytes: only both ends are read, for the page and the list."""
    read = []
    for count in (10, 100):
        path = tmp_path / f"{count}.jsonl"
        middle = text_of([sample(1)]) * (count * 500)
        path.write_text(text_of([begin()]) + middle + text_of([end(series=SERIES)]))
        rows = [row_at(path)]
        before = bytes_read()
        assert SeenRuns(runs_of(rows), ADA).details(RUN).series.at
        row_at(path)
        read.append(bytes_read() - before)
        assert read[-1] < 1_200_000, path.stat().st_size
    assert path.stat().st_size > 10_000_000
    assert read[1] < 1.5 * read[0]


@pytest.mark.parametrize("length", [10, 300_000, 2_000_000])
def test_the_last_line_is_found_however_long_it_is(tmp_path: Path, length: int) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1), end(message="x" * 100))
    text = path.read_text().replace("x" * 100, "y" * 100)
    padded = text.rstrip("\n")[:-1] + ',"padding":"' + "z" * length + '"}\n'
    path.write_text(padded)
    with path.open("rb") as file:
        found = tail_of(file, path.stat().st_size).lines[-1]
    assert isinstance(found, RunEnd)
    assert found.message == "y" * 100


@pytest.mark.parametrize("rest", ["", "half a li", "\n\n"])
def test_a_record_without_its_end_has_none(tmp_path: Path, rest: str) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    with path.open("a") as file:
        file.write(rest)
    with path.open("rb") as file:
        found = tail_of(file, path.stat().st_size).lines
    assert not any(isinstance(line, RunEnd) for line in found)


def test_a_run_that_goes_on_is_read_once_and_then_only_its_new_bytes(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    record = RunRecord(str(path), RUN)
    record.refresh()
    first = record.read_bytes
    half = text_of([sample(2)])
    with path.open("a") as file:
        file.write(half[:20])
    record.refresh(collecting=True)
    assert record.fold.samples == 1
    with path.open("a") as file:
        file.write(half[20:])
    append(path, RunEvent(BEGAN + 3, "epoch"))
    record.refresh()
    assert record.fold.samples == 2
    before, lines = record.take_new_lines()
    assert before == first
    assert [type(line).__name__ for line in lines] == ["RunSample", "RunEvent"]
    assert record.take_new_lines() == (path.stat().st_size, [])
    append(path, end(series=SERIES))
    record.refresh()
    assert record.fold.end is not None
    assert record.fold.series() == SERIES


def test_what_one_request_reads_is_bounded_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.runs.growing.PIECE_BYTES", 1000)
    path = write_record(tmp_path / "r.jsonl", begin(), *map(sample, range(50)))
    record = RunRecord(str(path), RUN)
    record.refresh(0.0)
    assert 0 < record.read_bytes <= 1000
    assert record.of_bytes == path.stat().st_size
    while record.read_bytes < record.of_bytes:
        record.refresh(0.0)
    assert record.fold.samples == 50


def test_too_many_news_are_none_so_that_the_page_begins_anew(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin())
    record = RunRecord(str(path), RUN)
    record.refresh(collecting=True)
    append(path, *map(sample, range(MOST_NEW_LINES + 1)))
    record.refresh()
    assert record.take_new_lines() == (record.read_bytes, [])


def test_a_record_that_was_replaced_is_read_from_its_begin(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1), sample(2))
    record = RunRecord(str(path), RUN)
    record.refresh()
    other = write_record(tmp_path / "other.jsonl", begin(), sample(7))
    other.replace(path)
    record.refresh()
    assert record.fold.samples == 1


def test_no_other_file_is_read_in_the_place_of_a_record(tmp_path: Path) -> None:
    """A record may lie in a folder of another user, who can put anything in its place."""
    secret = tmp_path / "secret"
    secret.write_text("a key of the server's user\n")
    path = tmp_path / "r.jsonl"
    path.symlink_to(secret)
    write_record(tmp_path / "mine.jsonl", begin(id="zzzzzzzz"))
    with pytest.raises(AndonError):
        opened(str(path), RUN)
    path.unlink()
    for other in (secret, tmp_path / "mine.jsonl"):
        os.link(other, path)
        with pytest.raises(AndonError):
            opened(str(path), RUN)
        path.unlink()
    os.mkfifo(path)
    with pytest.raises(AndonError):
        opened(str(path), RUN)


def test_what_happened_is_found_without_parsing_the_samples(tmp_path: Path) -> None:
    alert = RunAlert(BEGAN + 4, "thermal", "warning", "firing", 'says "event":"event"')
    event = RunEvent(BEGAN + 2, "epoch", {"text": '{"event":"alert"'})
    path = write_record(
        tmp_path / "r.jsonl", begin(), sample(1), event, RunLogged(BEGAN, {"loss": 1.0}), alert
    )
    with path.open("a") as file:
        file.write('{"event":"item",nonsense}\n{"event":"event","at":')
    found, whole = mark_lines(str(path), RUN)
    assert sorted(found, key=lambda line: line.at) == [event, alert]
    assert whole


def test_a_run_is_found_by_its_id_or_the_beginning_of_it(tmp_path: Path) -> None:
    runs = runs_of([
        row_at(write_record(tmp_path / f"{name}.jsonl", begin(id=name), end()))
        for name in ("abcdefgh", "abcdefgi", "abcdefgh2", "zyx")
    ])  # fmt: skip
    assert SeenRuns(runs, ADA).one("abcdefgh")[0].id == "abcdefgh"
    assert SeenRuns(runs, ADA).one("z")[0].id == "zyx"
    with pytest.raises(Conflict, match="3 runs begin with"):
        SeenRuns(runs, ADA).one("abc")
    for nonsense in ("", "nothing"):
        with pytest.raises(Gone):
            SeenRuns(runs, ADA).one(nonsense)


def test_the_end_that_the_index_does_not_know_yet_counts(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    runs = runs_of([row_at(path)])
    going = SeenRuns(runs, ADA).details(RUN)
    assert (going.state, going.samples, going.duration_seconds) == (RunState.RUNNING, 1, 100.0)
    append(path, end(series=SERIES))
    done = SeenRuns(runs, ADA).details(RUN)
    assert (done.state, done.samples, done.duration_seconds) == (RunState.SUCCEEDED, 10, 10.0)


def test_a_record_is_given_to_those_who_may_see_its_command(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl")
    runs = runs_of([row_at(path)])
    for sight in (ADA, ALL_SEEING):
        found = SeenRuns(runs, sight).download(RUN)
        with closing(found.file):
            assert found.file.read(found.size + 1) == path.read_bytes()
        assert (found.size, found.name) == (path.stat().st_size, "r.jsonl")
    for sight in (BLIND, Sight(user="bob")):
        with pytest.raises(Denied):
            SeenRuns(runs, sight).download(RUN)


def test_a_record_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl")
    runs = runs_of([row_at(path)])
    path.unlink()
    with pytest.raises(Gone, match="removed"):
        SeenRuns(runs, ADA).details(RUN)


def test_news_come_as_each_may_see_them_and_each_once(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    runs = runs_of([row_at(path)])
    at = SeenRuns(runs, ADA).details(RUN).read.bytes
    first = news(RUN, [SeenRuns(runs, ADA), SeenRuns(runs, BLIND)])[0]
    assert first[ADA].since_bytes == at
    assert first[ADA].series.at == []
    append(path, sample(2, 80), RunEvent(BEGAN + 2, "epoch", {"n": 1}))
    second = news(RUN, [SeenRuns(runs, ADA), SeenRuns(runs, BLIND)])[0]
    assert second[ADA].series.at == second[BLIND].series.at == [2.0]
    assert (second[ADA].marks[0].detail, second[BLIND].marks[0].detail) == ('{"n":1}', None)
    assert second[ADA].uses[0].readings["utilization_percent"].max == 80
    assert second[ADA].duration_seconds == NOW - BEGAN
    append(path, end(state=RunState.FAILED))
    third = news(RUN, [SeenRuns(runs, ADA)])[0]
    assert (third[ADA].state, third[ADA].since_bytes) == (
        RunState.FAILED, second[ADA].read.bytes,
    )  # fmt: skip


def test_requests_within_a_second_share_one_look_at_the_index(tmp_path: Path) -> None:
    looks, now = [0], [0.0]
    row = row_at(write_record(tmp_path / "r.jsonl"))

    def look() -> FoundRuns:
        looks[0] += 1
        return FoundRuns(index_of([row]), left=3)

    runs = ServedRuns(look, "of ada", clock=lambda: NOW, monotonic=lambda: now[0])
    for now[0] in (10.0, 10.5, 10.9, 11.5):
        page = SeenRuns(runs, ADA).page(RunQuery(), "")
        assert page.note == "3 records have not been read yet"
    assert looks == [2]
