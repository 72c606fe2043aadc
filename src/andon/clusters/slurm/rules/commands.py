"""Makes the commands `sbatch` and `srun` from a submission."""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct

from andon.errors import Invalid
from andon.jobs.rules.cluster_task import one_line
from andon.model.job.cluster import ClusterTask
from andon.model.job.desk import Able, Submission
from andon.model.job.spec import JobSpec, dumps
from andon.model.shapes import to_json
from andon.settings.clusters import ClusterSettings

REQUEUE = "requeue"
JOB_ID = re.compile(r"[0-9]{1,10}(?:[_+][0-9]{1,10})?")
MARK = "andon:"
"""In a job's comment, before the label of its submission."""
_OURS = {
    "--array": "--array", "--begin": "--begin", "--chdir": "the folder you submit from",
    "--comment": "--tag", "--dependency": "--after", "--job-name": "--name",
    "--kill-on-invalid-dep": "--after", "--open-mode": "andon logs", "--output": "andon logs",
    "--error": "andon logs", "--parsable": "andon jobs", "--requeue": "--retry-lost",
    "--no-requeue": "--retry-lost", "--test-only": "--dry-run", "--time": "--for",
    "--wait": "andon jobs wait", "--wrap": "a command after --",
}  # fmt: skip
_SHORT = {
    "-a": "--array", "-b": "--begin", "-D": "--chdir", "-d": "--dependency", "-e": "--error",
    "-J": "--job-name", "-o": "--output", "-t": "--time", "-W": "--wait",
}  # fmt: skip


class SlurmOptions(Struct, frozen=True):
    """The options of `[clusters.NAME]` for Slurm."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    options: tuple[str, ...] = ()
    logs: str = ""  # a folder that this machine and the nodes share; empty: in the state folder
    on_busy: str = ""  # what a job does whose GPU someone else uses: requeue, or nothing
    hub: str = ""  # the andon hub that its nodes report to; empty: this machine's server


class SameAndon(Struct, frozen=True):
    """The andon that submits, which jobs look for on their nodes."""

    python: str
    script: str  # that starts a job
    version: str
    machine: str  # the kind of processor


ABLE: Final = frozenset({
    Able.AFTER, Able.ARRAY, Able.ARRAY_LIMIT, Able.BEGIN, Able.CHECKPOINT, Able.ENGINE_OPTIONS,
    Able.FOREGROUND, Able.METRICS, Able.MODEL, Able.PER_GPU, Able.PREVIEW, Able.RETRY_LOST,
    Able.STOP_WHEN,
})  # fmt: skip
_ALIKE: Final = "Slurm gives out whole GPUs and chooses them"
INSTEAD: Final = {
    Able.CHECK: "the prolog of andon setup --slurm checks them",
    Able.MEMORY: f"{_ALIKE}: use --model",
    Able.SHARED: f"{_ALIKE}: see --engine-option=--gres=shard:1",
    Able.DEVICES: f"{_ALIKE}: use --model, or --engine-option=--nodelist=NODE",
    Able.EVERY_GPU: "name a number",
    Able.GPU_RANGE: "name one number",
    Able.MODELS: "name one",
    Able.PRIORITY: "use --engine-option=--nice=N",
    Able.RETRIES: "use --retry-lost, or submit again",
    Able.RETRY_OOM: "use --retry-lost, or submit again",
    Able.TIMEOUT: "use --engine-option=--deadline=TIME",
    Able.IMAGE: "start the container in the command itself",
    Able.BIND: "Slurm binds by itself: --engine-option=--gres-flags=enforce-binding",
}
"""What Slurm does not support, and what to use instead."""


def read_options(settings: ClusterSettings) -> SlurmOptions:
    """Returns the options; Invalid names one that is unknown or has a wrong value."""
    given: dict[str, Any] = dict(settings.options)
    more = given.pop("options", [])
    if not isinstance(more, list) or not all(isinstance(one, str) for one in more):
        raise Invalid("options is not a list of texts", hint='options = ["--mem=64G"]')
    known = [name for name in SlurmOptions.__struct_fields__ if name != "options"]
    for name, value in given.items():
        if name not in known:
            raise Invalid(f"there is no option {name[:40]!a}", hint=f"options, {', '.join(known)}")
        if not isinstance(value, str) or not value.isprintable():
            raise Invalid(f"{name} is not a text of one line", hint=f'{name} = "…"')
    if given.get("on_busy", "") not in ("", REQUEUE):
        raise Invalid(f"on_busy is {given['on_busy'][:40]!a}", hint=f'on_busy = "{REQUEUE}"')
    refuse_ours(more)
    return SlurmOptions(options=tuple(more), **given)


def refuse_ours(options: Sequence[str]) -> None:
    """Refuses options that andon sets itself, and arguments that are no option."""
    for word in options:
        if not word.startswith("-") or not word.isprintable():
            raise Invalid(
                f"{word[:60]!a} is not an option of sbatch", hint="one word each: --mem=64G"
            )
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if (name := _SHORT.get(name, name)) in _OURS:
            raise Invalid(f"{name} is andon's own here", hint=f"use {_OURS[name]}")


def sbatch_arguments(
    submission: Submission, options: SlurmOptions, logs: str, begin: str | None
) -> list[str]:
    """Returns the arguments of `sbatch`; `begin` is the job's earliest start in local time."""
    job = submission.job
    name = "%A_%a" if submission.indices else "%j"
    found = ["--parsable", *_common(submission, options), f"--output={logs}/{name}.out"]
    if submission.per_gpu:
        found.append(_tasks(submission)[0])
    found += ["--open-mode=append", "--requeue" if job.retry_lost else "--no-requeue"]
    if submission.indices:
        limit = "" if submission.limit is None else f"%{submission.limit}"
        found.append(f"--array={_ranges(submission.indices)}{limit}")
    for one in (*submission.after, *submission.after_any):
        if JOB_ID.fullmatch(one) is None:
            raise Invalid(f"{one[:60]!a} is no id of a job of Slurm", hint="such as 4711 or 4711_7")
    waits = {"afterok": submission.after, "afterany": submission.after_any}
    if conditions := [f"{kind}:{':'.join(ids)}" for kind, ids in waits.items() if ids]:
        found += [f"--dependency={','.join(conditions)}", "--kill-on-invalid-dep=yes"]
    if begin is not None:
        found.append(f"--begin={begin}")
    if job.checkpoint is not None:
        found.append(f"--signal=B:{job.checkpoint.signal}@{job.checkpoint.seconds:.0f}")
    return found


