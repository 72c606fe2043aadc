"""Runs of a real server: found without being told, shown to whom they concern, followed live."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import socketio

from andon.host.users import user_name
from andon.units import shell_line
from andon.web.answers.description import ANSWERS
from tests.integration.run_writing import WrittenRun
from tests.integration.serving import READY_SECONDS, Served, andon, serving
from tests.support.described import check
from tests.support.waiting import wait_for

ME = user_name(os.getuid())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), "--no-history", simulate=2) as served:
        yield served


@pytest.fixture(scope="module")
def folder(home: Served) -> Path:
    return home.state / "andon" / "runs"


VALUES = ("last_values", "extremes", "curves")


@pytest.fixture(scope="module")
def finished(folder: Path) -> WrittenRun:
    run = WrittenRun(folder, "kqzvmtra", "train.py", user=ME, tags=("baseline",), group="sweep")
    run.sample(*range(0, 60, 5))
    run.event(30, "epoch", path="/home/secret")
    run.log(20, 100, loss=0.25)
    run.log(40, 200, loss=0.5)
    run.end(60)
    return run


def asked(home: Served, path: str, known: bool = True) -> Any:
    answer = home.ask(path, **(home.bearer if known else {}))
    assert answer.status == 200, answer.body
    return answer.json()


def test_a_run_of_the_command_is_found_with_everything_that_is_known(
    home: Served, finished: WrittenRun
) -> None:
    done = andon(home.state, "run", "--simulate", "2", "--name", "quick", "--even-if-used", "--",
                 "true", ANDON_LEASE_DIR=str(home.state / "leases"))  # fmt: skip
    assert done.code == 0, done.err
    page = asked(home, "/api/runs")
    check(page, ANSWERS["get", "/api/runs"])
    assert ME in page["whose"]
    assert {run["name"] for run in page["items"]} >= {"quick", "train.py"}
    [quick] = asked(home, "/api/runs?search=quick")["items"]
    assert (quick["state"], quick["kind"], quick["simulated"]) == ("succeeded", "command", True)
    assert quick["gpus"].startswith("1 × ")
    one = asked(home, f"/api/runs/{quick['id']}")
    check(one, ANSWERS["get", "/api/runs/{run}"])
    assert one["command"] == "true"
    assert one["gpu_info"]["count"] == 1
    assert len(one["gpu_info"]["gpu_info"]["details"]) == 2
    assert (one["metrics"]["gpu_monitoring"] is None) is not one["telemetry"]
    assert [run["id"] for run in asked(home, "/api/runs?tag=baseline&model=H200")["items"]] == [
        "kqzvmtra"
    ]


def test_a_stranger_sees_that_it_ran_but_not_what(home: Served, finished: WrittenRun) -> None:
    mine, theirs = (asked(home, "/api/runs/kqzvmtra", known) for known in (True, False))
    assert mine["command"] == f"python train.py --key of-{ME}"
    assert mine["path"] == str(finished.path)
    hidden = ("command", "path", "params", "working_directory")
    assert [list(one[name]) for one in (mine, theirs) for name in VALUES] == [["loss"]] * 3 + [
        []
    ] * 3
    assert [theirs[name] for name in hidden] == [None] * 4
    assert theirs["hidden"]
    assert (mine["tags"], theirs["tags"]) == (["baseline"], [])
    same = set(mine) - {*hidden, *VALUES, "hidden", "downloadable", "tags"}
    assert {name: theirs[name] for name in same} == {name: mine[name] for name in same}
    assert asked(home, "/api/runs?search=of-", known=False)["items"] == []
    told = [asked(home, "/api/runs/kqzvmtra/events", known)["items"] for known in (True, False)]
    assert [mark["detail"] for marks in told for mark in marks] == ['{"path":"/home/secret"}', None]


def test_the_record_is_downloaded_by_those_who_may_see_it(
    home: Served, finished: WrittenRun
) -> None:
    path = "/api/runs/kqzvmtra/record"
    answer = home.ask(path, **home.bearer)
    assert answer.status == 200
    assert answer.body == finished.path.read_text()
    assert answer.headers["content-disposition"].endswith("train.py_kqzvmtra.jsonl")
    assert home.ask(path).status == 403
    assert home.ask("/api/runs/nothing/record", **home.bearer).status == 404
    assert "no run" in home.ask("/api/runs/nothing").json()["error"]["reason"]


def test_a_run_that_goes_on_is_followed_to_its_end(home: Served, folder: Path) -> None:
    run = WrittenRun(folder, "goingone", "live.py", user=ME, ago=5)
    run.sample(1)
    before = asked(home, "/api/runs/goingone")
    assert (before["state"], before["samples"], before["series"]["at"]) == ("running", 1, [1.0])
    news: Queue[Any] = Queue()
    client = socketio.Client()
    client.on("run", news.put)
    client.connect(home.url, auth={"token": home.token}, transports=["websocket"])
    try:
        said = client.call("subscribe", "run goingone", timeout=READY_SECONDS)
        assert said == {"subscribed": ["run goingone"]}
        assert news.get(timeout=READY_SECONDS)["read"]["bytes"] == before["read"]["bytes"]
        run.sample(2)
        run.event(2, "epoch")
        points: list[float] = []
        marks: list[str] = []
        while not (points and marks):
            got = news.get(timeout=READY_SECONDS)
            points += got["series"]["at"]
            marks += [mark["title"] for mark in got["marks"]]
        assert (points, marks) == ([2.0], ["epoch"])
        run.end(3)
        while (got := news.get(timeout=READY_SECONDS))["state"] == "running":
            pass
        assert got["state"] == "succeeded"
    finally:
        client.disconnect()
    after = asked(home, "/api/runs/goingone")
    assert (after["state"], after["duration_seconds"]) == ("succeeded", 3)


def test_a_run_is_pinned_and_noted_by_those_who_may(home: Served, finished: WrittenRun) -> None:
    path, body = f"/api/runs/{finished.begin.id}", json.dumps({"pinned": True, "note": "a\x1bb"})
    sent = {"Content_Type": "application/json"}
    assert home.ask(path, "PATCH", body, **sent).status in (401, 403)
    key = {"Authorization": f"Bearer {home.token}", **sent}
    done = home.ask(path, "PATCH", body, **key)
    assert done.status == 200, done.body
    found = asked(home, path)
    assert ("pinned" in found["tags"], found["note"]) == (True, "a\\x1bb")
    assert home.ask(path, "PATCH", json.dumps({"note": ""}), **key).status == 200
    found = asked(home, path)
    assert ("pinned" in found["tags"], found["note"]) == (True, None)
    assert home.ask(path, "PATCH", json.dumps({"note": "x" * 1001}), **key).status == 422
    assert home.ask("/api/runs/nothing1", "PATCH", body, **key).status == 404


def test_nonsense_can_neither_be_asked_for_nor_followed(home: Served) -> None:
    for path in (
        "?limit=0",
        "?limit=1000000",
        "?state=sleepy",
        "?offset=-1",
        f"?search={'x' * 300}",
    ):
        assert home.ask(f"/api/runs{path}").status == 422
    assert home.ask(f"/api/runs/{'x' * 100}").status == 422
    client = socketio.Client()
    client.connect(home.url, transports=["websocket"])
    try:
        for what in ("run ../../etc", "run", "runs of others", 7):
            said = client.call("subscribe", what, timeout=READY_SECONDS)
            assert said["error"]["kind"] == "gone", json.dumps(said)
        for number in range(24):
            client.call("subscribe", f"run {number}", timeout=READY_SECONDS)
        said = client.call("subscribe", "run more", timeout=READY_SECONDS)
        assert said["error"]["kind"] == "conflict"
    finally:
        client.disconnect()


@pytest.mark.timeout(150)
def test_the_commands_read_a_servers_runs_as_their_own(
    home: Served, folder: Path, finished: WrittenRun, tmp_path: Path
) -> None:
    """From another state folder, as on another machine: there the token is named."""
    other = WrittenRun(folder, "cmpvmtrb", "other.py", user=ME, group="sweep")
    other.sample(*range(0, 60, 5))
    other.log(30, 150, loss=0.125)
    other.end(60)
    ids = finished.begin.id, other.begin.id
    server = ("--url", home.url, "--token-file", str(home.state / "andon" / "token"))
    wait_for(lambda: ids[1] in andon(tmp_path, "runs", "--json", *server).out, 60, 0.3)
    for words in (("--name", "other*", "--json"), ("show", ids[0]), ("tail", ids[0]),
                  ("report", ids[0], "--format", "md"), ("compare", *ids),
                  ("compare", "--group", "sweep", "--by", "loss"),
                  ("--name", "other*", "--csv")):  # fmt: skip
        here, there = andon(home.state, "runs", *words), andon(tmp_path, "runs", *words, *server)
        assert (here.code, there.code) == (0, 0), (words, there.err)
        told = here.out  # the record's place is the server's, not a temporary file
        for one in (finished, other):
            told = told.replace(str(one.path), f"{home.url}/api/runs/{one.begin.id}")
        # The next command asks the same server.
        assert there.out.replace(f" {shell_line(*server)}\n", "\n") == told, words
        assert words[0] != "compare" or "loss best" in told
    assert andon(tmp_path, "runs", "show", "zzzz", *server).code == 5
    assert andon(tmp_path, "runs", "tail", ids[0], "-f", *server).code == 2
