"""Which Python a command is run by: its own, or the one that its script names."""

import sys
from pathlib import Path

import pytest

from andon.runs.facts import interpreter_of
from andon.standalone.scribe import LineAppender


@pytest.mark.parametrize(
    ("first", "is_python"),
    [
        (f"#!{sys.executable}", True),
        ("#!/usr/bin/env python3", True),
        ("#!/usr/bin/env -S python3 -u", True),
        ("#!/bin/sh", False),
        ("\x7fELF", False),
        ("", False),
    ],
)
def test_a_script_is_run_by_the_python_of_its_first_line(
    tmp_path: Path, first: str, is_python: bool
) -> None:
    script = tmp_path / "torchrun"
    script.write_text(f"{first}\nprint(1)\n")
    script.chmod(0o755)
    found = interpreter_of([str(script), "train.py"])
    assert (found is not None) == is_python


def test_a_python_is_its_own() -> None:
    assert interpreter_of([sys.executable, "train.py"]) == sys.executable
    assert interpreter_of(["no-such-command"]) is None


def test_half_a_line_is_followed_by_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import os

    path = tmp_path / "record"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write, room = os.write, [100, 4, 0, 100]

    def narrow(where: int, data: bytes) -> int:
        if where != descriptor:
            return write(where, data)
        left = room.pop(0)
        if not left:
            raise OSError(28, "No space left on device")
        return write(where, data[:left])

    monkeypatch.setattr(os, "write", narrow)
    appender = LineAppender(descriptor)
    for line in (b'{"a":1}\n', b'{"b":2}\n', b'{"c":3}\n', b'{"d":4}\n'):
        appender.append(line)
    os.close(descriptor)
    assert path.read_bytes() == b'{"a":1}\n{"b"\n{"d":4}\n'
    assert appender.lost == 2
    assert capfd.readouterr().out == "only a part could be written\n", "told once"