def srun_command(
    submission: Submission, options: SlurmOptions, task: ClusterTask, installed: SameAndon
) -> list[str]:
    """Returns a command that runs the job at this terminal. The shell in between reports a missing
    program as 127, which `srun` would not."""
    job, unable = submission.job, submission.after or submission.after_any or submission.indices
    if unable or job.begin_at is not None or job.checkpoint is not None or job.retry_lost:
        raise Invalid("a job at this terminal starts at once, and once", hint="use andon submit")
    common = [*_common(submission, options), *_tasks(submission)]
    inner = _recorded(submission, task, installed)
    return ["srun", "--quiet", "--quit-on-interrupt", *common, "--", "sh", "-c", inner, "sh",
            *job.argv]  # fmt: skip


def batch_script(submission: Submission, task: ClusterTask, installed: SameAndon) -> str:
    """Returns the script. The command, or its recorder, replaces the shell, so that signals reach
    it."""
    job, inner = submission.job, _recorded(submission, task, installed)
    if submission.per_gpu:
        argv = ["srun", "--quiet", *_tasks(submission), "sh", "-c", inner, "sh", *job.argv]
        inner = f"exec {shlex.join(argv)}\n"
    else:
        inner = f"set -- {shlex.join(job.argv)}\n{inner}"
    return (
        "#!/bin/sh\n"
        f"umask {job.umask:04o}\n"
        'export ANDON_ARRAY_INDEX="$SLURM_ARRAY_TASK_ID"\n'
        '[ -n "$ANDON_ARRAY_INDEX" ] || unset ANDON_ARRAY_INDEX\n'
        f"{inner}"
    )


