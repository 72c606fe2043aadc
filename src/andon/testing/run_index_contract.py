"""The contract of every run index, as a pytest suite that other packages can use too."""

from typing import Protocol

import pytest
from msgspec.structs import replace

from andon.access.roles import ALL_SEEING, BLIND, Sight
from andon.errors import Gone
from andon.model.run.record import RunDevice, RunKind, RunRow, RunState
from andon.ports import RunIndex
from andon.runs.rules.baselines import BaselineRun, RunBaseline
from andon.runs.rules.matching import HIDDEN_NAME, RunQuery, counted, select

AT = 1_763_250_000.0

FIRST = RunRow(
    "aaaabbbb", "train", RunKind.COMMAND, RunState.SUCCEEDED, "node-1", AT, "/runs/a.jsonl",
    user="ada", ended=AT + 9, duration_seconds=9.0, command="python train.py",
    devices=(RunDevice("GPU-a", 0, "0", "NVIDIA H200"),), group="sweep", samples=9,
    mean_utilization_percent=51.5, peak_memory_bytes=5 << 30, energy_joules=1e4, idle_share=0.25,
    params={"lr": 0.1, "layers": [1, 2]}, last_values={"loss": 0.5}, tags=("paper",),
)  # fmt: skip
SECOND = RunRow(
    "aaaacccc", "train [2]", RunKind.CODE, RunState.RUNNING, "node-2", AT + 60, "/else/b.jsonl",
    group="sweep", rank=1, world_size=2, simulated=True,
)  # fmt: skip
THIRD = RunRow(
    "zzzz", "évaluer", RunKind.CALLBACK, RunState.FAILED, "node-1", AT + 120, "/runs/ü.jsonl",
    devices=(RunDevice("GPU-b", 1, "1", "AMD MI300X"),), exit_code=1, message="it broke",
    tags=("été", "paper"), note="Wrong seed",
)  # fmt: skip
SECRET = RunRow(
    "yyyy", "merger", RunKind.JOB, RunState.SUCCEEDED, "node-1", AT + 180, "/runs/d.jsonl",
    user="ada", command="python acme.py", tags=("paper", "acme"), note="for acme", group="acme",
)  # fmt: skip
ROWS = (FIRST, SECOND, THIRD, SECRET)

QUERIES = (
    RunQuery(),
    RunQuery(limit=2),
    RunQuery(limit=1, offset=1),
    RunQuery(since=AT + 60),
    RunQuery(until=AT + 60),
    RunQuery(name="train"),
    RunQuery(name="train*"),
    RunQuery(name="train [2]"),
    RunQuery(name="t?ain"),
    RunQuery(name="TRAIN"),
    RunQuery(tag="paper"),
    RunQuery(tag="été"),
    RunQuery(tag="pap"),
    RunQuery(group="sweep"),
    RunQuery(group="acme"),
    RunQuery(state=RunState.FAILED),
    RunQuery(node="node-2"),
    RunQuery(node="node"),
    RunQuery(model="h200"),
    RunQuery(model="mi300x"),
    RunQuery(words=("ÉVAL",)),
    RunQuery(words=("train.py",)),
    RunQuery(words=("wrong seed",)),
    RunQuery(words=("node-1",), state=RunState.SUCCEEDED, group="sweep"),
    RunQuery(words=("%",)),
    RunQuery(words=("\ud800",)),
    RunQuery(tag="\ud800"),
    RunQuery(words=("PYTHON", "h200")),
    RunQuery(words=("ada", "acme")),
    RunQuery(words=("train", "nothing")),
    RunQuery(words=(HIDDEN_NAME[2:], "y")),
    RunQuery(name=f"{HIDDEN_NAME[:3]}*"),
    RunQuery(name="merger"),
    RunQuery(tag="acme"),
    RunQuery(not_user="ada"),
    RunQuery(without=frozenset({"aaaabbbb", "zzzz", "nobody"}), limit=1),
)
SIGHTS = (ALL_SEEING, BLIND, Sight(user="ada"), Sight(user="bob"))


class OpenRunIndex(Protocol):
    """Opens the index, each time as after a restart."""

    def __call__(self, node: str = "node-1") -> RunIndex: ...


GOOD = RunBaseline("good", AT, (BaselineRun("aaaabbbb", "train", AT, "1 × H200", {"x": 1.5}),))


