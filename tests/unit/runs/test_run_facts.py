"""Which Python a command is run by: its own, or the one that its script names."""

import os
import sys
from pathlib import Path

import pytest

from andon.runs.facts import interpreter_of
from andon.standalone.scribe import LineAppender
from tests.support.disks import file_limit


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
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record"
    path.write_bytes(first := b"x" * 9999 + b"\n")  # more than it prints under the limit
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    appender = LineAppender(descriptor)
    appender.append(b'{"a":1}\n')
    with file_limit(len(first) + 12):
        for line in (b'{"b":2}\n', b'{"c":3}\n'):
            appender.append(line)
    appender.append(b'{"d":4}\n')
    os.close(descriptor)
    assert path.read_bytes() == first + b'{"a":1}\n{"b"\n{"d":4}\n'
    assert appender.lost == 2
    assert capfd.readouterr().out == "only a part could be written\n", "told once"