def task_options(submission: Submission, options: SlurmOptions) -> dict[str, Any]:
    """Returns the Slurm part of what andon needs to know inside a job."""
    requeues = options.on_busy == REQUEUE
    return {
        "shares": submission.per_gpu > 1,
        "if_busy": _give_back(submission.job) if requeues else "",
    }


def _recorded(submission: Submission, task: ClusterTask, installed: SameAndon) -> str:
    """Returns lines that run the given command, recorded by the andon of the submission if the node
    has it."""
    python, script = shlex.quote(installed.python), shlex.quote(installed.script)
    arguments = shlex.join([installed.version, dumps(to_json(task))])
    return (
        "job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}\n"
        f'if [ -x {python} ] && [ -r {script} ] && [ "$(uname -m)" = {installed.machine} ]; then\n'
        f'exec {python} -P {script} {arguments} "${{job:-$SLURM_JOB_ID}}" "$@"\n'
        "fi\n"
        'echo "andon: no record of this job: $(uname -n) does not have the andon that submitted it'
        f' ({shlex.quote(installed.python)})" >&2\n'
        'exec "$@"\n'
    )


def _tasks(submission: Submission) -> list[str]:
    """Returns the number of processes; each of several sees a GPU of its own."""
    each = submission.per_gpu
    if not each:
        return ["--ntasks=1"]
    bound = "--gpus-per-task=1" if each == 1 else f"--gpu-bind=single:{each}"
    return [f"--ntasks={each * submission.job.request.least}", bound]


def _give_back(job: JobSpec) -> str:
    """Returns a line that requeues a job once, without the node that it is on. The list of nodes
    can be changed only when the job waits again, and by then the job is being ended."""
    one = "scontrol update JobId=$SLURM_JOB_ID"
    again = "" if job.retry_lost else " Requeue=0"
    return (
        '[ "${SLURM_RESTART_COUNT:-0}" = 0 ] && trap "" TERM && '
        f"{one} Requeue=1 && scontrol requeue $SLURM_JOB_ID && "
        f"{one} ExcNodeList=$SLURMD_NODENAME{again}"
    )


def preview(submission: Submission, arguments: Sequence[str], script: str) -> str:
    """Returns text that can be pasted into a shell to submit the same job."""
    end = "END"
    while end in script:
        end += "_"
    return f"{shlex.join(['sbatch', *arguments])} <<'{end}'\n{script}{end}\n"


def _common(submission: Submission, options: SlurmOptions) -> list[str]:
    job, request = submission.job, submission.job.request
    model = f"{request.models[0].lower()}:" if request.models else ""
    found = [
        f"--job-name={one_line(job.name)}", f"--comment={MARK}{submission.label}",
        f"--chdir={job.folder}", "--nodes=1", f"--gpus-per-node={model}{request.least}",
    ]  # fmt: skip
    chosen = {
        name: getattr(options, name) for name in ("partition", "account", "qos", "constraint")
    }
    found += [f"--{name}={value}" for name, value in chosen.items() if value]
    if job.for_seconds is not None:
        found.append(f"--time={_duration(job.for_seconds)}")
    refuse_ours(submission.options)
    return [*found, *options.options, *submission.options]


def place_of(submission: Submission, options: SlurmOptions) -> tuple[str, str]:
    """Returns the partition and the quality of service of a job; empty: Slurm's defaults."""
    found = {"--partition": options.partition, "--qos": options.qos}
    for word in (*options.options, *submission.options):
        name, _, value = word.partition("=")
        name, value = ("--partition", word[2:]) if word[:2] == "-p" else (name, value)
        name, value = ("--qos", word[2:]) if word[:2] == "-q" else (name, value)
        if name in found:
            found[name] = value.lstrip("=")
    return found["--partition"], found["--qos"]


def _duration(seconds: float) -> str:
    whole = max(1, -int(-seconds // 1))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _ranges(indices: Sequence[int]) -> str:
    """Returns indices as `3-5,7`, because Slurm refuses long lists."""
    found, first = list[str](), indices[0]
    for one, after in pairwise([*indices, -1]):
        if after != one + 1:
            found.append(str(first) if first == one else f"{first}-{one}")
            first = after
    return ",".join(found)
