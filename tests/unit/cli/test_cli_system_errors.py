"""What the system refuses ends a command with one sentence; our own mistakes keep a traceback."""

import errno
import os

import pytest

from andon.cli import main
from andon.cli.show.system_errors import system_error
from tests.support.fake_node import FakeNode
from tests.support.rows import rows


def refused(code: int, name: str | None = None) -> OSError:
    return OSError(code, os.strerror(code), name) if name else OSError(code, os.strerror(code))


NO_TEXT = UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")


@rows(
    ("error", "reason", "code"),
    [
        (refused(errno.EMFILE), "Too many open files", 3),
        (refused(errno.ENOSPC, "/x"), "/x: No space left on device", 3),
        (refused(errno.EACCES, "/x"), "/x: Permission denied", 4),
        (refused(errno.ENOTDIR, "/x"), "/x: Not a directory", 3),
        (refused(errno.ENAMETOOLONG, "x" * 999), f"'{'x' * 40}'… is too long for a path", 2),
        (MemoryError(), "not enough memory", 3),
        (RuntimeError("can't start new thread"), "no more threads may be started", 3),
        (NO_TEXT, "an argument is not UTF-8 text", 2),
    ],
)
def test_each_refusal_is_a_sentence(error: Exception, reason: str, code: int) -> None:
    found = system_error(error)
    assert found is not None
    assert (found.reason, found.exit_code) == (reason, code)
    assert found.hint


@rows("error", [RuntimeError("mine"), ImportError("mine"), ValueError("mine"), KeyError("mine")])
def test_a_mistake_of_ours_is_none(error: Exception) -> None:
    assert system_error(error) is None


@pytest.mark.parametrize("error", [refused(errno.EMFILE), MemoryError()])
def test_a_command_that_meets_one_says_so(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["status"], FakeNode(error=error)) == 3
    said = capsys.readouterr().err
    assert said.startswith("andon: ")
    assert "Traceback" not in said


def test_a_node_that_is_no_text_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """The byte 0xff, as the shell passes it on."""
    assert main.run(["status", "--node", "x\udcff", "--url", "http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.startswith("andon: an argument is not UTF-8 text\n")
