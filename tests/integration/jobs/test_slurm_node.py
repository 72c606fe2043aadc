"""The prolog and the epilog of `andon setup --slurm` on the nodes of a real Slurm.

Its GPUs are those of the stand-in driver, one for each node.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from msgspec import Struct

from tests.conftest import REPOSITORY, need
from tests.integration.parts import need_root, wait_until
from tests.integration.slurm import Slurm, slurm_cluster
from tests.standin import StandIn, StandInProcess, lost
from tests.standin.cuda import CudaFault, StandInCuda, build_cuda

pytestmark = pytest.mark.long

GIB = 1 << 30
XID = "3,{number},5141000,-;NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"


class Site(Struct, frozen=True):
    """A Slurm whose nodes check the GPUs of their jobs."""

    slurm: Slurm
    nodes: dict[str, StandIn]
    root: Path

    def reason(self, node: str) -> str:
        """Why a node takes no jobs; empty while it does."""
        shown = self.slurm("scontrol", "-o", "show", "node", node)
        told = shown.partition(" Reason=")[2].partition(" [")[0]
        return told if "DRAIN" in shown.partition(" Reason=")[0] else ""

    def submit(self, *options: str) -> str:
        output = f"--output={self.slurm.folder}/job-%j"
        words = ("sbatch", "--parsable", "--gpus-per-node=1", output, *options)
        return self.slurm(*words, "--wrap=echo $SLURMD_NODENAME; sleep 0.2")

    def state(self, job: str) -> str:
        return self.slurm("squeue", "-h", "-a", "--states=all", "--format=%T %r", f"--jobs={job}")

    def place(self, job: str) -> str:
        """Where a job ran; empty before it ends."""
        path = self.slurm.folder / f"job-{job}"
        return path.read_text().strip() if self.state(job).startswith("COMPLETED") else ""

    def given_back(self, job: str) -> None:
        """Waits until a job is in the queue again, not held, and lets it start at once: Slurm
        leaves two minutes."""
        wait_until(lambda: self.state(job) == "PENDING BeginTime", "the job in the queue")
        wait_until(lambda: self._starts_at_once(job), "its second start")

    def _starts_at_once(self, job: str) -> bool:
        self.slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
        time.sleep(0.3)  # while its node is cleaned, Slurm sets the two minutes again
        return self.state(job) != "PENDING BeginTime"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Iterator[Site]:
    need_root()
    need("slurmctld", "slurmd", "sbatch", "munged")
    folder, root = tmp_path_factory.mktemp("slurm"), tmp_path_factory.mktemp("root")
    (root / "dev").mkdir()
    (root / "dev" / "kmsg").touch()
    for name in ("proc", "sys", "etc"):
        (root / name).symlink_to(f"/{name}")
    nodes = {name: StandIn(folder / f"standin-{name}") for name in ("n1", "n2")}
    cuda = build_cuda(REPOSITORY / ".build" / "standin-cuda")
    variables = {"LD_LIBRARY_PATH": f"{library}:{cuda}", "ANDON_ROOT": root, "HOME": folder}
    exported = "".join(f"export {name}={value}\n" for name, value in variables.items())
    for kind in ("prolog", "epilog"):
        path = folder / f"{kind}.sh"
        path.write_text(f"#!/bin/sh\n{exported}export STANDIN_FOLDER={folder}/standin-"
                        f"$SLURMD_NODENAME\nexec {folder}/andon-{kind}.sh\n")  # fmt: skip
        path.chmod(0o755)
    more = f"Prolog={folder}/prolog.sh\nEpilog={folder}/epilog.sh\nPrologFlags=Alloc\n"
    with slurm_cluster(folder, nodes=2, gpus=1, more=more) as slurm:
        env = {**os.environ, **slurm.environment}
        command = [sys.executable, "-m", "andon", "setup", "--slurm", "--write"]
        subprocess.run(command, env=env, check=True, capture_output=True)
        for node in nodes.values():
            StandInCuda(node)
        yield Site(slurm, nodes, root)


@pytest.fixture(autouse=True)
def resumed(site: Site) -> Iterator[None]:
    yield
    site.slurm("scancel", "--user=root")
    for name, node in site.nodes.items():
        node.set_faults()
        node.write(StandIn.devices(1))
        StandInCuda(node)
        if site.reason(name):
            site.slurm("scontrol", "update", f"NodeName={name}", "State=RESUME")
    (site.root / "dev" / "kmsg").write_text("")
    idle = ["idle"] * len(site.nodes)
    wait_until(lambda: site.slurm("sinfo", "-hN", "--format=%t").split() == idle, "idle nodes")


def memory(site: Site) -> None:
    site.nodes["n1"].change(0, used=40 * GIB)


def stranger(site: Site) -> None:
    site.nodes["n1"].change(0, used=GIB, processes=(StandInProcess(os.getpid(), GIB),))


def xid(site: Site) -> None:
    (site.root / "dev" / "kmsg").write_text(XID.format(number=int(time.time())))


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (xid, "andon: GPU 0 reports Xid 79: the GPU has fallen off the bus"),
        (memory, "andon: GPU 0: 40.0 GiB used by no visible process"),
        (stranger, "andon: GPU 0 is in use by pid {} (root, "),
    ],
    ids=["xid", "memory", "stranger"],
)
def test_a_gpu_that_is_not_fit_for_its_job_drains_the_node(
    site: Site, breaks: Callable[[Site], None], words: str
) -> None:
    breaks(site)
    job = site.submit()
    wait_until(lambda: site.state(job) == "PENDING BeginTime", "the job in the queue, not held")
    assert site.reason("n1").startswith(words.format(os.getpid()))


def test_a_job_whose_gpu_is_lost_runs_elsewhere(site: Site) -> None:
    site.nodes["n1"].set_faults(lost(0))
    job = site.submit("--no-requeue")
    site.given_back(job)
    wait_until(lambda: site.place(job), "the job on another node")
    assert (site.place(job), site.reason("n2")) == ("n2", "")
    assert site.reason("n1") == "andon: GPU 0: lost: it has fallen off the bus"


def test_what_a_job_leaves_behind_drains_the_node_after_it(site: Site) -> None:
    job = site.submit()
    wait_until((site.slurm.folder / f"job-{job}").exists, "the job")  # its prolog has ended
    memory(site)
    wait_until(lambda: site.reason("n1"), "the reason")
    wait_until(lambda: site.place(job) == "n1", "its end")


def test_an_error_drains_a_node_once(site: Site) -> None:
    xid(site)
    job = site.submit("--nodelist=n1")
    wait_until(lambda: site.reason("n1"), "the reason")
    site.slurm("scontrol", "update", "NodeName=n1", "State=RESUME")
    site.given_back(job)
    wait_until(lambda: site.place(job), "its second start")
    assert site.place(job) == "n1"


def test_a_gpu_that_computes_wrong_results_drains_the_node(site: Site) -> None:
    StandInCuda(site.nodes["n1"]).set_faults(CudaFault(0, "wrong", "fp32", 3))
    job = site.submit("--no-requeue")
    site.given_back(job)
    wait_until(lambda: site.place(job), "the job on another node")
    assert (site.place(job), site.reason("n2")) == ("n2", "")
    assert site.reason("n1").startswith("andon check: GPU 0: WRONG RESULTS on SM 1: ")


def test_a_slow_gpu_does_not_drain_the_node(site: Site) -> None:
    slow = CudaFault(0, "slow", "memory", 50)
    StandInCuda(site.nodes["n1"]).set_faults(slow)
    job = site.submit("--nodelist=n1")
    wait_until(lambda: site.place(job), "its end")
    assert (site.place(job), site.reason("n1")) == ("n1", "")


@pytest.mark.parametrize(("fault", "drained"), [("wrong", True), ("slow", False)])
def test_a_sites_own_prolog_fails_for_wrong_results_and_not_for_a_slow_card(
    site: Site, fault: Literal["wrong", "slow"], drained: bool
) -> None:
    StandInCuda(site.nodes["n1"]).set_faults(CudaFault(0, fault, "memory", 50))
    own = site.slurm.folder / "andon-prolog.sh"
    before = own.read_text()
    own.write_text(f"#!/bin/sh\nexec {sys.executable} -m andon check --prolog\n")
    try:
        job = site.submit("--nodelist=n1")
        if drained:
            wait_until(lambda: site.reason("n1"), "the reason")
            assert "Prolog error" in site.reason("n1")
        else:
            wait_until(lambda: site.place(job) == "n1", "its end")
            assert site.reason("n1") == ""
    finally:
        own.write_text(before)
        site.slurm("scancel", "--user=root")
