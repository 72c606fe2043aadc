"""A follower shows the latest lines, and then reads only what was added."""

from pathlib import Path

import pytest

from andon.errors import Gone, Invalid
from andon.model.run.record import RunEnd, RunEvent, RunLine, RunSample
from andon.runs.files import ENDS_BYTES
from andon.runs.follower import RecordFollower
from andon.runs.rules.lines import RecentLines
from tests.support.run_records import BEGAN, begin, end, sample, text_of, write_record

LINES: list[RunLine] = [
    begin(),
    *(line for n in range(50) for line in (sample(n), RunEvent(BEGAN + n, f"e{n}"))),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_record(tmp_path / "r.jsonl", *LINES)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_the_latest_of_each_are_shown(path: Path) -> None:
    with RecordFollower(path, 3) as follower:
        recent = follower.recent()
    assert [one.at - BEGAN for one in recent.samples] == [47, 48, 49]
    assert [one.name for one in recent.happenings if isinstance(one, RunEvent)] == [
        "e47", "e48", "e49",
    ]  # fmt: skip
    assert (recent.begin, recent.end, recent.last_at) == (begin(), None, BEGAN + 49)


def test_only_new_bytes_are_read(path: Path) -> None:
    with RecordFollower(path, 3) as follower:
        follower.recent()
        size = path.stat().st_size
        assert (follower.offset, follower.new()) == (size, [])
        append(path, text_of([sample(60)]))
        assert [line.at for line in follower.new()] == [BEGAN + 60]
        assert follower.offset == path.stat().st_size


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_half_a_line_waits_for_its_other_half(path: Path, cut: int) -> None:
    whole = text_of([sample(60)])
    append(path, whole[:cut])
    with RecordFollower(path, 3) as follower:
        follower.recent()
        assert follower.new() == []
        append(path, whole[cut:])
        (line,) = follower.new()
        assert isinstance(line, RunSample)


def test_the_end_comes_like_any_line(path: Path) -> None:
    with RecordFollower(path, 3) as follower:
        recent = follower.recent()
        append(path, text_of([end()]))
        recent.add_all(follower.new())
    assert isinstance(recent.end, RunEnd)


@pytest.mark.slow
def test_rare_lines_are_looked_for_further_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early: list[RunLine] = [RunEvent(BEGAN, "early"), *(sample(n) for n in range(2000))]
    path = write_record(tmp_path / "r.jsonl", begin(), *early)
    assert path.stat().st_size > 2 * ENDS_BYTES
    with RecordFollower(path, 2) as follower:
        recent = follower.recent()
        assert len(recent.happenings) == 1
        assert follower.new() == []
    monkeypatch.setattr("andon.runs.follower.MOST_BACK_BYTES", ENDS_BYTES)
    with RecordFollower(path, 2) as follower:
        assert len(follower.recent().happenings) == 0


def test_a_record_that_was_cut_is_read_again(path: Path) -> None:
    with RecordFollower(path, 3) as follower:
        follower.recent()
        path.write_text(text_of([begin(), sample(99)]))
        assert [line.at for line in follower.new()] == [BEGAN, BEGAN + 99]


def test_it_is_noticed_when_the_record_is_gone(path: Path) -> None:
    with RecordFollower(path, 3) as follower:
        assert not follower.is_gone
        path.unlink()
        assert follower.is_gone


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        RecordFollower(tmp_path / "none", 3)
    (tmp_path / "x").write_text("x\n")
    with pytest.raises(Invalid):
        RecordFollower(tmp_path / "x", 3)


def test_the_kept_lines_are_bounded() -> None:
    recent = RecentLines(5)
    recent.add_all(LINES)
    assert (len(recent.samples), len(recent.happenings)) == (5, 5)
    assert recent.is_full
