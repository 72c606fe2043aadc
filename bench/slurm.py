"""Cost of Slurm through andon: `python -m bench.slurm`, on a Slurm of two nodes here (root).

The GPUs are those of the stand-in driver, four for each node. Beside each figure is the same with
Slurm's own commands, and with submitit if that is installed (`pip install submitit`). Arrays and
lists are measured in turn with what is beside them, and the shortest of each counts.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tests.integration.slurm import Slurm, slurm_cluster
from tests.standin import StandIn, build

from bench.nodes import BUILD

SUBMIT_MS, INSIDE_SECONDS, ARRAY_RATIO, LIST_SECONDS, WHY_SECONDS = 150.0, 0.3, 1.3, 0.5, 1.0
CHECK_SECONDS = 1.0
ARRAYS = 3
_SUBMITIT = """
import submitit
executor = submitit.AutoExecutor(folder=sys.argv[1], cluster="slurm")
executor.update_parameters(slurm_gres="gpu:1", timeout_min=5)
job = executor.submit(sum, [1, 2])
"""
_OURS = """
import andon
job = andon.submit(sum, [1, 2], on="slurm", gpus=1)
"""
_TIMED = """
import sys, time
began = time.monotonic()
{0}
submitted = time.monotonic() - began
assert job.result() == 3
print(f"\\n{{submitted:.3f}} {{time.monotonic() - began:.3f}}")
"""


class Site:
    """The Slurm, and a person on its login node."""

    def __init__(self, slurm: Slurm, folder: Path, variables: dict[str, str]) -> None:
        self.slurm, self.folder, self.variables = slurm, folder, variables

    def run(self, *words: str, script: str | None = None) -> str:
        done = subprocess.run(
            words, env=self.variables, cwd=self.folder, capture_output=True, text=True, input=script
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def andon(self, *words: str) -> str:
        return self.run(sys.executable, "-m", "andon", *words)

    def seconds(self, call: Callable[[], object], to_the_end: bool = False) -> float:
        """Returns how long a call took; with `to_the_end`, until no job is left."""
        began = time.monotonic()
        call()
        if to_the_end:
            self.until_empty()
        return time.monotonic() - began

    def until_empty(self) -> None:
        while self.run("squeue", "-h", "--states=PD,R,CG,CF"):
            time.sleep(0.1)

    def clear(self) -> None:
        self.run("scancel", "--user=root")
        self.until_empty()


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        node = StandIn(folder / "standin", per_second=False)
        node.write(StandIn.devices(8))
        (folder / "slurm").mkdir()
        home = {"HOME": name, "XDG_STATE_HOME": f"{name}/state", "ANDON_LEASE_DIR": f"{name}/book"}
        variables = {**node.environment(build(BUILD)), **home}
        with slurm_cluster(folder / "slurm", nodes=2, gpus=4) as slurm:
            site = Site(slurm, folder, variables | slurm.environment)
            _submit(site, options.rounds)
            _inside(site, options.rounds)
            _checked(site, options.rounds)
            _array(site, options.tasks)
            _listed(site, options.jobs)
            _python(site)


def _tell(what: str, ours: str, beside: str, target: str) -> None:
    print(f"{what:<44} {ours:>10}  {beside:<28} {target}", flush=True)


def _submit(site: Site, rounds: int) -> None:
    plain = _median(
        site, rounds, lambda: site.run("sbatch", "--hold", "--output=/dev/null", "--wrap=true")
    )
    words = ("submit", "--on", "slurm", "--engine-option=--hold", "--", "true")
    ours = _median(site, rounds, lambda: site.andon(*words))
    start = _median(site, rounds, lambda: site.andon("version"))
    over = 1000 * (ours - plain)
    beside = f"sbatch {1000 * plain:.0f} ms, a start {1000 * start:.0f}"
    _tell("andon submit over sbatch", f"{over:.0f} ms", beside, f"at most {SUBMIT_MS:.0f} ms")
    site.clear()


def _inside(site: Site, rounds: int) -> None:
    """Runs the script of a job `rounds` times inside a job, beside the plain command."""
    shown = site.andon("submit", "--on", "slurm", "--dry-run", "--", "true")
    found = re.search(r"<<'(\w+)'\n(.*)\n\1", shown, re.DOTALL)
    assert found is not None, shown
    (site.folder / "job.sh").write_text(found[2])
    (site.folder / "plain.sh").write_text("#!/bin/sh\nexec true\n")
    loop = "".join(
        f"a=$(date +%s%N); sh {name}.sh >/dev/null 2>&1; b=$(date +%s%N); echo {name} $((b-a))\n"
        for name in ("plain", "job") * rounds
    )
    (site.folder / "inside.sh").write_text(f"#!/bin/sh\n{loop}")
    words = ("sbatch", "--wait", "--gpus-per-node=1", f"--output={site.folder}/inside.out")
    site.run(*words, str(site.folder / "inside.sh"))
    took: dict[str, list[float]] = {"plain": [], "job": []}
    for line in (site.folder / "inside.out").read_text().splitlines():
        name, ns = line.split()
        took[name].append(int(ns) / 1e9)
    plain, ours = (statistics.median(took[name]) for name in ("plain", "job"))
    limit = f"at most {INSIDE_SECONDS} s"
    _tell("andon run in a job", f"{ours - plain:.2f} s", f"plain {plain:.3f} s", limit)


def _checked(site: Site, rounds: int) -> None:
    """Checks eight GPUs as the prolog and the epilog of `andon setup --slurm` do."""
    site.variables |= {"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": "0-7", "SLURMD_NODENAME": "n1"}
    words = (sys.executable, "-P", "-m", "andon.process", "slurm-node", "epilog")
    took = _median(site, rounds, lambda: site.run(*words))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURMD_NODENAME"):
        del site.variables[name]
    _tell("a prolog's look at 8 GPUs", f"{took:.2f} s", "", f"at most {CHECK_SECONDS} s")


def _array(site: Site, tasks: int) -> None:
    array, out = f"--array=0-{tasks - 1}", "--output=/dev/null"
    by_hand = ("sbatch", array, "--gpus-per-node=1", out, "--wrap=date")
    words = ("submit", "--on", "slurm", "--array", f"0-{tasks - 1}", "--", "date")
    pairs = [
        (
            site.seconds(lambda: site.run(*by_hand), to_the_end=True),
            site.seconds(lambda: site.andon(*words), to_the_end=True),
        )
        for _ in range(ARRAYS)
    ]
    plain, ours = map(min, zip(*pairs, strict=True))
    ratio, beside = f"{ours / plain:.2f} x", f"sbatch {plain:.1f} s, andon {ours:.1f} s"
    _tell(f"{tasks} array tasks on 8 GPUs", ratio, beside, f"at most {ARRAY_RATIO} x")


def _listed(site: Site, jobs: int) -> None:
    words = ("submit", "--on", "slurm", "--gpus", "4", "--array", f"0-{jobs - 1}", "--", "sleep",
             "600")  # fmt: skip
    name = site.andon(*words)
    plain = min(site.seconds(lambda: site.run("squeue", "-h", "-r")) for _ in range(3))
    ours = min(site.seconds(lambda: _asked(site)) for _ in range(3))
    target = f"at most {LIST_SECONDS} s"
    _tell(f"andon jobs --all, {jobs} jobs", f"{ours:.2f} s", f"squeue {plain:.2f} s", target)
    job = f"{name}_{jobs - 1}"
    why = min(site.seconds(lambda: site.andon("why", job)) for _ in range(3))
    _tell("andon why", f"{why:.2f} s", "", f"at most {WHY_SECONDS} s")
    site.clear()


def _asked(site: Site) -> None:
    """Lists the jobs as Slurm knows them now."""
    state = site.folder / "state" / "andon"
    for path in (*state.glob("nodes/*/jobs/clusters/*"), *state.glob("clusters/*/.squeue*")):
        path.unlink()
    site.andon("jobs", "--all")


def _python(site: Site) -> None:
    """A Python function there and back, and the same with submitit."""
    folder = site.folder / "submitit"
    for name, code in (("andon", _OURS), ("submitit", _SUBMITIT)):
        if find_spec(name) is None:
            print(f"{name} is not installed: not measured")
            continue
        call = _TIMED.format(code)
        submit, both = site.run(sys.executable, "-c", call, str(folder)).split()[-2:]
        _tell(f"{name}: a function, submit and result", f"{both} s", f"submit {submit} s", "")
    shutil.rmtree(folder, ignore_errors=True)


def _median(site: Site, rounds: int, call: Callable[[], object]) -> float:
    call()
    return statistics.median(site.seconds(call) for _ in range(rounds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1000)
    return parser.parse_args()


if __name__ == "__main__":
    for name in ("SLURM_CONF", "PYTHONDONTWRITEBYTECODE"):  # else each start compiles it again
        os.environ.pop(name, None)
    main()
