"""Leases over the network, with a real server: grants, fences, kills, waiting, ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import socketio

from andon.leases.book.lease_book import Book
from tests.conftest import REPOSITORY, need
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import FOREVER, end_of, line, running
from tests.integration.lending import Counter, children, lending
from tests.integration.serving import READY_SECONDS
from tests.support.homes import own_folders
from tests.support.waiting import wait_for
from tests.support.web_parts import end_holders


@pytest.fixture(autouse=True)
def _here(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the command line does here is done in the server's book."""
    monkeypatch.setenv("ANDON_SIMULATE", "4")
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    yield
    end_holders(Book())


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Counter, Path]]:
    folder = tmp_path_factory.mktemp("lender")
    with lending(folder) as found:
        yield found, folder


@pytest.fixture
def counter(lender: tuple[Counter, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    """One server for the tests that leave it as it was: each finds its book empty."""
    found, folder = lender
    for name, value in own_folders(folder).items():
        monkeypatch.setenv(name, value)
    yield found
    end_holders(found.book)
    for left in found.book.path.glob("leases/*.lease"):
        left.unlink(missing_ok=True)
    wait_for(lambda: not (found.listed()["leases"] or found.listed()["waiting"]))


def test_a_lease_is_lent_listed_renewed_and_given_back(counter: Counter) -> None:
    lease = counter.lend(gpus=2, seconds=600, command="train --password hunter2")
    assert lease["kind"] == "network"
    assert lease["command"] == "train --password ***"
    assert 590 < lease["until"] - lease["since"] <= 600
    uuids = [device["uuid"] for device in lease["devices"]]
    assert lease["environment"]["CUDA_VISIBLE_DEVICES"] == ",".join(uuids)
    [row] = counter.listed()["leases"]
    assert row == {k: v for k, v in lease.items() if k != "environment"}
    [shown] = counter.listed(token=False)["leases"]
    assert (shown["id"], shown["command"], shown["fence"]) == (lease["id"], None, None)
    refused = counter.ask("POST", "/api/leases", {"gpus": 3})
    assert refused.status == 409
    assert len(refused.json()["error"]["details"]) == 4
    assert f"held by lease {lease['id']}" in refused.json()["error"]["details"][0]
    renewed = counter.renew(lease, seconds=7200)
    assert renewed.status == 200
    assert renewed.json()["until"] > lease["until"] + 6000
    assert counter.release(lease).json() == {"id": lease["id"], "released": True}
    assert counter.book.entries() == []
    assert counter.listed()["leases"] == []


def test_what_was_lent_goes_on_when_the_server_is_killed(tmp_path: Path) -> None:
    with lending(tmp_path) as first:
        lease = first.lend(gpus=1, seconds=600)
        first.served.process.kill()
        first.served.process.wait()
        assert first.held() == [lease["id"]]
        assert is_alive(lease["pid"])
    with lending(tmp_path) as second:
        [row] = second.listed()["leases"]
        assert (row["id"], row["fence"], row["releasable"]) == (lease["id"], lease["fence"], True)
        other = second.lend(gpus=3)
        assert other["fence"] > lease["fence"]
        assert not {d["uuid"] for d in other["devices"]} & {d["uuid"] for d in lease["devices"]}
        assert second.renew(lease).status == 200
        for wrong in (other["fence"], lease["fence"] - 1, 0):
            answer = second.renew(lease, fence=wrong)
            assert (answer.status, answer.json()["error"]["kind"]) == (409, "conflict")
            assert answer.json()["error"]["reason"].startswith("fenced: ")
            gone = second.ask("DELETE", f"/api/leases/{lease['id']}?fence={wrong}")
            assert gone.status == 409
        assert second.renew(lease, fence=None).status == 422
        assert second.ask("DELETE", f"/api/leases/{lease['id']}").status == 422
        assert set(second.held()) == {lease["id"], other["id"]}
        assert second.release(lease).status == 200
        assert second.held() == [other["id"]]
        wait_for(lambda: not is_alive(lease["pid"]))


def test_a_lease_ends_in_time_and_leaves_nothing_not_even_a_zombie(counter: Counter) -> None:
    server = counter.served.process.pid
    before = set(children(server))
    lease = counter.lend(seconds=600)
    assert set(children(server)) - before == {lease["pid"]}
    assert andon("lease", "extend", lease["id"], "--for", "100ms").code == 0
    wait_for(lambda: not Path(f"/proc/{lease['pid']}").exists())
    assert counter.book.entries() == []
    assert set(children(server)) == before
    for answer in (counter.renew(lease), counter.release(lease)):
        assert (answer.status, answer.json()["error"]["kind"]) == (404, "gone")


def test_no_refusal_leaves_a_process_or_a_file(counter: Counter) -> None:
    server = counter.served.process.pid
    before = set(children(server))
    lease = counter.lend(gpus=4)
    for asked in ({"gpus": 1}, {"gpus": 9}, {"memory": "9TiB"}, {"devices": ["nowhere"]}):
        assert counter.ask("POST", "/api/leases", asked).status in (409, 422, 503, 404)
    wait_for(lambda: set(children(server)) == before | {lease["pid"]})
    assert counter.held() == [lease["id"]]
    assert list((counter.book.path / "tickets").iterdir()) == []


def test_a_killed_holder_frees_its_devices_and_is_reaped(counter: Counter) -> None:
    lease = counter.lend(gpus=4)
    os.kill(lease["pid"], signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{lease['pid']}").exists())
    assert counter.release(lease).status == 404
    again = counter.lend(gpus=4)
    assert again["fence"] > lease["fence"]
    assert len(list((counter.book.path / "leases").iterdir())) == 1


def test_who_waits_gets_what_comes_free(counter: Counter) -> None:
    first = counter.lend(gpus=4)
    found: Queue[dict[str, Any]] = Queue()
    waiting = threading.Thread(
        target=lambda: found.put(counter.lend(gpus=2, wait_seconds=30, command="patient"))
    )
    waiting.start()
    wait_for(lambda: counter.listed()["waiting"])
    [place] = counter.listed()["waiting"]
    assert (place["position"], place["gpus"]) == (1, 2)
    assert counter.release(first).status == 200
    second = found.get(timeout=READY_SECONDS)
    waiting.join()
    assert second["command"] == "patient"
    assert counter.listed()["waiting"] == []


def test_who_leaves_while_waiting_gets_nothing(counter: Counter) -> None:
    first = counter.lend(gpus=4)
    body = json.dumps({"gpus": 1, "wait_seconds": 30})
    head = (
        f"POST /api/leases HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {counter.served.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with socket.create_connection(("127.0.0.1", counter.served.port)) as connection:
        connection.sendall(head.encode())
        wait_for(lambda: counter.book.waiting())
    wait_for(lambda: not counter.book.waiting())
    assert counter.release(first).status == 200
    assert counter.held() == []


def test_only_a_few_may_wait_and_the_others_are_answered(counter: Counter) -> None:
    first = counter.lend(gpus=4)
    answers: Queue[int] = Queue()

    def wait() -> None:
        asked = {"gpus": 1, "wait_seconds": 30}
        answers.put(counter.ask("POST", "/api/leases", asked).status)

    threads = [threading.Thread(target=wait) for _ in range(6)]
    for thread in threads:
        thread.start()
    assert [answers.get(timeout=READY_SECONDS) for _ in range(2)] == [503, 503]
    assert counter.ask("POST", "/api/leases", {"gpus": 1}).status == 409
    assert counter.ask("GET", "/api/snapshots").status == 200
    assert counter.release(first).status == 200
    assert [answers.get(timeout=READY_SECONDS) for _ in range(4)] == [201] * 4
    for thread in threads:
        thread.join()


def test_a_server_that_ends_waits_for_nobody(tmp_path: Path) -> None:
    with lending(tmp_path) as counter:
        counter.lend(gpus=4)
        asked = {"gpus": 1, "wait_seconds": 30}
        answers: Queue[object] = Queue()

        def wait() -> None:
            try:
                answers.put(counter.ask("POST", "/api/leases", asked).status)
            except (OSError, HTTPException) as error:
                answers.put(error)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_for(lambda: counter.book.waiting())
        counter.served.process.terminate()
        assert counter.served.process.wait(60) == 0
        thread.join()
        assert answers.get() != 201
        assert len(counter.held()) == 1


def test_the_command_line_reads_and_ends_a_servers_leases(counter: Counter) -> None:
    url, token = counter.served.url, str(counter.served.state / "andon" / "token")
    there = ("--url", url, "--token-file", token)
    lease = counter.lend(gpus=2, command="python train.py")
    shown = andon("leases", *there)
    assert shown.code == 0
    assert lease["id"] in shown.out
    assert "python train.py" in shown.out
    said = andon("leases", "--json", *there).json()
    assert said["leases"] == counter.listed()["leases"]
    [here] = andon("leases", "--json").json()["leases"]
    measured = {"used_bytes": 0, "utilization_percent": None}  # at another instant
    assert here | measured == said["leases"][0] | measured
    longer = andon("lease", "extend", lease["id"], "--for", "2h", *there)
    assert longer.code == 0, longer.err
    assert counter.listed()["leases"][0]["until"] > lease["until"] + 5000
    ended = andon("release", lease["id"][:3], *there)
    assert ended.code == 0, ended.err
    assert counter.held() == []
    assert andon("release", lease["id"], *there).code == 5


def test_every_change_is_told_to_who_is_connected(counter: Counter) -> None:
    heard: Queue[dict[str, Any]] = Queue()
    client = socketio.Client()
    client.on("leases", heard.put)
    client.connect(counter.served.url)
    status: Queue[Any] = Queue()
    client.on("gpu_status_update", status.put)
    client.emit("request_gpu_update")
    status.get(timeout=READY_SECONDS)
    lease = counter.lend(gpus=1, command="secret work")
    while not (said := heard.get(timeout=READY_SECONDS))["leases"]:
        continue  # its place in the line may be told first
    assert said["schema"] == "andon.leases/1"
    [row] = said["leases"]
    assert (row["id"], row["command"], row["fence"]) == (lease["id"], None, None)
    assert andon("lease", "extend", lease["id"], "--for", "100ms").code == 0
    while heard.get(timeout=READY_SECONDS)["leases"]:
        continue  # its new end may be told first
    client.disconnect()


def test_the_lease_of_a_command_is_told_too_when_it_begins_and_ends(counter: Counter) -> None:
    heard: Queue[dict[str, Any]] = Queue()
    client = socketio.Client()
    client.on("leases", heard.put)
    client.connect(counter.served.url)
    with running("run", "--simulate", "4", "--", sys.executable, "-c", FOREVER) as process:
        assert line(process) == "started"
        while not (rows := heard.get(timeout=READY_SECONDS)["leases"]):
            continue  # its place in the line may be told first
        assert [(row["kind"], row["state"]) for row in rows] == [("command", "held")]
        process.terminate()
        process.wait()
        while heard.get(timeout=READY_SECONDS)["leases"]:
            continue  # its work was named meanwhile
    client.disconnect()


def test_a_commands_lease_is_ended_and_moved_by_its_users_server(counter: Counter) -> None:
    work = ("--simulate", "4", "--for", "1h", "--", sys.executable, "-c", FOREVER)
    with running("lease", *work) as process:
        assert line(process) == "started"
        [row] = counter.listed()["leases"]
        assert (row["kind"], row["releasable"], row["not_releasable_reason"]) == (
            "command",
            True,
            None,
        )
        renewed = counter.ask("POST", f"/api/leases/{row['id']}/renew", {"seconds": 7200})
        assert renewed.json()["until"] > row["until"] + 3000
        assert counter.ask("DELETE", f"/api/leases/{row['id']}").status == 200
        assert end_of(process).code == 143


def test_the_example_of_the_docs_does_what_it_says(counter: Counter, tmp_path: Path) -> None:
    need("curl", "jq")
    page = (REPOSITORY / "docs" / "sharing.md").read_text()
    script = page.partition("## Over the network")[2].partition("```sh\n")[2].partition("```")[0]
    token = counter.served.state / "andon" / "token"
    for ours, theirs in (
        ("http://127.0.0.1:26366", counter.served.url),
        ("~/.local/state/andon/token", str(token)),
    ):
        assert script.count(ours) == 1
        script = script.replace(ours, theirs)
    script += 'echo; echo "$CUDA_VISIBLE_DEVICES"'
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    renewed, released, mask = [*done.stdout.replace("}{", "}\n{").splitlines()]
    assert json.loads(released)["released"] is True
    assert json.loads(renewed)["command"] == "nightly tests"
    assert mask == json.loads(renewed)["devices"][0]["uuid"]
    assert counter.held() == []


def test_health_and_features_name_the_book(counter: Counter) -> None:
    counter.lend()
    wait_for(lambda: counter.ask("GET", "/api/health").json()["leases"]["count"] == 1)
    said = counter.ask("GET", "/api/health").json()["leases"]
    assert (said["state"], said["readable"]) == ("ok", True)
    assert said["path"] == str(counter.book.path)
    assert said["owner"]
    assert counter.ask("GET", "/api/features").json()["features"]["leases"] is True


def test_simulated_devices_are_lent_only_where_the_flag_was_given(tmp_path: Path) -> None:
    """`ANDON_SIMULATE` alone is no word of a person's about leases."""
    with lending(tmp_path, simulate=0) as counter:
        answer = counter.ask("POST", "/api/leases", {"gpus": 1})
        assert answer.status == 503
        assert "simulated" in answer.json()["error"]["reason"]
        assert counter.book.entries() == []


def test_a_command_that_does_not_end_is_killed_when_asked_once_more(counter: Counter) -> None:
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
    work = ("--simulate", "4", "--", sys.executable, "-c", stubborn)
    with running("lease", *work) as process:
        assert line(process) == "started"
        [name] = counter.held()
        first = counter.ask("DELETE", f"/api/leases/{name}")
        assert (first.status, first.json()["error"]["kind"]) == (409, "conflict")
        assert counter.held() == [name]
        assert counter.ask("DELETE", f"/api/leases/{name}").status == 200
        assert end_of(process).code == 137