class RunIndexContract:
    """Subclass it with a fixture `reopen`: opens the index for a node, each time as after a
    restart."""

    def test_an_empty_index_has_nothing(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        assert list(index.find(RunQuery())) == list(index.beginning("a", 5)) == []
        assert list(index.baselines()) == []
        assert (index.count(RunQuery()), dict(index.paths()), dict(index.states())) == (0, {}, {})
        assert index.counts(RunQuery()).runs == 0
        assert index.place

    def test_rows_are_there_after_a_restart_as_they_were(self, reopen: OpenRunIndex) -> None:
        reopen().put(ROWS)
        assert list(reopen().find(RunQuery())) == [SECRET, THIRD, SECOND, FIRST]

    @pytest.mark.parametrize("query", QUERIES, ids=str)
    def test_a_query_means_what_matching_says(self, reopen: OpenRunIndex, query: RunQuery) -> None:
        index = reopen()
        index.put(ROWS)
        for sight in SIGHTS:
            seen_query = replace(query, sight=sight)
            assert list(index.find(seen_query)) == select(ROWS, seen_query)
            assert index.count(seen_query) == len(
                select(ROWS, replace(seen_query, limit=None, offset=0))
            )
            assert index.counts(seen_query) == counted(ROWS, seen_query)

    def test_a_search_does_not_find_what_is_hidden_from_its_caller(
        self, reopen: OpenRunIndex
    ) -> None:
        index = reopen()
        index.put(ROWS)
        hidden = [RunQuery(words=("acme",)), RunQuery(tag="acme"), RunQuery(name="merger")]
        hidden += [
            RunQuery(words=("for acme",)),
            RunQuery(words=("merger",)),
            RunQuery(group="acme"),
        ]
        for query in hidden:
            for sight, count in zip(SIGHTS, (1, 0, 1, 0), strict=True):
                assert index.count(replace(query, sight=sight)) == count, (query, sight)
        blind = index.counts(RunQuery(sight=BLIND))
        assert "acme" not in {*blind.tags, *blind.groups}

    def test_a_run_is_kept_once_and_as_its_record_last_was(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        index.put([SECOND])
        ended = replace(SECOND, state=RunState.SUCCEEDED, ended=AT + 99, path="/moved/b.jsonl")
        index.put([ended])
        assert list(reopen().find(RunQuery())) == [ended]
        assert dict(index.paths()) == {"/moved/b.jsonl": SECOND.id}

    def test_what_people_added_outlives_what_the_record_says(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        index.put([FIRST])
        index.annotate(FIRST.id, ["best", "best", "a b"], "the one in the paper")
        index.put([FIRST])
        (found,) = reopen().find(RunQuery(tag="best", words=("the one",)))
        assert (found.tags, found.note) == (("a b", "best"), "the one in the paper")
        assert list(index.find(RunQuery(tag="paper"))) == []
        index.annotate(FIRST.id, [], None)
        assert list(index.find(RunQuery())) == [replace(FIRST, tags=())]

    def test_only_a_run_that_is_known_is_annotated(self, reopen: OpenRunIndex) -> None:
        with pytest.raises(Gone):
            reopen().annotate("nobody", ["x"], None)

    def test_a_run_is_found_by_the_beginning_of_its_id(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        index.put([*ROWS, replace(SECOND, id="aaaa", began=AT - 1)])
        ids = [row.id for row in index.beginning("aaaa", 9)]
        assert ids == ["aaaa", "aaaacccc", "aaaabbbb"]
        assert len(index.beginning("aaaa", 2)) == 2
        assert list(index.beginning("%", 9)) == list(index.beginning("AAAA", 9)) == []

    def test_paths_are_exact(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        index.put(ROWS)
        assert dict(index.paths()) == {row.path: row.id for row in ROWS}
        assert dict(index.states()) == {row.id: str(row.state) for row in ROWS}

    def test_a_dropped_run_is_forgotten_with_its_tags(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        index.put(ROWS)
        index.drop([FIRST.id, SECRET.id, "nobody"])
        assert [row.id for row in reopen().find(RunQuery(tag="paper"))] == [THIRD.id]
        index.put([replace(FIRST, tags=())])
        assert [row.id for row in index.find(RunQuery(tag="paper"))] == [THIRD.id]

    def test_baselines_are_kept_by_name(self, reopen: OpenRunIndex) -> None:
        index = reopen()
        index.put_baseline(replace(GOOD, name="other"))
        index.put_baseline(replace(GOOD, at=AT - 9))
        index.put_baseline(GOOD)
        assert list(reopen().baselines()) == [GOOD, replace(GOOD, name="other")]
        assert (index.drop_baseline("other"), index.drop_baseline("other")) == (True, False)
        assert list(reopen().baselines()) == [GOOD]

    def test_nodes_of_one_database_are_separate(self, reopen: OpenRunIndex) -> None:
        """The same run and baseline: only the node differs."""
        first, second = reopen("node-1"), reopen("node-2")
        other = replace(FIRST, name="other", path="/else/a.jsonl", tags=(), state=RunState.FAILED)
        first.put([FIRST, THIRD])
        second.put([other])
        second.annotate(FIRST.id, ["mine"], "a note")
        first.put_baseline(GOOD)
        second.put_baseline(replace(GOOD, at=AT - 9))
        mine = replace(other, tags=("mine",), note="a note")
        assert list(reopen("node-1").find(RunQuery())) == [THIRD, FIRST]
        assert list(reopen("node-2").find(RunQuery())) == [mine]
        assert [row.id for row in second.find(RunQuery(tag="paper"))] == []
        assert [row.name for row in first.beginning(FIRST.id, 9)] == [FIRST.name]
        assert dict(second.paths()) == {other.path: FIRST.id}
        assert dict(second.states()) == {FIRST.id: "failed"}
        assert (first.count(RunQuery()), second.counts(RunQuery()).tags) == (2, {"mine": 1})
        first.drop([FIRST.id])
        assert first.drop_baseline("good")
        assert list(first.baselines()) == []
        assert list(reopen("node-2").baselines()) == [replace(GOOD, at=AT - 9)]
        assert list(reopen("node-2").find(RunQuery(tag="mine"))) == [mine]
