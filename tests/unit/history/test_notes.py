"""Notes on times: kept on disk, found by range, bounded; and the versions of drivers."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.errors import Conflict, Gone, Unavailable
from andon.history import notes
from andon.history.notes import NoteBook
from andon.history.rules.notes import MOST_LEASES, MOST_REPORTED, EndedLease, HistoryNote
from andon.leases.rules.occupants import BookView
from tests.support import snapshots as drawn
from tests.support.rows import rows
from tests.support.sharing_parts import claim, lease

NEW = HistoryNote("new", 50.0, 100.0, 200.0, "new fan\u202e", "GPU-0", "ada")


@rows("device, since, until, is_found", [
    ("GPU-0", 0, 99, False),
    ("GPU-0", 0, 100, True),
    ("GPU-0", 200, 300, True),
    ("GPU-0", 201, 300, False),
    ("GPU-1", 0, 300, False),
    (None, 0, 300, True),
])  # fmt: skip
def test_a_note_is_found_by_device_and_range(
    device: str | None, since: float, until: float, is_found: bool
) -> None:
    book = NoteBook()
    book.add(NEW)
    assert bool(book.known().on(device, since, until)) == is_found


def test_a_note_on_the_node_is_on_every_device(tmp_path: Path) -> None:
    book = NoteBook()
    book.add(replace(NEW, device=None))
    assert book.known().on("GPU-7", 0, 300)


def test_notes_stay_on_disk_beside_lines_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    first, second = (NoteBook(path).add(replace(NEW, text=text)) for text in ("one", "two"))
    with path.open("a") as file:
        file.write('[1]\n{"id": 7}\n\udcff'.encode("utf-8", "surrogateescape").decode("latin-1"))
    book = NoteBook(path)
    assert set(book.known().on(None, 0, 300)) == {first, second}
    book.remove(first.id)
    assert NoteBook(path).known().on(None, 0, 300) == (second,)
    with pytest.raises(Gone):
        book.remove(first.id)


def test_a_file_that_cannot_be_read_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.mkdir()
    with pytest.raises(Unavailable, match="cannot be read"):
        NoteBook(path).add(NEW)


def test_a_note_that_cannot_be_written_is_not_shown_as_kept(tmp_path: Path) -> None:
    book = NoteBook(tmp_path / "missing" / "notes.jsonl")
    with pytest.raises(Unavailable, match="cannot be written"):
        book.add(NEW)
    assert book.known().on(None, 0, 300) == ()


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "MOST_NOTES", 1)
    book = NoteBook()
    book.add(NEW)
    with pytest.raises(Conflict, match="notes already"):
        book.add(NEW)


def test_another_version_of_a_driver_is_noted_once_also_by_the_next_server(tmp_path: Path) -> None:
    path, now = tmp_path / "notes.jsonl", drawn.farm()
    for versions in ({"nvidia": "570"}, {}, {"nvidia": "570", "nvml": "12"}, {"nvidia": "580"}):
        NoteBook(path).see(replace(now, versions=versions))
    last = NoteBook(path)
    last.see(replace(now, versions={"nvidia": "580"}))
    [found] = last.known().on(None, 0, now.at)
    assert (found.text, found.driver, found.since) == (
        "nvidia 570 was replaced by 580",
        True,
        now.at,
    )


def test_the_end_of_a_lease_is_kept_for_the_next_server(tmp_path: Path) -> None:
    """Not while the book cannot be read, and not of a simulated lease beside real devices."""
    path, now, held = tmp_path / "notes.jsonl", drawn.farm(), lease(0, name="k1")
    unreal = claim(replace(lease(0, name="k2"), simulated=True))
    some = BookView((claim(held),))
    pages = [BookView((claim(held), unreal)), some, None, BookView(), BookView()]
    book = NoteBook(path, lambda: pages.pop(0))
    ended = EndedLease("alice", tuple(share.uuid for share in held.shares), held.since, now.at)
    for found in ((), (), (), (ended,), (ended,)):
        book.see(now)
        assert book.known().leases == found
    assert NoteBook(path).known().ended(ended.devices[0], now.at, now.at + 1) == (ended,)
    assert NoteBook(path).known().ended(None, now.at + 1, now.at + 2) == ()
    assert NoteBook(path).known().ended("GPU-other", 0, now.at) == ()


def test_the_end_of_a_lease_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pages = [BookView((claim(lease(0, name="k1")),)), BookView()]
    book = NoteBook(tmp_path / "missing" / "notes.jsonl", lambda: pages.pop(0))
    book.see(replace(drawn.farm(), versions={}))
    book.see(replace(drawn.farm(), versions={}))
    assert "the end of a lease, was not noted" in caplog.text
    assert book.known().leases == ()


def test_only_so_many_leases_that_ended_are_kept_and_fewer_reported(tmp_path: Path) -> None:
    path, now = tmp_path / "notes.jsonl", drawn.farm()
    many = tuple(claim(lease(0, name=f"k{number}")) for number in range(MOST_LEASES + 1))
    pages = [BookView(many), BookView()]
    book = NoteBook(path, lambda: pages.pop(0))
    book.see(now)
    book.see(now)
    known = NoteBook(path).known()
    assert (len(known.leases), len(known.latest().leases)) == (MOST_LEASES, MOST_REPORTED)
