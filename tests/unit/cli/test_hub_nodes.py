"""A command over the nodes of a hub: which are asked, in which order, and with which exit code."""

import json
from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace

from andon.cli.commands.watch.status import status
from andon.cli.entry import will_sample
from andon.cli.hub_nodes import _node_in
from andon.cli.main import run
from andon.cli.node_answers import NodeAnswer
from andon.cli.options import chosen
from andon.cli.over_nodes import code_of
from andon.cli.terminal import Choices
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.fleet.rules.digest import FreeDevices
from andon.fleet.rules.states import NodeList, NodeRow, NodeState, list_to_text
from andon.model import wire
from andon.model.codec import read_document
from andon.model.lease_list import LeaseList
from andon.model.wire import snapshot_to_json
from tests.support.rows import rows
from tests.support.snapshots import AT, farm

URL = "http://hub:1"
T = TypeVar("T")
FREE = (FreeDevices("H200", ("1", "6"), (140_000, 90_000)),)
ROWS = (
    NodeRow("a1", NodeState.HEALTHY, 1.0, gpus=8, allocated=6, version="1", free=FREE),
    NodeRow("z9", NodeState.SICK, 1.0, gpus=8, allocated=8, version="1", reason="GPU 2: too hot"),
    NodeRow("new", NodeState.NEW, reason="it has not reported yet"),
    NodeRow("gone", NodeState.SILENT, 90.0, gpus=8, version="1", reason="silent 1 min 30 s"),
)


class PlayedHub:
    """Answers what the hub of these rows would; `new` has not reported, `cut` is not reached."""

    def __init__(self, hub: bool = True, nodes: tuple[NodeRow, ...] = ROWS) -> None:
        self.url, self.asked = URL, list[str]()
        self._hub, self._nodes, self._name = hub, nodes, ""

    def of_node(self, name: str) -> "PlayedHub":
        there = PlayedHub(self._hub, self._nodes)
        there._name, there.asked = name, self.asked
        return there

    def as_user(self) -> "PlayedHub":
        return self

    def keeping(self) -> "PlayedHub":
        return self

    def get(self, path: str, **asked: object) -> wire.Json:
        self.asked.append(f"{self._name}{path.partition('?')[0]}")
        if self._name == "cut":
            raise Unavailable(f"{URL} cannot be reached: timed out", cause="unreached")
        if self._name == "new":
            raise Unavailable(f"{URL}: new has not reported lately", hint="start it")
        if path == "/api/nodes":
            listed = NodeList(AT, self._hub, self._nodes, own="own")
            return wire.loads(list_to_text(listed), wire.ANSWER)
        if path == "/api/leases":
            return wire.loads(wire.struct_text(LeaseList(AT)), wire.ANSWER)
        return snapshot_to_json(replace(farm(), node=self._name or "own"))

    def get_as(self, path: str, read: Callable[[wire.Json], T]) -> T:
        return read(self.get(path))

    def of_another_version(self, difference: str) -> AndonError:
        return Unavailable(difference)

    def close(self) -> None: ...


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> PlayedHub:
    return played(monkeypatch, PlayedHub())


def played(monkeypatch: pytest.MonkeyPatch, made: PlayedHub) -> PlayedHub:
    for module in (
        "andon.cli.hub_nodes",
        "andon.node.server",
        "andon.cli.commands.fleet.fleet_free",
    ):
        monkeypatch.setattr(f"{module}.connect", lambda *_: made)
    monkeypatch.setenv("COLUMNS", "100")
    return made


