"""The process `slurm-node prolog|epilog`: checks the GPUs of a Slurm job on its node, as root.

The scripts of `andon setup --slurm` start it. A device that is not fit for the job drains the node
with the reason; before the job starts, the job is put back into the queue as well. It always ends
with 0: a prolog that fails would hold the job forever.
"""

import json
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from andon.app.check_prolog import check_job
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.checks.rules.prolog import broken, reason
from andon.doctor.rules.job_devices import (
    Unfit,
    broken_by_events,
    given_devices,
    unclear_numbers,
    unfit_devices,
)
from andon.errors import AndonError, Unavailable
from andon.events.kernel_log import KernelLog
from andon.host.cards import device_minors
from andon.host.files import make_private
from andon.host.processes.child_output import ask_command
from andon.model.event import Event
from andon.node.broken_devices import BrokenDevicesQuery
from andon.sampling.rules.masks import VARIABLES

REPORTED_FILE = Path(
    "run/andon/slurm-errors.json"
)  # below the root: gone with a reboot, as the errors are
MIXED = "a node is not drained for what may be another job's GPU"
COMMAND_SECONDS = 5.0
CHECK_AGAIN_SECONDS = 0.5


def main(arguments: Sequence[str]) -> int:
    """Checks the devices of the job that the variables name."""
    job, numbers = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_JOB_GPUS", "")
    for name in VARIABLES:  # the job's masks would hide devices, and change their numbers
        os.environ.pop(name, None)
    if not job or not numbers:
        return 0
    try:
        unfit = _check(job, numbers)
        if unfit is not None:
            drain(f"andon: {unfit.message}")
            if arguments[:1] == ["prolog"]:
                _give_back(job, unfit.message)
        elif "check" in arguments:
            _measure(job, numbers)
    except (AndonError, OSError, TimeoutError) as exc:
        print(f"andon: the GPUs of job {job} were not checked: {exc}", file=sys.stderr)
    return 0


def _check(job: str, numbers: str) -> Unfit | None:
    """Returns the worst trouble; looks twice at what may be over in a moment."""
    settings = load_settings({}).settings
    root, reported = Path(settings.root), dict[str, int]()
    with suppress(OSError, ValueError, TypeError):
        reported = {
            str(k): int(v) for k, v in json.loads((root / REPORTED_FILE).read_text()).items()
        }
    with open_sampler(settings) as sampler:
        minors, events, known_broken = device_minors(root), _events(root), BrokenDevicesQuery()()
        running: Collection[str] = ()
        for last in (False, True):
            every = sampler.once(with_host=False).devices
            given = given_devices(numbers, every, minors)
            if (doubt := unclear_numbers(given, every)) is not None:
                raise Unavailable(f"{doubt}: {MIXED}")
            errors = broken_by_events(events, given, reported)
            broken = {**known_broken, **{uuid: reason for uuid, (_, reason) in errors.items()}}
            found = unfit_devices(given, every, broken, job, running)
            if not found or not found[0].passing or last:
                break
            if any(one.jobs for one in found):
                running = _running_jobs()
            time.sleep(CHECK_AGAIN_SECONDS)
    if not found:
        return None
    if found[0].uuid in errors:
        _record_reported(
            root / REPORTED_FILE, {**reported, found[0].uuid: errors[found[0].uuid][0]}
        )
    return found[0]


def _events(root: Path) -> list[tuple[int, Event]]:
    log = KernelLog(root, past=True)
    try:
        return log.numbered()
    finally:
        log.close()


def _record_reported(path: Path, reported: Mapping[str, int]) -> None:
    """Keeps which errors drained the node: once it is resumed, they do not drain it again."""
    with suppress(OSError):
        make_private(path.parent)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(reported))
        draft.replace(path)


def _running_jobs() -> frozenset[str]:
    """Returns the jobs that Slurm has on this node: some sites share a GPU between jobs."""
    node = os.environ.get("SLURMD_NODENAME", "")
    out = _slurm("squeue", "-h", "-a", f"--nodelist={node}", "--states=R,S,CG", "--format=%A %F")
    return frozenset(out.split())


def _measure(job: str, numbers: str) -> None:
    """Computes and compares on the job's devices; one that is broken drains the node, a slow one
    does not."""
    if found := broken(check_job(numbers)):
        drain(reason(found))
        _give_back(job, reason(found).removeprefix("andon "))


def drain(reason: str) -> None:
    """Drains the node; a reason that is there already stays."""
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    if "DRAIN" not in _slurm("scontrol", "-o", "show", "node", node).partition(" Reason=")[0]:
        _slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")


def _give_back(job: str, reason: str) -> None:
    """Puts the job back into the queue, also one that asked not to be: it has not started. One at
    a terminal cannot be put back: it is cancelled with a message."""
    shown = _slurm("scontrol", "-o", "show", "job", job)
    if " BatchFlag=1" not in shown:
        _slurm("scontrol", "notify", job, f"andon: {reason}; this job is cancelled")
        _slurm("scancel", job)
        return
    once = " Requeue=0" in shown
    if once:
        _slurm("scontrol", "update", f"JobId={job}", "Requeue=1")
    _slurm("scontrol", "requeue", job)
    if once:
        _slurm("scontrol", "update", f"JobId={job}", "Requeue=0")


def _slurm(*command: str) -> str:
    code, out, errors = ask_command(command, COMMAND_SECONDS)
    if code != 0:
        print(f"andon: {' '.join(command[:3])}: {errors.strip()[:300]}", file=sys.stderr)
    return out
