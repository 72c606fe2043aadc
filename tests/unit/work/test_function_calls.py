"""A function that a job carries is called there, and its answer is read here."""

import threading
import time
from operator import floordiv
from pathlib import Path

import pytest

from andon.errors import Invalid
from andon.work.functions import call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))  # a call adds to it
    return call.new_call_folder()


def test_the_answer_is_what_the_function_returned(folder: Path) -> None:
    call.write_call(folder, sorted, ([3, 1, 2],), {"reverse": True})
    assert call.read_answer(folder) is None
    assert call.main([str(folder)]) == 0
    answer = call.read_answer(folder)
    assert answer is not None
    assert answer.value() == [3, 2, 1]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_what_it_raises_is_raised_here_with_its_traceback(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    call.write_call(folder, floordiv, (1, 0), {})
    assert call.main([str(folder)]) == 1
    answer = call.read_answer(folder)
    assert answer is not None
    with pytest.raises(ZeroDivisionError) as caught:
        answer.value()
    assert "Traceback" in caught.value.__notes__[0]
    assert "ZeroDivisionError" in capfd.readouterr().err  # the output of its job has it too


def test_a_value_that_cannot_be_carried_leaves_nothing(folder: Path) -> None:
    with pytest.raises(Invalid):
        call.write_call(folder, print, (threading.Lock(),), {})
    assert not folder.exists()


def test_calls_that_nobody_asks_for_are_deleted(folder: Path) -> None:
    call.write_call(folder, print, (), {})
    call.sweep_calls(time.time() - 60)
    assert folder.exists()
    call.sweep_calls(time.time() + 60)
    assert not folder.exists()