def test_those_that_need_someone_come_first_and_the_last_line_counts(
    hub: PlayedHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--url", URL]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines[:-1]]
    assert list(dict.fromkeys(names)) == ["z9", "NODE", "gone", "new", "a1"]
    assert "gone  silent 1 min 30 s; this is its last report" in lines
    assert "new   new has not reported lately; start it" in lines
    assert lines[-1] == "2 of 4 nodes answered, 2 GPUs free"
    assert hub.asked.count("/api/nodes") == 1


def test_json_has_each_node_with_its_state(
    hub: PlayedHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--json", "--url", URL]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "andon.snapshots/1"
    silent, new = found["nodes"][1:3]
    assert (silent["node"], silent["answered"]) == ("gone", False)
    assert silent["snapshot"]["node"] == "gone"
    assert (new["answered"], new["snapshot"]) == (False, None)


def test_csv_that_names_the_node_has_it_once(
    hub: PlayedHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ps", "--csv", "--url", URL]) == 0
    printed = capsys.readouterr()
    head, *lines = printed.out.splitlines()
    assert head.split(",").count("node") == 1
    assert lines
    assert "new: new has not reported" in printed.err


def test_a_gpu_of_a_node_is_asked_of_that_node_alone(
    hub: PlayedHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["devices", "z9:2", "--url", URL]) == 0
    assert "GPU 2" in capsys.readouterr().out
    assert {one.partition("/")[0] for one in hub.asked} == {"", "z9"}


def test_the_node_may_be_named_twice(hub: PlayedHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devices", "z9:2", "--node", "z9", "--url", URL]) == 0
    assert "GPU 2" in capsys.readouterr().out


def test_several_nodes_may_be_named(hub: PlayedHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ps", "--node", "a1,z9", "--url", URL]) == 0
    assert capsys.readouterr().out.endswith("2 of 2 nodes answered, 2 GPUs free\n")


@rows("words, reason, code", [
    ("why n99:1", "this hub has no node 'n99'", Gone.exit_code),
    ("status a1:1 z9:1", "name GPUs of one node", Invalid.exit_code),
    ("status --node a1,n99", "this hub has no node 'n99'", Gone.exit_code),
    ("jobs --follow", "--follow is for one machine", Invalid.exit_code),
    ("watch", "watch shows one node of a hub", Invalid.exit_code),
    ("watch --node a1,z9", "watch shows one node of a hub", Invalid.exit_code),
    ("who --format md", "several nodes print text, JSON or CSV, not md", Invalid.exit_code),
    ("who --format csv --out who.csv", "--out is for one machine", Invalid.exit_code),
])  # fmt: skip
def test_what_no_node_is_asked(
    hub: PlayedHub, capsys: pytest.CaptureFixture[str], words: str, reason: str, code: int
) -> None:
    assert run([*words.split(), "--url", URL]) == code
    assert reason in capsys.readouterr().err


@rows("words, node", [
    (["n17:3"], "n17"), (["n17:6:0"], "n17"), (["n17:host", "3"], "n17"), (["99:3"], "99"),
    (["gpu-04:1"], "gpu-04"), ([], None), (["3"], None), (["6:0"], None), (["cuda:0"], None),
    (["3b:00.0"], None), (["00000000:3B:00.0"], None),
])  # fmt: skip
def test_the_node_in_the_name_of_a_gpu(words: list[str], node: str | None) -> None:
    assert _node_in(words, {"n17", "99"}) == node


def test_a_server_that_is_no_hub_answers_for_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = played(monkeypatch, PlayedHub(hub=False, nodes=()))
    assert run(["status", "--url", URL]) == 0
    out = capsys.readouterr().out
    assert out.startswith("own ")
    assert "answered" not in out
    assert made.asked[0] == "/api/nodes"


def test_a_hub_without_nodes_says_how_one_is_added(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played(monkeypatch, PlayedHub(nodes=()))
    assert run(["status", "--url", URL]) == Unavailable.exit_code
    assert "andon nodes add NAME" in capsys.readouterr().err


def test_a_hub_that_goes_away_meanwhile_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played(monkeypatch, PlayedHub(nodes=(*ROWS, NodeRow("cut", NodeState.HEALTHY, 1.0, gpus=8))))
    assert run(["leases", "--url", URL]) == 1
    assert "cut   no answer  http://hub:1 cannot be reached" in capsys.readouterr().out


def test_free_names_the_best_node_and_the_command_that_takes_it(
    hub: PlayedHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["free", "--gpus", "2", "--memory", "10G", "--url", URL]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a1    GPU 1, 6        2 free, 87.9 GiB at least, H200",
        "on a1: andon run --gpus 2 --memory 10240MiB -- COMMAND",
        "2 of 4 nodes answered, 2 GPUs free",
    ]
    assert run(["free", "--gpus", "3", "--url", URL]) == 1
    assert "no: 3 GPUs requested, one node has 2 free at most" in capsys.readouterr().out


def test_free_says_where_it_is_not_known_what_is_free(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "the lease book /home/book is under a home directory"
    unknown = NodeRow("n17", NodeState.HEALTHY, 1.0, gpus=8, allocated_reason=why)
    played(monkeypatch, PlayedHub(nodes=(unknown,)))
    for form in ([], ["--json"]):
        assert run(["free", "--url", URL, *form]) == Unavailable.exit_code
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "it is not known which GPUs are free on n17" in shown.err
        assert why in shown.err


@rows("words, url", [
    ("", URL),
    ("--node n17 -v", URL),
    ("--url http://other:1", "http://other:1"),
    ("--simulate 1", None),
    ("--replay a.jsonl", None),
    ("--fresh", None),
    ("--ssh lab1", None),
])  # fmt: skip
def test_the_variable_names_the_server_unless_the_command_line_says_what_is_meant(
    monkeypatch: pytest.MonkeyPatch, words: str, url: str | None
) -> None:
    monkeypatch.setenv("ANDON_URL", URL)
    with status.make_context("status", words.split(), obj=Choices()) as context:
        assert chosen(context).url == url


def test_the_variable_is_asked(
    hub: PlayedHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_URL", URL)
    assert run(["status"]) == 0
    assert "nodes answered" in capsys.readouterr().out
    assert not will_sample(["status"], {"ANDON_URL": URL})
    assert will_sample(["run", "--", "true"], {"ANDON_URL": URL})


def answers(*codes: int | None) -> list[NodeAnswer]:
    """None: a node that has not answered; below 0: one that its hub does not hear."""
    away = NodeAnswer("b", Unavailable("x"))
    return [
        away if one is None else NodeAnswer("a", code=abs(one), by="andon 1", current=one >= 0)
        for one in codes
    ]


@rows("path, codes, worst, code", [
    ("status", (0, 3), False, 0),
    ("status", (5, 5), False, 5),
    ("status", (5, -3), False, 5),
    ("status", (-3,), False, 3),
    ("status", (0, None), False, 1),
    ("status", (None, None), False, 3),
    ("alerts", (0, 12, 11), True, 12),
    ("alerts", (0, 12, 11), False, 0),
    ("free", (0, None), False, 0),
    ("free", (3, 1), False, 1),
    ("free", (3, 3), False, 3),
    ("free", (2, 3), False, 3),
    ("free", (None,), False, 3),
])  # fmt: skip
def test_the_exit_code_of_all(
    path: str, codes: tuple[int | None, ...], worst: bool, code: int
) -> None:
    assert code_of(path, answers(*codes), worst) == code


def test_the_list_says_which_machine_is_the_hubs_own() -> None:
    listed = NodeList(AT, True, ROWS, own="own")
    assert read_document(NodeList, wire.loads(list_to_text(listed), wire.ANSWER)).own == "own"
