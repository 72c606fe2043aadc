"""The store of checks: a file for each card, and what others or a full disk may do to it."""

import os
from pathlib import Path
from typing import Any

import pytest

from andon.checks import store
from andon.model.check import CheckVerdict
from tests.support.checks import AT, check_result

pytestmark = pytest.mark.usefixtures("state_folder")


def stored(uuid: str = "GPU-0", at: float = AT, **changes: Any) -> Path:
    return store.store_check(check_result(uuid, at=at, verdict=CheckVerdict.OK, **changes))


def test_results_come_back_in_their_order() -> None:
    stored(at=AT + 5)
    stored("GPU-1", at=AT + 1)
    stored(at=AT + 9)
    assert [(one.uuid, one.at - AT) for one in store.stored_checks()] == [
        ("GPU-1", 1), ("GPU-0", 5), ("GPU-0", 9),
    ]  # fmt: skip
    assert [one.at - AT for one in store.stored_checks("GPU-0")] == [5, 9]
    assert store.RecentChecks().latest()["GPU-0"].at == AT + 9


def test_nothing_is_stored_before_the_first() -> None:
    assert store.stored_checks() == []


def test_a_check_that_was_not_made_does_not_hide_the_last_one() -> None:
    stored()
    store.store_check(check_result(at=AT + 1, verdict=CheckVerdict.FAILED))
    assert store.RecentChecks().latest()["GPU-0"].at == AT


def test_a_torn_or_strange_line_is_left_out() -> None:
    path = stored()
    with path.open("ab") as file:
        file.write(b'{"schema": "andon.check/1"\n\xff\xfe\n[]\n{"schema": "andon.check/9"}\n')
    stored(at=AT + 1)
    assert [one.at - AT for one in store.stored_checks()] == [0, 1]


def test_a_link_or_a_pipe_in_its_place_is_not_followed(tmp_path: Path) -> None:
    path = stored()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert store.stored_checks() == []
    path.unlink()
    os.mkfifo(path)
    assert store.stored_checks() == []


def test_a_full_file_is_trimmed_to_the_latest() -> None:
    long = "x" * 16_000
    for number in range(40):
        path = stored(at=AT + number, text=long)
    assert path.stat().st_size <= store.LARGEST_BYTES
    assert store.stored_checks()[-1].at == AT + 39
