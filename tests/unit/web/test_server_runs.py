"""A server shows runs as long as their index can be read, and says why it cannot."""

import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.model.run.record import RunKind, RunRow, RunState
from andon.runs.rules.matching import RunQuery
from andon.web.run_opening import OpenRuns
from tests.support.served_runs import index_of


class Finder:
    """An index of a run, and of one of another user that is closed; its disk may be full."""

    def __init__(self, *others: RunRow) -> None:
        self.full = False
        row = RunRow("abcd", "x", RunKind.CODE, RunState.FAILED, "n", 1.0, "/nowhere", user="me")
        self.index = index_of([row, replace(row, id="dora", user="dora"), *others])

    def refresh(self) -> int:
        if self.full:
            raise Unavailable("the disk is full")
        return 3


def test_an_index_that_cannot_be_opened_is_said_once_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept: list[Any] = []

    def opened() -> Any:
        if not kept:
            raise Invalid("it was written by a newer andon")
        return kept[0]

    look = OpenRuns("me", opened)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(Unavailable, match="by a newer andon"):
                look()
    assert len(caplog.records) == 1
    look.close()
    kept.append(Finder())
    assert [row.id for row in look().find(RunQuery())] == ["abcd"]


def test_an_index_that_cannot_be_written_is_shown_as_it_is() -> None:
    finder = Finder()
    look = OpenRuns("me", lambda: finder)  # type: ignore[arg-type, return-value]
    assert (look().left, look().problem) == (3, None)
    finder.full = True
    found = look()
    assert [row.id for row in found.find(RunQuery())] == ["abcd"]
    assert found.problem == "what is new cannot be added to the list: the disk is full"


def test_records_of_others_are_shown_while_they_can_be_read(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    record.touch()
    row = RunRow("bobs", "x", RunKind.CODE, RunState.FAILED, "n", 2.0, str(record), user="bob")
    look = OpenRuns("me", lambda: Finder(row))  # type: ignore[arg-type, return-value]
    assert [one.id for one in look().find(RunQuery())] == ["bobs", "abcd"]
    record.unlink()
    assert [one.id for one in look().find(RunQuery())] == ["abcd"]
    assert (look().count(RunQuery()), set(look().states())) == (1, {"abcd"})
    assert (look().counts(RunQuery()).runs, set(look().named("b"))) == (1, set())
