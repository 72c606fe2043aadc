"""Commands of a person on a login node of a real Slurm, who has configured nothing.

It has a Slurm of its own, and what stops the controller comes last: after its restart jobs get no
devices for a while.
"""

import json
import os
import re
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from tests.integration.parts import wait_until
from tests.integration.slurm import Login
from tests.standin import StandIn, StandInProcess


def record_of(login: Login, run: str) -> list[dict[str, Any]]:
    """Returns the lines of a run's record."""
    for path in login.folder.glob("state/andon/runs/*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if lines[0]["id"] == run:
            return lines
    raise AssertionError(f"there is no record of {run}")


def test_one_command_for_here_and_there(login: Login) -> None:
    andon = login.andon
    script = "echo element $ANDON_ARRAY_INDEX on GPU $CUDA_VISIBLE_DEVICES; sleep 1000"
    array = andon("submit", "--on", "slurm", "--for", "2h", "--array", "3-5%2", "--", "sh", "-c",
                  script).strip()  # fmt: skip
    whole = andon("submit", "--on", "slurm", "--for", "1h", "--gpus", "4", "--", "sleep",
                  "1000").strip()  # fmt: skip
    more = andon("submit", "--on", "slurm", "--gpus", "4", "--name", "late", "--", "true").strip()
    wait_until(lambda: andon("jobs", "--json").count('"state":"running"') == 3, "three that run")
    shown = andon("jobs")
    assert re.search(r"n[12] GPU [0-3] ", shown)
    assert re.search(r"n[12] GPU 0-3 ", shown)
    assert "at most 2 of its tasks run at once (%2)" in shown
    short = "needs 4 GPUs on one node: n[12] has 2 free, n[12] 0; job "
    short += whole.removeprefix("slurm:") + r" must end by .*\d\d:\d\d"  # the day, before midnight
    cut = short.partition(" by ")[0]  # the column ends before
    wait_until(lambda: re.search(cut, andon("jobs")), "Slurm's look at it")
    assert re.search(short, andon("why", more))
    printed = re.compile("element 3 on GPU [0-3]\n")
    wait_until(lambda: printed.fullmatch(andon("logs", f"{array}_3")), "its output")
    assert re.search(f"==> job {array}_3 <==\nelement 3 on", andon("logs", array))
    nodes = [line.split()[:5] for line in andon("nodes", "--on", "slurm").splitlines()[1:]]
    assert [node[0] for node in nodes] == ["n1", "n2"]
    assert sorted(node[1:] for node in nodes) == [["4", "a100", "2", "2"], ["4", "a100", "4", "0"]]
    andon("cancel", array, whole)
    andon("jobs", "wait", more)
    assert andon("run", "--on", "slurm", "--", "sh", "-c", "echo here") == "here\n"
    andon("run", "--on", "slurm", "--", "sh", "-c", "exit 7", code=7)
    andon("run", "--on", "slurm", "--", "no-such-program", code=127)
    refused = andon("submit", "--on", "slurm", "--gpus", "99", "--", "true", code=2)
    assert "Requested node configuration is not available" in refused


def test_a_job_is_recorded_on_the_devices_that_slurm_gave(node: StandIn, login: Login) -> None:
    slurm = login.slurm
    stranger = StandInProcess(os.getpid(), 3 << 30)
    first, second, *others = StandIn.devices(8)
    node.write([first, replace(second, processes=(stranger,)), *others])
    ends = "echo on $CUDA_VISIBLE_DEVICES; sleep 3; exit 5"
    one = login.submit("--gpus", "2", "--tag", "nightly", "--", "sh", "-c", ends)
    ended = login.ended(one)
    assert (ended["state"], ended["exit_code"]) == ("failed", 5)
    begin, *lines, end = record_of(login, ended["run"])
    assert (begin["kind"], begin["params"]["job"], begin["tags"]) == ("job", one, ["nightly"])
    assert [device["index"] for device in begin["devices"]] == [0, 1]
    assert (end["state"], end["exit_code"]) == ("failed", 5)
    assert begin["lease"] is not None
    log = login.andon("logs", one)
    assert log.endswith("\non 0,1\n")  # with Slurm's own mask
    (said,) = [line for line in lines if line.get("name") == "stranger"]
    assert f"pid {os.getpid()}" in said["data"]["device"]
    assert f"slurm gave this job a GPU that is in use: {said['data']['device']}" in log
    login.forget(one)
    known = login.jobs()[one]
    assert (known["state"], known["exit_code"]) == ("failed", 5)
    assert (known["run"], known["error"]) == (ended["run"], "exit code 5")
    login.variables["ANDON_CONFIG"] = str(login.folder / "andon.toml")
    table = '[clusters.slurm]\nkind = "slurm"\non_busy = "requeue"\n'
    (login.folder / "andon.toml").write_text(table)
    again = login.submit("--gpus", "2", "--", "true").removeprefix("slurm:")
    wanted = ("JobState=PENDING", "ExcNodeList=n1", "Requeue=0")
    shown = partial(slurm, "scontrol", "show", "job", again)
    wait_until(lambda: all(one in shown() for one in wanted), "its return without that node")


LINE = "Slurm's controller has not answered for"
TRAIN = """
import os

def train(rate, steps=1):
    return rate * steps, os.environ["SLURM_JOB_ID"]
"""
SUBMIT = """
import andon, train
job = andon.submit(train.train, 2, on="slurm", kwargs={"steps": 3})
bad = andon.submit(train.train, "x", on="slurm", kwargs={"steps": None})
print(job.label, job.result("60s"))
try:
    bad.result("60s")
except TypeError as error:
    print(error)
"""


def test_tokens_of_andon_stay_on_the_login_node(login: Login) -> None:
    secrets = ("ANDON_TOKEN", "ANDON_HUB_TOKEN", "BENCHMARK_API_KEY")
    login.variables.update(dict.fromkeys(secrets, "hush"), OTHER="mine")
    shows = ("--", "sh", "-c", "env | grep -e hush -e OTHER")
    printed = login.andon("run", "--on", "slurm", *shows)
    job = login.submit(*shows)
    login.andon("jobs", "wait", job)
    printed += login.andon("logs", job)
    assert printed == "OTHER=mine\n" * 2


def test_functions_and_processes_for_each_gpu(login: Login) -> None:
    (login.folder / "train.py").write_text(TRAIN)
    (login.folder / "submit.py").write_text(SUBMIT)
    ranks = login.submit("--gpus", "2", "--per-gpu", "1", "--", "sh", "-c",
                         "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES")  # fmt: skip
    done = login.python("submit.py")
    label, _, answer = done.stdout.splitlines()[0].partition(" ")
    assert answer == f"(6, {label.removeprefix('slurm:')!r})"
    assert "NoneType" in done.stdout.splitlines()[1]
    assert login.ended(ranks)["state"] == "succeeded"
    assert sorted(login.andon("logs", ranks).splitlines()) == ["0 0", "1 1"]


@pytest.mark.long
def test_a_map_has_the_same_outputs_on_one_gpu_and_on_several(login: Login) -> None:
    (login.folder / "items").write_text("".join(f"{number}\n" for number in range(9)))
    on = ("map", "--on", "slurm", "--keep-order", "--items", "items")
    run = ("--", "sh", "-c", 'test -e fixed || test "$0" != 4 && echo "$0" squared')
    several = login.done(*on, "--gpus", "4", *run)
    assert (several.returncode, several.stderr.count("item 4: exit code 1")) == (1, 1)
    (login.folder / "fixed").touch()
    one = login.andon(*on, "--gpus", "1", *run)
    whole = "".join(f"{number} squared\n" for number in range(9))
    assert (one, several.stdout) == (whole, whole.replace("4 squared\n", ""))
    rest = login.andon(*on, "--gpus", "2", "--resume", several.stderr.split()[-1], *run)
    assert rest == "4 squared\n"
    runs = json.loads(login.andon("runs", "--json"))["runs"]
    assert [run["kind"] for run in runs] == ["map"] * 3  # what its workers recorded is in it
    jobs = [job for job in login.jobs().values() if job["run"] == runs[-1]["id"]]
    assert len(jobs) == 4


def test_a_controller_that_is_away_costs_a_line(login: Login) -> None:
    job = login.submit("--", "sleep", "1000")
    wait_until(lambda: login.jobs()[job]["state"] == "running", "the job")
    with login.slurm.without_controller():
        wait_until(lambda: LINE in login.andon("jobs"), "the line")
        assert job in login.andon("jobs")
        refused = login.done("submit", "--on", "slurm", "--", "true")
        assert refused.returncode != 0
        assert "Slurm's controller does not answer" in refused.stderr
        assert "not known" not in refused.stderr  # it was not even sent
    wait_until(lambda: LINE not in login.andon("jobs"), "its answer")
    assert login.jobs()[job]["state"] == "running"
