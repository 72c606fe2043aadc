"""Jobs of each desk through the library and through a server."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from andon.web.answers.description import ANSWERS
from tests.integration.jobs.desks import GPUS, HERE, LAB, Desk, opened_desk
from tests.integration.serving import Served, serving
from tests.support.described import check
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.timeout(150)]

CALLS = """
import time

def add(one, other):
    return one + other

def fail():
    raise ValueError("no such luck")

def rest():
    time.sleep(600)
"""
CALLER = """
import sys, andon, calls
job = andon.submit(getattr(calls, sys.argv[2]), *map(int, sys.argv[3:]), on=sys.argv[1])
print(job.label, flush=True)
try:
    if sys.argv[2] == "rest":
        print(job.state, flush=True)
        input()
        job.cancel()
    print("returned", job.result(60), job.state)
except Exception as error:
    print("raised", type(error).__name__, error, job.state)
"""


@pytest.fixture(scope="module", params=[HERE, LAB])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    with opened_desk(request.param, request) as found:
        (found.folder / "calls.py").write_text(CALLS)
        (found.folder / "caller.py").write_text(CALLER)
        yield found


@pytest.fixture(scope="module")
def served(desk: Desk) -> Iterator[Served]:
    simulate = None if desk.name == HERE else 1
    with pytest.MonkeyPatch.context() as patch:
        for name, value in desk.env.items():
            patch.setenv(name, value)
        with serving(desk.folder / "state", "--no-history", simulate=simulate) as found:
            yield found


def called(desk: Desk, *words: str) -> list[str]:
    """What the caller prints: the job's name, and what came of the call."""
    with subprocess.Popen(
        [sys.executable, "caller.py", desk.name, *words], cwd=desk.folder, env=desk.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline().strip()]
        if words[0] == "rest":
            lines.append(process.stdout.readline().strip())
        elif desk.lab is not None:
            _play(desk, lines[0])
        out, _ = process.communicate("\n", timeout=90)
    return [*lines, *out.splitlines()]


def _play(desk: Desk, label: str) -> None:
    """The fake cluster runs nothing: here its node does."""
    assert desk.lab is not None
    (job,) = [one for one in desk.lab.jobs(0.0) if label == f"lab:{one.id}"]
    assert job.command is not None
    path = {**desk.env, "PYTHONPATH": f"{desk.folder}:{desk.env.get('PYTHONPATH', '')}"}
    subprocess.run(shlex.split(job.command), env=path, cwd=desk.folder, check=False)


def test_a_call_returns_what_the_function_returned(desk: Desk) -> None:
    label, line = called(desk, "add", "2", "3")
    assert label.startswith(desk.prefix)
    assert line in ("returned 5 succeeded", "returned 5 running")  # the answer may come first


def test_a_call_raises_what_the_function_raised(desk: Desk) -> None:
    _, line = called(desk, "fail")
    assert line.startswith("raised ValueError no such luck")


def test_a_call_that_is_cancelled_says_so(desk: Desk) -> None:
    # A call that the fake plays ends at once, unless it waits.
    holder = desk.submit("--gpus", str(GPUS), "--", "sleep", "600") if desk.lab else None
    label, state, line = called(desk, "rest")
    assert state in ("waiting", "running")
    assert line.startswith(f"raised AndonError job {label} cancelled: cancelled")
    if holder is not None:
        desk.fine("cancel", holder)


def ask(served: Served, path: str, method: str = "GET", status: int = 200) -> Any:
    body = "" if method == "POST" else None
    answer = served.ask(path, method, body, **served.bearer)
    assert answer.status == status, answer.body
    return answer.json()


def test_a_job_is_listed_read_and_cancelled_over_http(desk: Desk, served: Served) -> None:
    label = desk.submit("--name", "train", "--", "sh", "-c", "echo hello; sleep 600")

    def state() -> Any:
        page = ask(served, "/api/jobs")
        check(page, ANSWERS["get", "/api/jobs"])
        return {one["label"]: one["state"] for one in page["jobs"]}.get(label)

    wait_for(lambda: state() == "running")
    job = ask(served, f"/api/jobs/{label}")
    check(job, ANSWERS["get", "/api/jobs/{job}"])
    assert (job["label"], job["name"], job["state"]) == (label, "train", "running")
    assert job["engine"] == (None if desk.name == HERE else desk.name)
    wait_for(lambda: ask(served, f"/api/jobs/{label}/log")["text"] == "hello\n")
    log = ask(served, f"/api/jobs/{label}/log")
    check(log, ANSWERS["get", "/api/jobs/{job}/log"])
    assert ask(served, f"/api/jobs/{label}/log?start={log['end']}")["text"] == ""
    done = ask(served, f"/api/jobs/{label}/cancel", "POST")
    told = (int(label), "stopping") if desk.name == HERE else (label, "is asked to end")
    assert (done["job"], done["outcome"]) == told
    wait_for(lambda: state() == "cancelled")
    assert ask(served, f"/api/jobs/{label}")["state"] == "cancelled"


def test_an_unknown_job_is_not_found_over_http(desk: Desk, served: Served) -> None:
    for method, path in (("GET", ""), ("GET", "/log"), ("POST", "/cancel")):
        error = ask(served, f"/api/jobs/{desk.unknown}{path}", method, 404)["error"]
        assert error["kind"] == "gone"
        assert error["reason"].startswith(f"there is no job {desk.unknown}")
        assert error["hint"] == "to list them: andon jobs --all"
