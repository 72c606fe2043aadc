"""Cost of Ray through andon: `python -m bench.ray`, on a Ray of two nodes here (after `dev/ray`).

The GPUs are those of the stand-in driver. Ray takes up to 1.8 GB; the list of 1,000 jobs is that of
a small server in its place, which takes no time of its own.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.integration.leasing import records
from tests.ray import programs
from tests.ray.conftest import BIN, PORT, RealRay
from tests.standin import build
from tests.standin.ray import StandInJob, StandInRay

from andon.clusters.ray import RayCluster
from andon.settings.clusters import ClusterSettings
from bench.nodes import BUILD

SUBMIT_SECONDS, LIST_SECONDS, TASK_MS, SUM_SHARE = 0.3, 0.5, 5.0, 0.05
NEVER_CPUS = 1000
ASKED = ("/api/v0/nodes?detail=1&limit=1000", "/api/cluster_status", "/nodes?view=summary")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args()
    _listed(options.jobs, options.rounds)
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # sockets have short paths
    ray = None
    try:
        ray = RealRay(folder, build(BUILD))
        _submit(ray, options.rounds)
        _tasks(ray, options.tasks)
        _sums(ray)
    finally:
        if ray is not None:
            ray.close()
        shutil.rmtree(folder, ignore_errors=True)


def _tell(what: str, ours: str, beside: str, target: str) -> None:
    print(f"{what:<40} {ours:>10}  {beside:<46} {target}", flush=True)


def _median(rounds: int, call: Callable[[], object]) -> float:
    took = []
    for _ in range(rounds):
        began = time.monotonic()
        call()
        took.append(time.monotonic() - began)
    return statistics.median(took)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def _listed(jobs: int, rounds: int) -> None:
    """Lists jobs in this process, beside the same answers without reading them."""
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as name:
        ray = StandInRay(Path(name))
        try:
            for number in range(jobs):
                label = f"andon-a{number:012x}"
                about = {"job_name": f"job {number}", "andon_gpus": "1", "andon_user": "ada"}
                asked = {"submission_id": label, "entrypoint": "true", "metadata": about}
                ray.jobs[label] = job = StandInJob(asked, Path(name))
                job.status, job.code, job.ended = "SUCCEEDED", 0, time.time()
            options = {"address": ray.url, "logs": name}
            cluster = RayCluster(ClusterSettings("ray", "ray", 60.0, options))
            ours = _median(rounds, lambda: cluster.jobs(0.0, everyone=True))
            plain = _median(
                rounds, lambda: [_get(ray.url + path) for path in (*ASKED, "/api/jobs/")]
            )
            assert len(cluster.jobs(0.0)) == jobs
        finally:
            ray.close()
    beside = f"its answers {plain:.2f} s"
    _tell(
        f"{jobs} jobs after Ray's answer",
        f"{ours - plain:.2f} s",
        beside,
        f"at most {LIST_SECONDS} s",
    )


def _submit(ray: RealRay, rounds: int) -> None:
    """Submits jobs, beside the same requests alone, in turn. They ask for more processors than
    there are, so that none starts: Ray's processes for a job would take the machine's."""
    environment = {**ray.environment, "RAY_API_SERVER_ADDRESS": ray.url}
    words = [sys.executable, "-m", "andon", "submit", "--on", "ray", "--gpus", "1",
             f"--engine-option=entrypoint_num_cpus={NEVER_CPUS}", "--", "true"]  # fmt: skip
    took, plain, cpu = list[float](), list[float](), list[float]()
    for number in range(rounds + 1):
        began = time.monotonic()
        for path in ASKED:
            _get(ray.url + path)
        name = f"plain-{number}"
        body = {"entrypoint": "true", "submission_id": name, "entrypoint_num_gpus": 1,
                "entrypoint_num_cpus": NEVER_CPUS}  # fmt: skip
        _get_posted(f"{ray.url}/api/jobs/", json.dumps(body).encode())
        _get(f"{ray.url}/api/jobs/{name}")
        plain.append(time.monotonic() - began)
        before, began = _children_cpu(), time.monotonic()
        subprocess.run(words, env=environment, check=True, capture_output=True)
        took.append(time.monotonic() - began)
        cpu.append(_children_cpu() - before)
    extra = [ours - theirs for ours, theirs in zip(took[1:], plain[1:], strict=True)]
    beside = (
        f"Ray's own {statistics.median(plain[1:]):.2f} s; CPU {statistics.median(cpu[1:]):.2f} s; "
        f"importing ray {_import_seconds():.2f} s"
    )
    _tell("andon submit over Ray's answers", f"{statistics.median(extra):.2f} s", beside,
          f"at most {SUBMIT_SECONDS} s; least {min(extra):.2f} s")  # fmt: skip


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _get_posted(url: str, body: bytes) -> bytes:
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return bytes(answer.read())


def _import_seconds() -> float:
    words = [str(BIN / "python"), "-c"]
    took = [_median(3, lambda one=one: subprocess.run([*words, one], check=True))  # type: ignore[misc]
            for one in ("pass", "import ray")]  # fmt: skip
    return took[1] - took[0]


def run_program(ray: RealRay, program: str, **variables: str) -> str:
    done = subprocess.run(
        [str(BIN / "python"), "-c", program], capture_output=True, text=True, check=False,
        env={**ray.environment, "RAY_ADDRESS": f"127.0.0.1:{PORT}", **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _tasks(ray: RealRay, tasks: int) -> None:
    found = json.loads(run_program(ray, programs.COST, TASKS=str(tasks)))
    plain, plain_cpu = found.pop("plain")
    for name, (wall, cpu) in found.items():
        words = f"a task of {tasks}, {'with refuse_busy' if name == 'careful' else 'decorated'}"
        beside = f"plain {plain:.2f} ms; CPU of the worker {cpu - plain_cpu:.2f} ms"
        limit = f"at most {TASK_MS:g} ms" if name == "leased" else ""
        _tell(words, f"{wall - plain:.2f} ms", beside, limit)


def _sums(ray: RealRay) -> None:
    """Adds up the records of eight tasks on two nodes, beside what the driver got from them."""
    told = json.loads(run_program(ray, programs.PARTS, ANDON_RUN="drivrrun"))
    parts = [one for one in records(ray.folder / "state") if one[0].get("parent") == "drivrrun"]
    ends = [lines[-1] for lines in parts]
    seconds, driver = sum(one["duration_seconds"] for one in ends), sum(one[0] for one in told)
    energy = sum(used["energy_joules"] for one in ends for used in one["summary"].values())
    nodes = {lines[0]["node"] for lines in parts}
    beside = f"the driver's {driver:.1f} s; {energy:.0f} J on {', '.join(sorted(nodes))}"
    ok = len(parts) == 8 and len(nodes) == 2 and abs(seconds / driver - 1) < SUM_SHARE
    _tell(
        "8 tasks on 2 nodes, sum", f"{seconds:.1f} s", beside, "the same" if ok else "NOT THE SAME"
    )


if __name__ == "__main__":
    main()
