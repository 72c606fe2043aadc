"""A Slurm as sites have it: devices kept apart by cgroups, a person without rights, priorities.

Its folder is one that every user may enter.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need
from tests.integration.parts import need_root, wait_until
from tests.integration.slurm import Login, Slurm, slurm_cluster

pytestmark = pytest.mark.long
NOBODY = pwd.getpwnam("nobody").pw_uid
SITE = """
SlurmdTimeout=3
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL PriorityTier=10
PartitionName=short Nodes=ALL MaxTime=5
PartitionName=closed Nodes=ALL AllowGroups=root
"""


CAPABILITY = "+dac_read_search"
AS_NOBODY = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    f"--inh-caps={CAPABILITY}", f"--ambient-caps={CAPABILITY}",
)  # fmt: skip


class Person(Login, frozen=True):
    """A person who is not root; only this Python may be where root alone can read it."""

    def done(self, *words: str, **more: Any) -> "subprocess.CompletedProcess[str]":
        command = [*AS_NOBODY, sys.executable, "-m", "andon", *words]
        env, folder = self.variables, self.folder
        return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, **more)


@pytest.fixture(scope="module")
def site() -> Iterator[Slurm]:
    need_root()
    need("slurmctld", "slurmd", "sbatch", "munged", "setpriv")
    if not Path("/sys/fs/cgroup/devices").is_dir():
        pytest.skip("Slurm of this version keeps devices apart only with cgroups of version 1")
    folder = Path(tempfile.mkdtemp(prefix="andon-slurm-"))
    kinds = ("proctrack/cgroup", "task/cgroup")
    try:
        with slurm_cluster(folder, *kinds, nodes=2, gpus=2, more=SITE) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def person(site: Slurm) -> Iterator[Person]:
    folder = Path(tempfile.mkdtemp(prefix="home-", dir=site.folder))
    os.chown(folder, NOBODY, -1)
    variables = {
        **os.environ,
        **site.environment,
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "ANDON_LEASE_DIR": str(folder / "leases"),
    }
    yield Person(site, variables, folder)
    for name in ("root", "nobody"):
        site("scancel", f"--user={name}")
    wait_until(lambda: not site("squeue", "-h"), "the end of its jobs")


def test_a_job_of_a_person_without_rights_sees_its_own_devices(site: Slurm, person: Person) -> None:
    look = f"for one in {site.folder}/gpu-*; do cat $one; done; echo $CUDA_VISIBLE_DEVICES"
    job = person.submit("--for", "1m", "--", "sh", "-c", look)
    assert person.ended(job)["state"] == "succeeded"
    log = person.andon("logs", job)
    assert (log.count("No such device"), log.count("not permitted")) == (3, 1)  # of its node
    assert log.endswith("\n0\n")  # it counts inside what the job may use


def test_what_a_person_may_not_do_is_said_with_slurms_words(site: Slurm, person: Person) -> None:
    other = site("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 600")
    wait_until(lambda: site("squeue", "-h", "--states=R"), "root's job")
    said = person.andon("cancel", f"slurm:{other}", code=4)
    assert "Access/permission denied" in said
    for words, reason in (
        (("--engine-option=--partition=closed",), "User's group not permitted"),
        (("--engine-option=--partition=short", "--for", "1h"), "it would wait forever"),
    ):
        assert reason in person.done("submit", "--on", "slurm", *words, "--", "true").stderr
    job = person.submit("--", "sleep", "600")
    site("scancel", job.removeprefix("slurm:"))
    assert person.ended(job)["state"] == "cancelled"


def test_slurm_is_asked_once_in_five_seconds_and_user_whoever_asks(
    site: Slurm, person: Person
) -> None:
    """Two users, each with commands in two terminals at a time."""
    asked, program = site.folder / "asked", site.folder / "bin" / "squeue"
    asked.touch()
    asked.chmod(0o666)
    program.parent.mkdir()
    line = f'echo "$(id -u) $(date +%s.%N)" >> {asked}'
    program.write_text(f'#!/bin/sh\n{line}\nexec {shutil.which("squeue")} "$@"\n')
    program.chmod(0o755)
    own = Path(tempfile.mkdtemp(prefix="root-", dir=site.folder))
    homes = {"HOME": str(own), "XDG_STATE_HOME": str(own / "state")}
    users = (person, Login(site, {**person.variables, **homes}, own))
    jobs = [user.submit("--", "sleep", "600") for user in users]
    wait_until(lambda: site("squeue", "-h", "--states=R").count("\n") == 1, "both jobs")
    for user in users:
        user.variables["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    words = [(u, w) for u, j in zip(users, jobs, strict=True) for w in (("jobs",), ("why", j))] * 3
    with ThreadPoolExecutor(4) as terminals:
        list(terminals.map(lambda one: one[0].andon(*one[1]), words))
    times = [
        (int(line.split()[0]), float(line.split()[1])) for line in asked.read_text().splitlines()
    ]
    for uid in (0, NOBODY):
        mine = sorted(at for user, at in times if user == uid)
        assert mine
        assert all(after - before >= 5.0 for before, after in pairwise(mine)), mine


def test_a_job_that_is_preempted_says_so(site: Slurm, person: Person) -> None:
    jobs = [person.submit("--gpus", "2", "--", "sleep", "600") for _ in range(2)]
    wait_until(lambda: site("squeue", "-h", "--states=R", "--format=%i").count("\n") == 1, "both")
    words = ("--gpus-per-node=2", "--nodes=1", "--output=/dev/null", "--wrap=sleep 600")
    site("sbatch", "--partition=urgent", *words)
    wait_until(lambda: any(person.jobs()[job]["ended"] for job in jobs), "its end")
    (ended,) = [one for job in jobs if (one := person.jobs()[job])["ended"] is not None]
    assert ended["error"] == "a job with a higher priority took its place"


def test_a_job_whose_node_fails_is_lost_while_its_processes_live_on(
    site: Slurm, person: Person
) -> None:
    told = person.folder / "pid"
    job = person.submit("--", "sh", "-c", f"echo $$ > {told}; exec sleep 600")
    wait_until(told.exists, "the job")
    node = person.jobs()[job]["where"].split()[0]
    site.daemons[node].send_signal(signal.SIGKILL)
    wait_until(lambda: person.jobs()[job]["ended"] is not None, "its end")
    assert person.jobs()[job]["error"] == "its node failed"
    assert Path(f"/proc/{told.read_text().strip()}").exists()
    os.kill(int(told.read_text()), signal.SIGKILL)
