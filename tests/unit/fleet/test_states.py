"""What a hub says about its nodes: silent, sick, with free devices."""

import pytest

from andon.fleet.rules.digest import Digest, FreeDevices, NodeTask
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.states import (
    NodeList,
    NodeRow,
    NodeState,
    clock_trouble,
    having,
    list_to_text,
    most_devices,
    offers,
    row_of,
    tasks_text,
    without_names,
)
from andon.model.codec import read_document
from andon.model.wire import ANSWER, loads

AT = 1_794_000_000.0
NODE = FleetNode("n17", "hash", AT, heard=AT, sent=AT)
DIGEST = Digest("n17", "5f0c", "1.0", gpus=8, allocated=6, utilization_percent=75.0, tasks=3)


@pytest.mark.parametrize(
    ("age", "state", "reason"),
    [
        (2.0, NodeState.HEALTHY, None),
        (14.9, NodeState.HEALTHY, None),
        (15.0, NodeState.SILENT, "silent 15 s"),
        (300.0, NodeState.SILENT, "silent 5 min"),
    ],
)
def test_a_node_without_a_report_is_silent(age: float, state: NodeState, reason: str) -> None:
    row = row_of(NODE, DIGEST, age)
    assert (row.state, row.reason) == (state, reason)
    assert row.gpus == 8
    assert (row.allocated is None) == (not row.heard), "what a silent node holds is not known"


def test_what_is_wrong_makes_a_node_sick() -> None:
    assert row_of(NODE, DIGEST, 0.0, "its clock is wrong").state is NodeState.SICK
    assert row_of(FleetNode("n1", "", AT), None, None).state is NodeState.NEW
    row = row_of(NODE, DIGEST, 0.0, version="9.9")
    assert (row.state, row.reason) == (NodeState.HEALTHY, f"andon {DIGEST.version}, the hub 9.9")


def test_a_clock_may_differ_by_some_seconds() -> None:
    assert clock_trouble(AT, AT - 20) is None
    assert clock_trouble(AT, AT - 7200) == "its clock is 2 h behind"
    assert clock_trouble(AT, AT + 40) == "its clock is 40 s ahead"


def test_tasks_are_named_as_people_know_them_and_to_others_by_whose_they_are() -> None:
    tasks = (NodeTask("alice", "train", 12), NodeTask("bob"), NodeTask("bob"))
    assert tasks_text(tasks) == "train of alice, 2 × run of bob"
    seen = without_names(NodeRow("n1", NodeState.HEALTHY, holders=tasks))
    assert tasks_text(seen.holders) == "job 12 of alice, 2 × run of bob"
    assert tasks_text(()) == ""


@pytest.mark.parametrize("word", ["stale", "lost", "silent"])
def test_the_words_of_earlier_versions_are_read(word: str) -> None:
    listed = loads(list_to_text(NodeList(AT, True, (NodeRow("n1", NodeState.SILENT),))), ANSWER)
    listed["nodes"][0]["state"] = word
    assert read_document(NodeList, listed).nodes[0].state is NodeState.SILENT


def with_free(name: str, labels: str, size: int = 100_000, **more: object) -> NodeRow:
    free = FreeDevices("H200", tuple(labels.split()), (size,) * len(labels.split()))
    return NodeRow(name, NodeState.HEALTHY, 1.0, gpus=8, free=(free,), **more)  # type: ignore[arg-type]


def test_the_node_with_the_smallest_room_that_fits_comes_first() -> None:
    rows = [with_free("n22", "0 1 2 3"), with_free("n17", "1 6"), with_free("n18", "5")]
    found = offers(rows, 2, (), None)
    assert [(one.node, one.labels) for one in found] == [
        ("n17", ("1", "6")), ("n22", ("0", "1", "2", "3")),
    ]  # fmt: skip
    assert offers(rows, 5, (), None) == []


def test_models_memory_drained_and_silent_nodes() -> None:
    rows = [with_free("n17", "1 6", size=1000), with_free("n22", "0", drained=True)]
    assert [one.node for one in offers(rows, 1, ("h200",), None)] == ["n17"]
    assert offers(rows, 1, ("A100",), None) == []
    assert offers(rows, 1, (), 2 << 30) == []
    silent = NodeRow("n9", NodeState.SILENT, free=rows[0].free)
    assert offers([silent], 1, (), None) == []


def test_what_a_node_has_at_most_counts_what_is_taken_and_leaves_out_the_silent() -> None:
    taken = NodeRow("n17", NodeState.SICK, 1.0, gpus=8, models={"H200": 2, "NVIDIA L4": 6})
    silent = NodeRow("n9", NodeState.SILENT, 900.0, gpus=16, models={"H200": 16})
    assert most_devices([taken, silent], ()) == 8
    assert most_devices([taken, silent], ("h200",)) == 2
    assert most_devices([taken, silent], ("A100",)) == 0
    assert most_devices([silent], ()) == 0


def test_a_list_is_read_back() -> None:
    listed = NodeList(AT, True, (with_free("n17", "1 6"), row_of(NODE, DIGEST, 0.0)))
    assert read_document(NodeList, loads(list_to_text(listed), ANSWER)) == listed
    odd = NodeRow("n1", NodeState.SILENT, reason="a\ud800\u202eb")
    text = list_to_text(NodeList(AT, True, (odd,)))
    assert "\\u202e" in text, "what turns a line around is escaped"
    assert (
        read_document(NodeList, loads(text.encode("utf-8", "replace"), ANSWER)).nodes[0].reason
        == "a?\u202eb"
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("", ["n1", "n2"]),
        ("ALICE h200", ["n1"]),
        ("job 12", ["n1"]),
        ("silent", ["n2"]),
        ("fell off", ["n2"]),
        ("critical", ["n1"]),
        ("warning", []),
        ("alice silent", []),
        ("simulated", ["n1"]),
    ],
)
def test_nodes_are_searched_by_every_word_that_is_said_of_them(
    words: str, names: list[str]
) -> None:
    rows = [
        NodeRow(
            "n1", NodeState.SICK, simulated=True, users=("alice",),
            holders=(NodeTask("alice", None, 12),), models={"H200": 8},
            alerts={"critical": 1, "warning": 0, "info": 0},
        ),
        NodeRow("n2", NodeState.SILENT, reason="GPU 3 fell off the bus"),
    ]  # fmt: skip
    assert [one.name for one in having(rows, words)] == names
