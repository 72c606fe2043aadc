"""A file that is appended to survives crashes, full disks and vanished folders."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from andon.cli.outfile import LineFile, refusal
from andon.errors import Conflict, Denied, Unavailable
from tests.support.disks import file_limit


def _file(path: Path, header: str = "") -> tuple[LineFile, list[str]]:
    told: list[str] = []
    return LineFile(path, header, told.append), told


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    path.write_text("{}\n")
    file, told = _file(path)
    file.open()
    file.append("{1}\n")
    assert path.read_text() == "{}\n{1}\n"
    assert not told


def test_a_torn_last_line_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    path.write_text('{"a":1}\n{"half')
    file, _ = _file(path)
    file.open()
    file.append("{2}\n")
    assert path.read_text() == '{"a":1}\n{"half\n{2}\n'


def test_a_csv_header_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    for row in ("1,2\n", "3,4\n"):
        file, _ = _file(path, "a,b\n")
        file.open()
        file.append(row)
        file.close()
    assert path.read_text() == "a,b\n1,2\n3,4\n"


def test_another_header_is_a_conflict_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text("x,y\n1,2")
    file, _ = _file(path, "a,b\n")
    with pytest.raises(Conflict, match="different columns"):
        file.open()
    assert path.read_text() == "x,y\n1,2"


def test_a_missing_folder_is_told_before_anything_else(tmp_path: Path) -> None:
    file, _ = _file(tmp_path / "no" / "gpu.csv")
    with pytest.raises(Unavailable, match="does not exist") as caught:
        file.open()
    assert caught.value.hint == f"mkdir -p {tmp_path / 'no'}"


def test_a_file_that_may_not_be_written_is_denied(tmp_path: Path) -> None:
    found = refusal(tmp_path / "gpu.csv", PermissionError(errno.EACCES, "Permission denied"))
    assert isinstance(found, Denied)
    assert found.reason == f"{tmp_path}/gpu.csv: no permission to write"


def test_a_vanished_folder_is_told_once_counted_and_recovered_from(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "gpu.csv"
    file, told = _file(path, "a\n")
    file.open()
    file.append("1\n")
    shutil.rmtree(folder)
    file.append("2\n")
    file.append("3\n")
    assert len(told) == 1
    assert file.lost == 2
    folder.mkdir()
    file.append("4\n")
    assert path.read_text() == "a\n4\n"
    assert told[1].endswith("writing again; 2 lines are missing")


def test_lines_missing_at_the_end_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    file, told = _file(folder / "gpu.jsonl")
    file.open()
    shutil.rmtree(folder)
    file.append("1\n")
    file.append("2\n")
    file.close()
    assert told[1:] == [f"{folder / 'gpu.jsonl'}: 2 lines are missing at its end"]


def test_a_rotated_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    file, told = _file(path, "a\n")
    file.open()
    file.append("1\n")
    path.rename(tmp_path / "gpu.csv.1")
    file.append("2\n")
    assert path.read_text() == "a\n2\n"
    assert not told


def test_a_full_disk_leaves_only_whole_lines_after_it_recovers(tmp_path: Path) -> None:
    path = tmp_path / "gpu.jsonl"
    file, told = _file(path)
    file.open()
    with file_limit(3):
        file.append('{"a":1}\n')
        file.append('{"a":2}\n')
    file.append('{"a":3}\n')
    assert path.read_text() == '{"a\n{"a":3}\n'
    assert file.lost == 2
    assert len(told) == 2


def test_a_device_file_is_written_without_being_examined() -> None:
    file, told = _file(Path(os.devnull), "a\n")
    file.open()
    file.append("1\n")
    assert not told


def test_two_that_begin_together_write_one_header(tmp_path: Path) -> None:
    path = tmp_path / "gpu.csv"
    one, other = _file(path, "a\n")[0], _file(path, "a\n")[0]
    one.open()
    other.open()
    one.append("1\n")
    other.append("2\n")
    assert path.read_text() == "a\n1\n2\n"


def test_a_pipe_gets_the_header_first(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    file, told = _file(path, "a,b\n")
    file.open()
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file.append("1,2\n")
    file.append("3,4\n")
    assert os.read(reader, 100) == b"a,b\n1,2\n3,4\n"
    os.close(reader)
    file.close()
    assert not told
