"""A server shows runs as long as their index can be read, and says why it cannot."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from andon.errors import Invalid, Unavailable
from andon.web.runs.opening import RunIndexCache


class Finder:
    """An index of one run, whose disk may be full."""

    def __init__(self, place: Path) -> None:
        self.full = False
        row = SimpleNamespace(id="abcd", user="me", path="/nowhere")
        self.index = SimpleNamespace(place=str(place), find=lambda _query: [row])

    def refresh(self) -> int:
        if self.full:
            raise Unavailable("the disk is full")
        return 3


def test_an_index_that_cannot_be_opened_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[Any] = []

    def opened() -> Any:
        if not kept:
            raise Invalid("it was written by a newer andon")
        return kept[0]

    look = RunIndexCache("me", opened)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(Unavailable, match="by a newer andon"):
                look()
    assert len(caplog.records) == 1
    look.close()
    kept.append(Finder(tmp_path))
    assert [row.id for row in look().rows] == ["abcd"]


def test_an_index_that_cannot_be_written_is_shown_as_it_is(tmp_path: Path) -> None:
    finder = Finder(tmp_path)
    look = RunIndexCache("me", lambda: finder)  # type: ignore[arg-type, return-value]
    assert (look().left, look().problem) == (3, None)
    finder.full = True
    found = look()
    assert [row.id for row in found.rows] == ["abcd"]
    assert found.problem == "what is new cannot be added to the list: the disk is full"
