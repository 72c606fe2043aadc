"""Live events of runs: only what somebody looks at is read, and everyone hears each thing once."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from andon.access.roles import BLIND, Sight
from andon.model.run.record import RunRow, RunState
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.web.bindings.live_server import Prepared
from andon.web.history_reader import HistoryReader
from andon.web.live.run_watch import LIST_SECONDS, MOST_RUNS, RunWatch, is_too_many, run_in
from tests.support.run_records import begin, end, sample, text_of, write_record
from tests.support.seen_nodes import seen_node
from tests.support.served_runs import NOW, index_of, row_at

RUN = "kqzvmtra"
ADA = Sight(user="ada")


class Heard:
    """Rounds of a watch over rows that a test changes, and what was emitted."""

    def __init__(self, rows: Iterable[RunRow]) -> None:
        self.rows, self.looks = list(rows), 0
        self.now = 0.0
        self.events: list[tuple[str, Any, str, Sight]] = []
        runs = ServedRuns(self._look, "of ada", lambda: NOW, monotonic=self._tick)
        self.watch = RunWatch(HistoryReader(), clock=lambda: self.now)
        self.seen = {sight: seen_node(sight, runs) for sight in (ADA, BLIND)}

    def _look(self) -> FoundRuns:
        self.looks += 1
        return FoundRuns(index_of(self.rows))

    def _tick(self) -> float:
        return self.now

    def round(self, **wants: Iterable[Sight]) -> list[tuple[str, Any, str, Sight]]:
        async def emit(event: str, text: Prepared, what: str, sight: Sight) -> None:
            self.events.append((event, json.loads(text), what, sight))

        self.now += LIST_SECONDS
        self.events = []
        named = {
            what.replace("_", " "): [self.seen[sight] for sight in sights]
            for what, sights in wants.items()
        }
        asyncio.run(self.watch.publish(named, emit))
        return self.events


def test_nothing_is_read_while_nobody_looks() -> None:
    heard = Heard([])
    assert heard.round() == []
    assert heard.looks == 0


def test_a_followed_run_tells_what_is_new_and_its_end(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    heard = Heard([row_at(path)])
    first = heard.round(run_kqzvmtra=[ADA, BLIND])
    assert {(event, what, sight) for event, _, what, sight in first} == {
        ("run", f"run {RUN}", ADA), ("run", f"run {RUN}", BLIND),
    }  # fmt: skip
    assert heard.round(run_kqzvmtra=[ADA]) == [], "nothing new"
    with path.open("a") as file:
        file.write(text_of([sample(2), end()]))
    [(_, said, _, _)] = heard.round(run_kqzvmtra=[ADA])
    assert (said["id"], said["state"], said["series"]["at"]) == (RUN, "succeeded", [2.0])
    assert heard.round(run_kqzvmtra=[ADA]) == []


def test_a_run_that_is_gone_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    heard = Heard([row_at(path)])
    events = heard.round(run_nothing=[ADA], run_kqzvmtra=[ADA])
    assert [what for _, _, what, _ in events] == [f"run {RUN}"]


def test_the_list_is_told_which_runs_changed(tmp_path: Path) -> None:
    path = write_record(tmp_path / "r.jsonl", begin(), sample(1))
    heard = Heard([row_at(path)])
    assert heard.round(runs=[ADA]) == [], "the page has just asked"
    assert heard.round(runs=[ADA]) == []
    heard.rows = [row_at(path, alive=False)]
    assert heard.rows[0].state is RunState.LOST
    assert heard.round(runs=[ADA]) == [("runs", {"changed": [RUN], "count": 1}, "runs", ADA)]
    heard.rows = []
    assert heard.round() == []
    heard.rows = [row_at(path)]
    assert heard.round(runs=[ADA]) == [], "whoever looks again has asked again"


@pytest.mark.parametrize(
    ("what", "run"),
    [("run kqzvmtra", RUN), ("run ", None), ("run a/b", None), ("runs", None), ("snapshot", None),
     (f"run {'a' * 65}", None), ("run a\n", None)],
)  # fmt: skip
def test_what_can_be_subscribed_to(what: str, run: str | None) -> None:
    assert run_in(what) == run


def test_one_client_follows_few_runs() -> None:
    wants = {"snapshot", "runs", *(f"run {number}" for number in range(MOST_RUNS - 1))}
    assert not is_too_many(wants)
    assert is_too_many({*wants, "run more"})
