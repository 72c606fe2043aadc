"""What the person who runs a command reads: what it used, and who ended it."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.leases.book import files
from andon.leases.book.hold import Hold
from andon.leases.book.release_notes import left_note, read_note
from andon.model.codec import document
from andon.model.lease_wire import (
    MOST_NOTE,
    ReleaseNote,
    release_from_json,
    release_note,
)
from andon.model.programs import short_command
from andon.runs.rules.usage_text import usage_text
from andon.units import GIB, human_joules
from tests.support.rows import rows


def used(mean: float | None, peak: int | None, joules: float | None) -> dict[str, Any]:
    return {
        "utilization_percent": {"mean": mean},
        "peak_memory_bytes": peak,
        "energy_joules": joules,
    }


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (
            [used(87.2, 41 * GIB, 324_000.0)],
            "12 min 5 s on GPU 6: mean 87 %, peak 41.0 GiB, 0.09 kWh",
        ),
        (
            [used(80.0, 41 * GIB, 3600.0), used(40.0, 2 * GIB, 3600.0)],
            "12 min 5 s on GPU 6: mean 60 %, peak 41.0 GiB a GPU, 2.0 Wh",
        ),
        ([used(None, 41 * GIB, None)], "12 min 5 s on GPU 6: peak 41.0 GiB"),
        ([used(5.0, None, 10.0), used(5.0, None, None)], "12 min 5 s on GPU 6: mean 5 %"),
        ([], "12 min 5 s on GPU 6: nothing was read in this time"),
    ],
)
def test_the_last_line_says_only_what_is_known(devices: list[dict[str, Any]], words: str) -> None:
    assert usage_text("GPU 6", 725.0, devices) == words


@pytest.mark.parametrize(
    ("joules", "words"), [(0.0, "0 J"), (504.2, "504 J"), (7200.0, "2.0 Wh"), (3.6e6, "1.00 kWh")]
)
def test_energy_has_a_unit_that_fits(joules: float, words: str) -> None:
    assert human_joules(joules) == words


def test_a_note_says_who_and_why() -> None:
    note = release_note("root", "maintenance\nat noon\x1b[2J")
    assert note.text("k7qm2") == "root released lease k7qm2: maintenance at noon [2J"
    assert release_note("root").text("k7qm2") == "root released lease k7qm2"


@given(st.text(max_size=2000), st.text(max_size=2000))
def test_whatever_is_written_is_one_short_harmless_line(by: str, note: str) -> None:
    found = release_note(by, note)
    assert (found.by + found.note).isprintable()
    assert len(found.note) <= MOST_NOTE
    assert release_from_json(document(found)) == found


def held(folder: Path) -> Hold:
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    descriptor = files.make(place, "k7qm2-abc.lease", "{}")
    return Hold("k7qm2-abc.lease", descriptor, place)


def test_a_holder_reads_the_note_while_it_is_asked(tmp_path: Path) -> None:
    hold = held(tmp_path)
    assert read_note(hold) is None
    with left_note(tmp_path, hold.name, ReleaseNote("root", "maintenance")):
        assert read_note(hold) == ReleaseNote("root", "maintenance")
    assert read_note(hold) is None, "it is removed"
    hold.close()


def test_a_note_that_was_read_does_not_stay_in_the_book(tmp_path: Path) -> None:
    hold = held(tmp_path)
    whoever = left_note(tmp_path, hold.name, ReleaseNote("root", "maintenance"))
    whoever.__enter__()  # and is killed before it can remove the note
    assert read_note(hold) == ReleaseNote("root", "maintenance")
    assert [path.suffix for path in tmp_path.iterdir()] == [".lease"]
    hold.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_stranger_cannot_speak_for_root(tmp_path: Path) -> None:
    hold = held(tmp_path)
    with left_note(tmp_path, hold.name, ReleaseNote("root", "maintenance")):
        [note] = tmp_path.glob("*.note")
        os.chown(note, 12345, -1)
        assert read_note(hold) is None
    hold.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "andon.release/1"}', "x" * 100_000])
def test_a_note_that_is_none_is_ignored(tmp_path: Path, text: str) -> None:
    hold = held(tmp_path)
    (tmp_path / "k7qm2-abc.00.note").write_text(text)
    assert read_note(hold) is None
    hold.close()


@rows(
    ("command", "short"),
    [
        ("/usr/bin/python3 -S -E /home/a/train.py --lr 1", "train.py --lr 1"),
        ("python -m vllm.entrypoints.api --port 1", "vllm.entrypoints.api --port 1"),
        ("python -X dev -W ignore train.py", "train.py"),
        ("python -c import-this", "python -c import-this"),
        ("/usr/lib/xorg/Xorg :0", "Xorg :0"),
        ("python3", "python3"),
        ("", None),
        (None, None),
    ],
)
def test_a_command_is_shown_without_its_interpreter(command: str | None, short: str | None) -> None:
    assert short_command(command) == short
