"""Small files of the kernel: whole, bounded, and None once they are gone."""

import sys
from pathlib import Path

import pytest

from andon.host.files import read

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_a_file_that_comes_in_lines_of_less_than_a_page_is_read_to_its_end() -> None:
    # Like /proc/mounts, maps ends each read at a whole line.
    content = read("/proc/self/maps", 1 << 20) or b""
    assert len(content) > 4096
    assert content.splitlines()[-1].split()[0] == last_mapping()


def last_mapping() -> bytes:
    return Path("/proc/self/maps").read_bytes().splitlines()[-1].split()[0]


@linux
def test_no_more_is_read_than_asked_for() -> None:
    assert len(read("/proc/self/maps", 10_000) or b"") == 10_000
    assert len(read("/proc/self/stat", 10) or b"") == 10


def test_what_is_gone_is_none(tmp_path: Path) -> None:
    assert read(str(tmp_path / "gone"), 100) is None
    assert read("a\0b", 100) is None


def test_an_ordinary_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    assert read(str(tmp_path / "file"), 1 << 20) == b"x" * 200_000
