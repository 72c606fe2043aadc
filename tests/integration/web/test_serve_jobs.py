"""Jobs of a real server: whole for their user, counted for others, followed live, cancelled."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Any

import pytest
import socketio

from andon.host.users import user_name
from andon.jobs.folder import LOG, JobsFolder, jobs_path
from andon.web.answers.description import ANSWERS
from andon.web.job_opening import why_not_submit
from tests.integration.queueing import dispatcher_pid, kill_dispatcher
from tests.integration.serving import READY_SECONDS, Served, andon, serving
from tests.support.described import check
from tests.support.waiting import wait_for

ME = user_name(os.getuid())
PATIENCE = 90.0
pytestmark = pytest.mark.timeout(300)  # jobs start processes, on a machine that may be busy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("home")
    env = {"ANDON_LEASE_DIR": str(tmp_path_factory.mktemp("x") / "book")}
    env |= {"ANDON_SIMULATE_SCENARIO": "idle", "ANDON_JOBS_SUBMIT_OVER_HTTP": "yes"}
    os.environ.update(env)
    try:
        with serving(state, "--no-history", simulate=1) as served:
            yield served
            for name in ("1", "2", "3"):
                andon(state, "cancel", name)
    finally:
        for name in env:
            os.environ.pop(name, None)


def asked(home: Served, path: str, known: bool = True) -> Any:
    answer = home.ask(path, **(home.bearer if known else {}))
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.fixture(scope="module")
def jobs(home: Served) -> None:
    """One that runs, and one that waits for its device."""
    script = "echo begun; sleep 600"
    for command in (("sh", "-c", script), ("echo", "second", "--token=abc")):
        made = andon(home.state, "submit", "--simulate", "1", "--name", "train", "--", *command)
        assert made.code == 0, made.err
    try:
        wait_for(lambda: asked(home, "/api/jobs/1")["state"] == "running", PATIENCE)
        wait_for(lambda: "just queued" not in asked(home, "/api/jobs/2")["reason"], PATIENCE)
    except AssertionError as error:
        logs = [file.read_text() for file in home.state.rglob(LOG)]
        raise AssertionError(asked(home, "/api/jobs/1"), logs) from error


def test_its_users_jobs_are_shown_whole(home: Served, jobs: None) -> None:
    page = asked(home, "/api/jobs")
    check(page, ANSWERS["get", "/api/jobs"])
    assert (page["user"], page["whole"], page["paused"]) == (ME, True, False)
    assert page["counts"] == {"waiting": 1, "running": 1, "ended": 0}
    second, first = page["jobs"]
    assert (first["state"], first["name"], first["devices"]) == ("running", "train", ["0"])
    assert (second["state"], second["position"]) == ("waiting", 1)
    assert "GPU" in " ".join([second["reason"], *second["waiting_details"]])
    assert "abc" not in json.dumps(page)
    details = asked(home, "/api/jobs/1")
    check(details, ANSWERS["get", "/api/jobs/{job}"])
    assert [one["number"] for one in asked(home, "/api/jobs?state=running")["jobs"]] == [1]
    assert asked(home, "/api/features")["features"]["jobs"] is True


def test_strangers_learn_how_jobs_stand_and_nothing_else(home: Served, jobs: None) -> None:
    page = asked(home, "/api/jobs", known=False)
    assert page["whole"] is False
    assert {one["state"] for one in page["jobs"]} == {"running", "waiting"}
    assert "train" not in json.dumps(page)
    assert "sleep" not in json.dumps([page, asked(home, "/api/jobs/1", known=False)])
    assert home.ask("/api/jobs/1/log").status == 403
    assert home.ask("/api/jobs/1/cancel", "POST").status in (401, 403)


def test_the_output_can_be_followed(home: Served, jobs: None) -> None:
    wait_for(lambda: asked(home, "/api/jobs/1/log")["text"], PATIENCE)
    log = asked(home, "/api/jobs/1/log")
    check(log, ANSWERS["get", "/api/jobs/{job}/log"])
    assert (log["text"], log["attempt"], log["ended"]) == ("begun\n", 1, False)
    more = asked(home, f"/api/jobs/1/log?start={log['end']}")
    assert (more["text"], more["start"]) == ("", log["end"])
    assert asked(home, "/api/jobs/2/log")["text"] == ""
    assert home.ask("/api/jobs/1/log?attempt=7", **home.bearer).status == 404
    assert home.ask("/api/jobs/99", **home.bearer).status == 404
    assert home.ask("/api/jobs?state=nonsense", **home.bearer).status == 422


def test_what_may_be_submitted_over_the_network() -> None:
    rows = {
        (True, 0, True): "root",
        (False, 1000, True): "jobs.submit_over_http",
        (True, 1000, False): "TLS",
        (True, 1000, True): None,
    }
    for given, word in rows.items():
        found = why_not_submit(*given)
        assert (found is None) == (word is None), given
        assert word is None or (found is not None and word in found), given


def test_submitting_over_the_network(home: Served, jobs: None) -> None:
    body = json.dumps({"command": ["echo", "third"], "simulate": 1, "name": "third"})
    headers = {**home.bearer, "Content-Type": "application/json"}
    answer = home.ask("/api/jobs", "POST", body, **headers)
    if os.getuid() == 0:
        assert answer.status == 403
        assert "a server run by root accepts no jobs" in answer.body
    else:
        assert answer.status == 201
    assert home.ask("/api/jobs", "POST", body, **{"Content-Type": "application/json"}).status in (
        401,
        403,
    )


def test_a_killed_dispatcher_is_started_again_by_the_server(
    home: Served, jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(home.state))
    folder = JobsFolder(jobs_path())
    killed = dispatcher_pid(folder)
    assert killed is not None
    assert kill_dispatcher(folder)
    wait_for(lambda: dispatcher_pid(folder) not in (None, killed), PATIENCE)


def test_a_cancelled_job_is_told_live(home: Served, jobs: None) -> None:
    events: Queue[dict[str, Any]] = Queue()
    client = socketio.SimpleClient()
    client.connect(home.url, auth={"token": home.token}, wait_timeout=READY_SECONDS)
    try:
        client.client.on("job", events.put)
        assert "jobs" in client.call("subscribe", "jobs", timeout=READY_SECONDS)["subscribed"]
        for turn in range(60):  # the first round only remembers: change something until it has been
            assert andon(home.state, "jobs", ("hold", "resume")[turn % 2], "2").code == 0
            with suppress(Empty):
                events.get(timeout=2.0)
                break

        def told() -> bool:
            answer = home.ask("/api/jobs/1/cancel", "POST", **home.bearer)
            assert answer.status == 200, answer.body
            return bool(asked(home, "/api/jobs/1")["state"] == "cancelled")

        wait_for(told, PATIENCE)
        seen: dict[int, set[str]] = {}
        while "cancelled" not in seen.get(1, set()) and "succeeded" not in seen.get(2, set()):
            found = events.get(timeout=PATIENCE)
            for job in found["jobs"]:
                seen.setdefault(job["number"], set()).add(job["state"])
    finally:
        client.disconnect()
    assert asked(home, "/api/jobs/1")["state"] == "cancelled"
