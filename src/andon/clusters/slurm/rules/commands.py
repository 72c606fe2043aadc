"""A submission as the commands `sbatch` and `srun` take it."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from andon.errors import Invalid
from andon.model.job.cluster import Submission
from andon.model.job.spec import JobSpec
from andon.settings.clusters import ClusterSettings

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
    """The options of `[clusters.NAME]` of this kind."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    options: tuple[str, ...] = ()
    logs: str = ""  # a folder that this machine and the nodes share; empty: in the state folder


def read_options(settings: ClusterSettings) -> SlurmOptions:
    """Returns the options; Invalid names one that is not known or not as it should be."""
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
    refuse_ours(more)
    return SlurmOptions(options=tuple(more), **given)


def refuse_ours(options: Sequence[str]) -> None:
    """Refuses options that say what andon says itself, and words that are no option."""
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
    refuse_unknown(submission)
    job = submission.job
    name = "%A_%a" if submission.indices else "%j"
    found = ["--parsable", *_common(submission, options), f"--output={logs}/{name}.out"]
    found += ["--open-mode=append", "--requeue" if job.retry_lost else "--no-requeue"]
    if submission.indices:
        limit = "" if submission.limit is None else f"%{submission.limit}"
        found.append(f"--array={_ranges(submission.indices)}{limit}")
    waits = {"afterok": submission.after, "afterany": submission.after_any}
    if words := [f"{kind}:{':'.join(ids)}" for kind, ids in waits.items() if ids]:
        found += [f"--dependency={','.join(words)}", "--kill-on-invalid-dep=yes"]
    if begin is not None:
        found.append(f"--begin={begin}")
    if job.checkpoint is not None:
        found.append(f"--signal=B:{job.checkpoint.signal}@{job.checkpoint.seconds:.0f}")
    return found


def srun_command(submission: Submission, options: SlurmOptions) -> list[str]:
    """Returns a command that runs the job at this terminal. The shell between reports a missing
    program as 127, which `srun` would not."""
    refuse_unknown(submission)
    job, unable = submission.job, submission.after or submission.after_any or submission.indices
    if unable or job.begin_at is not None or job.checkpoint is not None or job.retry_lost:
        raise Invalid("a job at this terminal starts at once, and once", hint="use andon submit")
    common = _common(submission, options)
    shell = ["sh", "-c", 'exec "$@"', "sh"]
    return [
        "srun",
        "--quiet",
        "--quit-on-interrupt",
        "--ntasks=1",
        *common,
        "--",
        *shell,
        *job.argv,
    ]


def batch_script(job: JobSpec) -> str:
    """Returns the script: the command takes the place of the shell, so that signals reach it."""
    return (
        "#!/bin/sh\n"
        f"umask {job.umask:04o}\n"
        'export ANDON_ARRAY_INDEX="$SLURM_ARRAY_TASK_ID"\n'
        '[ -n "$ANDON_ARRAY_INDEX" ] || unset ANDON_ARRAY_INDEX\n'
        f"exec {shlex.join(job.argv)}\n"
    )


def preview(submission: Submission, arguments: Sequence[str]) -> str:
    """Returns what can be pasted into a shell to submit the same job."""
    script = batch_script(submission.job)
    end = "END"
    while end in script:
        end += "_"
    return f"{shlex.join(['sbatch', *arguments])} <<'{end}'\n{script}{end}\n"


def refuse_unknown(submission: Submission) -> None:
    """Refuses what Slurm has no word for."""
    job, request = submission.job, submission.job.request
    alike = "Slurm gives out whole GPUs and chooses them"
    refused = {
        "--memory": (request.memory_bytes is not None, f"{alike}: use --model"),
        "--shared": (request.shared, f"{alike}: see --engine-option=--gres=shard:1"),
        "--device, --exclude, --prefer and --label": (
            bool(request.devices or request.exclude or request.prefer or request.labels),
            f"{alike}: use --model, or --engine-option=--nodelist=NODE",
        ),
        "--gpus all": (request.every, "name a number"),
        "a range of GPUs": (request.least != request.most, "name one number"),
        "several models": (len(request.models) > 1, "name one"),
        "--priority": (request.priority != 0, "use --engine-option=--nice=N"),
        "--retries": (job.retries > 0 or job.retry_oom > 0, "use --retry-lost, or submit again"),
        "--timeout": (job.timeout_seconds is not None, "use --engine-option=--deadline=TIME"),
        "--image": (bool(job.container), "start the container in the command itself"),
        "--bind": (job.bind, "Slurm binds by itself: --engine-option=--gres-flags=enforce-binding"),
    }
    for name, (given, instead) in refused.items():
        if given:
            raise Invalid(f"Slurm does not take {name}", hint=instead)


def _common(submission: Submission, options: SlurmOptions) -> list[str]:
    job, request = submission.job, submission.job.request
    model = f"{request.models[0].lower()}:" if request.models else ""
    found = [
        f"--job-name={_line(job.name)}", f"--comment={MARK}{submission.label}",
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


def _chosen(options: SlurmOptions) -> dict[str, str]:
    return {
        "partition": options.partition, "account": options.account, "qos": options.qos,
        "constraint": options.constraint,
    }  # fmt: skip


def _line(name: str) -> str:
    """Returns a name without what would break a line of Slurm's lists."""
    return "".join(sign if sign.isprintable() else " " for sign in name)[:200] or "job"


def _duration(seconds: float) -> str:
    whole = max(1, -int(-seconds // 1))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _ranges(indices: Sequence[int]) -> str:
    """Returns `3-5,7`: Slurm takes no long lists."""
    found, first = list[str](), indices[0]
    for one, after in pairwise([*indices, -1]):
        if after != one + 1:
            found.append(str(first) if first == one else f"{first}-{one}")
            first = after
    return ",".join(found)
