"""Files of records: whole, half-written, foreign, moved and very large."""

import os
from io import BytesIO
from pathlib import Path

import pytest

from andon.errors import AndonError, Denied, Gone, Invalid
from andon.model.run.record import MOST_LINE_BYTES, RunLine, RunLogged
from andon.runs import files as run_files
from andon.runs.files import read_ends, read_record
from andon.runs.rules.fold import RunFold
from andon.runs.rules.lines import RecordLines
from tests.support.run_records import BEGAN, begin, end, sample, text_of, write_record

SAMPLES = 3000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Longer than what is read of its ends."""
    lines: list[RunLine] = [begin(), *(sample(n) for n in range(SAMPLES)), end(samples=SAMPLES)]
    path = write_record(tmp_path_factory.mktemp("runs") / "long.jsonl", *lines)
    assert path.stat().st_size > 4 * run_files.ENDS_BYTES
    return path


def test_of_a_finished_record_only_the_ends_are_read(long: Path) -> None:
    read = read_ends(long)
    assert read.begin == begin()
    assert read.fold.end is not None
    assert read.fold.end.samples == SAMPLES
    assert not read.whole
    assert read.fold.samples < SAMPLES / 2
    assert read.unreadable == 0


def test_all_of_it_is_read_where_that_is_wanted(long: Path) -> None:
    read = read_record(long)
    assert (read.whole, read.fold.samples) == (True, 0)  # its end has what they add up to
    assert not read_record(long, finished_bytes=1000).whole


def test_a_large_file_costs_no_more_than_its_ends(tmp_path: Path) -> None:
    """Sparse: 1 GB of which nothing between the ends is there."""
    path = tmp_path / "large.jsonl"
    first, last = text_of([begin(), sample(1)]), text_of([sample(2), end()])
    with path.open("wb") as file:
        file.write(first.encode())
        file.seek(1 << 30)
        file.write(b"\n" + last.encode())
    taken = _counted(path, lambda: read_ends(path))
    assert taken < 4 * run_files.ENDS_BYTES
    assert read_ends(path).fold.end is not None


def test_a_large_file_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        file.write(text_of([begin()]).encode())
        file.seek(1 << 30)
        file.write(b"\n" + text_of([sample(7)]).encode())
    read = read_ends(path)
    assert (read.whole, read.fold.end, read.fold.last_at) == (False, None, BEGAN + 7)
    assert read.fold.summary() == {}


def test_one_endless_line_is_neither_read_nor_believed(tmp_path: Path) -> None:
    path = tmp_path / "binary.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(Invalid, match="is not the record of a run: a line is too long"):
        read_ends(path)


@pytest.mark.slow
def test_of_a_file_of_blank_lines_no_more_is_read_than_of_one_long_line() -> None:
    file = BytesIO(b"\n" * (2 * MOST_LINE_BYTES))
    head, taken = run_files.head_of(file)
    assert (head.lines, file.tell()) == ([], taken)
    assert taken <= MOST_LINE_BYTES + run_files.ENDS_BYTES


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_half_written_last_line_is_left_for_later(tmp_path: Path, cut: int) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1), sample(2))
    path.write_bytes(path.read_bytes()[:-cut])
    read = read_ends(path)
    assert (read.fold.samples, read.unreadable) == (1, 0)


def test_a_half_written_end_is_no_end(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl")
    path.write_bytes(path.read_bytes()[:-1])
    assert read_ends(path).fold.end is None


@pytest.mark.slow
def test_an_end_longer_than_the_first_piece_is_found(tmp_path: Path) -> None:
    long_end = end(message="x" * 10_000, summary={f"GPU-{n}": {} for n in range(9000)})
    lines: list[RunLine] = [begin(), *(sample(n) for n in range(SAMPLES)), long_end]
    path = write_record(tmp_path / "r.jsonl", *lines)
    assert len(text_of([long_end])) > run_files.ENDS_BYTES
    found = read_ends(path).fold.end
    assert found is not None
    assert found.message == "x" * 10_000


def test_a_begin_longer_than_the_first_piece_is_found(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(params={"p": "x" * 300_000}), end())
    assert read_ends(path).begin.params == {"p": "x" * 300_000}


def test_a_record_without_an_end_is_added_up_from_its_samples(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1, 40), sample(2, 40))
    read = read_ends(path)
    assert read.whole
    assert read.fold.summary()["GPU-a"]["utilization_percent"]["mean"] == 40
    assert read_ends(path, unfinished_bytes=10).fold.summary() == {}


def test_the_last_logged_values_come_with_the_end(long: Path, tmp_path: Path) -> None:
    lines: list[RunLine] = [
        begin(),
        RunLogged(BEGAN, {"loss": 1.0}),
        *(sample(n) for n in range(SAMPLES)),
    ]
    path = write_record(tmp_path / "r.jsonl", *lines, end(last_values={"loss": 0.5}))
    assert read_ends(path).fold.last_values == {"loss": 0.5}


def test_a_loss_that_diverges_does_not_lose_the_run(tmp_path: Path) -> None:
    lines: list[RunLine] = [begin(), RunLogged(BEGAN, {"loss": 1e308}, 1e30), sample(1)]
    path = write_record(tmp_path / "r.jsonl", *lines, end(last_values={"loss": 1e308}))
    fold = read_ends(path).fold
    assert fold.end is not None
    assert fold.last_values == {"loss": 1e308}


FOREIGN = (
    ("", "is empty"),
    ("hello\n", "is not the record of a run"),
    ('{"event":"begin","schema":"andon.run/1"', "holds only half a line"),
    ('{"event":"begin","schema":"andon.run/9","at":1}\n', "andon.run/9"),
    ('{"time": 1, "loss": 2}\n', "is not the record of a run: event is missing"),
    ("[1]\n" * 9, "is not the record of a run"),
    (text_of([sample(1), begin()]), "first line is not the beginning of a run"),
    ("\x00\xff\n", "is not the record of a run"),
    ("[" * 100_000 + "\n", "is not the record of a run"),
)


@pytest.mark.parametrize(("content", "words"), FOREIGN, ids=range(len(FOREIGN)))
def test_a_foreign_file_is_refused_with_the_reason(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(Invalid, match=words) as error:
        read_ends(path)
    assert error.value.hint


def test_foreign_lines_inside_are_counted_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text_of([begin()]) + "noise\n" + text_of([sample(1)]) + "{}\n")
    read = read_ends(path)
    assert (read.unreadable, read.fold.samples) == (2, 1)
    assert read.problem


def test_what_is_not_a_file_is_said_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    cases: list[tuple[Path, type[AndonError]]] = [
        (tmp_path / "none", Gone), (tmp_path, Invalid), (tmp_path / "pipe", Invalid),
    ]  # fmt: skip
    for path, kind in cases:
        with pytest.raises(kind) as error:
            read_ends(path)
        assert error.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_denied(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl")
    path.chmod(0)
    with pytest.raises(Denied):
        read_ends(path)


def test_what_is_appended_meanwhile_is_left_out(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(text_of([sample(2)]).encode())
    reader = RecordLines()
    with run_files.open_record(path) as file:
        lines = list(run_files.lines_in(file, size, reader))
    assert text_of(lines) == text_of([begin(), sample(1)])
    assert not reader.is_partial


def _counted(path: Path, act: object) -> int:
    """How many bytes of a file are read, by counting in `read`."""
    taken = 0
    real = run_files.open_record

    class Counting:
        def __init__(self) -> None:
            self._file = real(path)

        def __enter__(self) -> "Counting":
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

        def fileno(self) -> int:
            return self._file.fileno()

        def seek(self, place: int) -> int:
            return self._file.seek(place)

        def read(self, count: int) -> bytes:
            nonlocal taken
            data = self._file.read(count)
            taken += len(data)
            return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_files, "open_record", lambda path: Counting())
        act()  # type: ignore[operator]
    return taken


def test_the_fold_of_the_ends_never_tallies(long: Path) -> None:
    """What lies between them is not known: a mean of the ends would be wrong."""
    fold: RunFold = read_record(long, finished_bytes=10).fold
    assert fold.tallies is None
