"""The queue: `python -m bench.job_queue` submits, starts and lists jobs on simulated devices.

Beside it gflow, in the same run, where its commands are on PATH (`bench.queue_beside`).
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from andon.jobs.folder import JobsFolder, open_jobs_folder, write_whole
from andon.jobs.queue import Queue, submit
from andon.jobs.rules.dispatch import QueuedJob, plan
from andon.jobs.rules.order import in_order
from andon.jobs.rules.states import job_statuses
from andon.jobs.scan import Scanner
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import dumps
from andon.model.job.spec import JobSpec, spec_to_json
from andon.model.lease import Need
from bench.history import Target
from bench.queue_beside import beside_gflow

MANY, DEVICES = 10_000, 8
SUBMIT_SECONDS, LIST_SECONDS, NEXT_SECONDS, STARTS_PER_SECOND = 0.15, 0.5, 0.05, 20.0


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if options.only_beside:
            beside_gflow(Path(folder), options.jobs)
            return
        _settle(Path(folder) / "one")
        alone = _submits(options.rounds)
        rate = _starts(options.jobs)
        _settle(Path(folder) / "many")
        jobs = _fill(options.many)
        chosen = _next_start(jobs)
        listed = _measured("andon jobs", options.rounds, "jobs")
        (jobs.path / "index.json").unlink(missing_ok=True)
        _measured("andon jobs, without an index", 1, "jobs", first=False)
        beside_gflow(Path(folder), options.jobs)
    print(Target("andon submit, seconds", alone, SUBMIT_SECONDS))
    print(Target(f"next start among {options.many}, seconds", chosen, NEXT_SECONDS))
    print(Target(f"andon jobs with {options.many} jobs, seconds", listed, LIST_SECONDS))
    kept = "reached" if rate >= STARTS_PER_SECOND else "NOT reached"
    print(
        f"{kept}: {rate:.1f} starts a second on {DEVICES} simulated devices ({STARTS_PER_SECOND})"
    )


def _settle(place: Path) -> None:
    place.mkdir()
    os.environ |= {
        "XDG_STATE_HOME": str(place / "state"),
        "ANDON_LEASE_DIR": str(place / "book"),
        "ANDON_JOBS_IDLE": "2s",
        "ANDON_SIMULATE_SCENARIO": "idle",
    }


def _submits(rounds: int) -> float:
    """With a dispatcher running, which the first one starts."""
    words = ("submit", "--simulate", str(DEVICES), "--", "true")
    first, _ = _timed(*words)
    print(f"andon submit, with the start of a dispatcher: {first:.3f} s")
    found = _measured("andon submit", rounds, *words)
    _until_ended(open_jobs_folder())
    return found


def _starts(count: int) -> float:
    """How many jobs a second start and end, from the first start to the last."""
    folder = open_jobs_folder()
    before = len(Queue(folder).jobs)
    submit(_spec(DEVICES) for _ in range(count))
    _until_ended(folder)
    new = list(Queue(folder).jobs.values())[before:]
    begun = sorted(facts.attempts[0].claim.at for facts in new)
    return (len(begun) - 1) / max(1e-9, begun[-1] - begun[0])


def _spec(devices: int) -> JobSpec:
    return local_spec(("true",), DeviceRequest(), simulate=devices, git=False)


def _until_ended(folder: JobsFolder) -> None:
    queue = Queue(folder)
    while any(not found.state.is_settled for found in queue.statuses.values()):
        time.sleep(0.1)
        queue.refresh()


def _fill(count: int) -> JobsFolder:
    """Jobs that wait, written without the syncs that each submission makes."""
    folder = open_jobs_folder()
    folder.pause()  # no dispatcher may change what is measured
    spec = _spec(1)
    for number in range(1, count + 1):
        folder.job(number).mkdir(mode=0o700)
        text = spec_to_json(spec) | {"number": number}
        write_whole(folder.job(number), "job.json", dumps(text), sync=False)
    time.sleep(2.1)  # a folder that has just changed is read again
    return folder


def _next_start(folder: JobsFolder) -> float:
    """From a change in the folder to the next start: states, order, plan."""
    scanner = Scanner(folder)
    began = time.monotonic()
    jobs = scanner.scan()
    print(f"a first scan of {len(jobs)} jobs: {time.monotonic() - began:.3f} s")
    scanner.save(0)
    began = time.monotonic()
    scanner.scan()
    print(f"a scan of what has not changed: {time.monotonic() - began:.3f} s")
    need = Need(frozenset({"GPU-0"}))
    found = []
    for _ in range(5):
        began = time.monotonic()
        known = job_statuses(jobs.values(), time.time())
        ready = in_order(jobs[number] for number, one in known.items() if one.is_ready)
        plan([QueuedJob(one.spec.number, need) for one in ready], (), time.time())
        found.append(time.monotonic() - began)
    return statistics.median(found)


def _measured(label: str, rounds: int, *words: str, first: bool = True) -> float:
    found = [_timed(*words) for _ in range(rounds + first)][first:]
    wall, cpu = (statistics.median(one[place] for one in found) for place in (0, 1))
    print(f"{label:<30} wall {wall:.3f} s, CPU {cpu:.3f} s")
    return wall


def _timed(*words: str) -> tuple[float, float]:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "andon", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each command is run")
    parser.add_argument("--jobs", type=int, default=40, help="jobs that are started")
    parser.add_argument("--only-beside", action="store_true", help="only the comparison")
    parser.add_argument("--many", type=int, default=MANY, help="jobs that wait in the long queue")
    return parser.parse_args()


if __name__ == "__main__":
    main()
