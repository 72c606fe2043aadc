"""The queue on disk: what survives a kill, what is dropped, and what is never read again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from andon.errors import Unavailable
from andon.host.rules.spooling import HEADER, SpoolFile, SpoolLimits, surplus
from andon.host.spool import Spool

SMALL = SpoolLimits(most_bytes=16 * 100, files=16)
BODY = b"x" * (100 - HEADER.size)  # a file each


def bodies(spool: Spool, most: int = 100) -> list[bytes]:
    return [one.body for one in spool.waiting(most)]


def test_items_come_in_order_until_they_are_done(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    assert [spool.put(body) for body in (b"a", b"b", b"c")] == [1, 2, 3]
    assert bodies(spool, 2) == [b"a", b"b"]
    spool.done(2)
    assert bodies(spool) == [b"c"]
    assert len(spool) == 1


def test_what_is_done_is_not_read_again_after_a_restart(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    for body in (b"a", b"b"):
        first.put(body)
    first.done(1)
    again = Spool(tmp_path)  # the other was killed: it closed nothing
    assert bodies(again) == [b"b"]
    again.done(2)
    assert bodies(Spool(tmp_path)) == []
    assert Spool(tmp_path).put(b"c") == 3


def test_a_part_of_an_item_is_cut_off(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.put(b"whole")
    spool.put(b"half")
    (path,) = tmp_path.glob("*.spool")
    os.truncate(path, path.stat().st_size - 2)
    again = Spool(tmp_path)
    assert bodies(again) == [b"whole"]
    assert again.put(b"next") == 2
    assert bodies(Spool(tmp_path)) == [b"whole", b"next"]


def test_the_oldest_are_dropped_and_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SMALL)
    for _ in range(20):
        spool.put(BODY)
    assert [one.sequence for one in spool.waiting(100)] == list(range(5, 21))
    assert spool.dropped == 4
    assert spool.size_bytes <= SMALL.most_bytes
    assert Spool(tmp_path, SMALL).dropped == 4


def test_what_is_too_old_is_dropped(tmp_path: Path) -> None:
    clock = [1000.0]
    spool = Spool(tmp_path, SMALL, clock=lambda: clock[0])
    spool.put(BODY)
    clock[0] += 80_000
    spool.put(BODY)
    clock[0] += 10_000
    assert [one.sequence for one in spool.waiting(9)] == [2]
    assert spool.dropped == 1


def test_as_many_bytes_as_asked_for_and_at_least_one_item(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SMALL)
    for _ in range(5):
        spool.put(BODY)
    assert len(spool.waiting(100, most_bytes=250)) == 3
    assert len(spool.waiting(100, most_bytes=1)) == 1


def test_items_across_files_have_their_sequences(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SpoolLimits(most_bytes=16_000, files=16))
    given = [f"{n:050}".encode() for n in range(100)]
    for body in given:
        spool.put(body)
    spool.done(30)
    assert bodies(spool, 1000) == given[30:]
    assert bodies(Spool(tmp_path), 1000) == given[30:]


def test_a_folder_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used"):
        Spool(tmp_path / "file" / "spool")


WRITER = """
import sys
from pathlib import Path
from andon.host.spool import Spool
spool = Spool(Path(sys.argv[1]))
while True:
    print(spool.put(b"y" * 5000), flush=True)
"""


@pytest.mark.process
def test_nothing_that_was_put_is_lost_by_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(50):
            told = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines()
    told = int(rest[-1]) if rest else told
    spool = Spool(tmp_path)
    assert len(spool) >= told
    assert all(one.body == b"y" * 5000 for one in spool.waiting(len(spool)))


def test_a_file_of_the_future_is_not_old() -> None:
    files = [SpoolFile(1, 10, 5e9), SpoolFile(2, 10, 100.0)]
    assert surplus(files, 0, 1e9, SpoolLimits()) == 0
