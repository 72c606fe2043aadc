"""Makes the request of Ray's jobs interface from a submission, and refuses what Ray has no option
for."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from andon.errors import Invalid
from andon.model.job.cluster import ClusterTask
from andon.model.job.desk import Able, Submission
from andon.model.job.spec import dumps
from andon.model.redaction import redact
from andon.model.shapes import to_json
from andon.settings.clusters import ClusterSettings
from andon.units import whole_number

PREFIX: Final = "andon-"
"""Precedes the label of a submission in the job's id at Ray."""
_OURS: Final = re.compile(PREFIX + r"([A-Za-z0-9.-]{1,64})(?:_([0-9]{1,9}))?")
MOST_ARRAY: Final = 100
PIN_SHARE: Final = 0.001
"""The amount of a node's own resource that places a job there."""
_NUMBERS: Final = {"entrypoint_num_cpus": float, "entrypoint_memory": int}
"""Ray's options that are numbers, and their types: it accepts only whole bytes."""


class RayOptions(Struct, frozen=True):
    """The options of `[clusters.NAME]` for Ray."""

    address: str = ""  # of the dashboard; empty: RAY_API_SERVER_ADDRESS, else RAY_ADDRESS
    andon: str = ""  # "pip": Ray installs andon for each job; else the job's own environment has it
    runtime_env: Mapping[str, Any] = {}
    hub: str = ""  # the andon hub that its nodes report to; empty: this machine's server
    logs: str = ""  # where notes about jobs are; empty: in the state folder


class JobsAndon(Struct, frozen=True):
    """The andon that submits: its paths, which exist also on nodes that share its file system."""

    python: str
    script: str  # that starts a job
    version: str


def read_options(settings: ClusterSettings) -> RayOptions:
    """Returns the options; Invalid names one that is unknown or has a wrong value."""
    known = RayOptions.__struct_fields__
    for name, value in settings.options.items():
        if name not in known:
            raise Invalid(f"there is no option {name[:40]!a}", hint=f"known: {', '.join(known)}")
        if name == "runtime_env":
            if not isinstance(value, Mapping):
                raise Invalid(
                    "runtime_env is not a table", hint='runtime_env = { pip = ["torch"] }'
                )
        elif not isinstance(value, str) or not value.isprintable():
            raise Invalid(f"{name} is not a text of one line", hint=f'{name} = "…"')
    if settings.options.get("andon", "") not in ("", "pip"):
        raise Invalid("andon is neither empty nor pip", hint='andon = "pip"')
    return RayOptions(**settings.options)


ABLE: Final = frozenset({
    Able.ARRAY, Able.ENGINE_OPTIONS, Able.METRICS, Able.MODEL, Able.PREVIEW, Able.STOP_WHEN,
})  # fmt: skip
_ALIKE: Final = "Ray gives out whole GPUs and chooses them"
INSTEAD: Final = {
    Able.AFTER: "wait for it: andon jobs wait",
    Able.BEGIN: "submit it then",
    Able.ARRAY_LIMIT: "leave out %N: Ray has no limit",
    Able.CHECK: "let the command check them: andon.check(), or andon check --quick && …",
    Able.MEMORY: f"{_ALIKE}: use --model",
    Able.SHARED: f"{_ALIKE}: ask for a fraction in a Ray program",
    Able.DEVICES: f"{_ALIKE}: use --model",
    Able.EVERY_GPU: "name a number",
    Able.GPU_RANGE: "name one number",
    Able.MODELS: "name one",
    Able.PRIORITY: "Ray has none",
    Able.RETRIES: "submit it again",
    Able.RETRY_OOM: "submit it again",
    Able.RETRY_LOST: "submit it again",
    Able.CHECKPOINT: "Ray sends SIGTERM, and SIGKILL 3 s later",
    Able.TIMEOUT: "use --for, which counts from its start",
    Able.IMAGE: "see image_uri in runtime_env of [clusters.NAME]",
    Able.PER_GPU: "start the processes in the command itself",
    Able.BIND: "leave it out",
}
"""What Ray does not support, and what to use instead."""


def submission_id(label: str, index: int | None = None) -> str:
    return PREFIX + label + ("" if index is None else f"_{index}")


def label_of(job: str) -> tuple[str | None, int | None]:
    """Returns the label and the index of one of andon's ids; None for another tool's."""
    found = _OURS.fullmatch(job)
    return (None, None) if found is None else (found[1], whole_number(found[2] or ""))


def refuse_long_array(submission: Submission) -> None:
    if len(submission.indices) > MOST_ARRAY:
        raise Invalid(f"Ray does not take arrays of more than {MOST_ARRAY}", hint="submit several")


def request_of(
    submission: Submission,
    options: RayOptions,
    task: ClusterTask,
    installed: JobsAndon,
    node: str | None = None,
    index: int | None = None,
) -> dict[str, Any]:
    """Returns the body that submits one job; `node`: the address of the node that it must be on."""
    job, request = submission.job, submission.job.request
    resources = {f"node:{node}": PIN_SHARE} if node else {}
    if request.models:
        resources[f"accelerator_type:{request.models[0]}"] = PIN_SHARE
    body: dict[str, Any] = {
        "entrypoint": entrypoint(submission, task, installed, index),
        "submission_id": submission_id(submission.label, index),
        "entrypoint_num_gpus": request.least,
        "metadata": {
            "job_name": job.name[:200], "andon_label": submission.label, "andon_user": job.user,
            "andon_gpus": str(request.least), "andon_command": redact(job.argv)[:1000],
            "andon_submitted": f"{job.submitted_at:.3f}",
        },
    }  # fmt: skip
    if job.for_seconds is not None:
        body["metadata"]["andon_for"] = f"{job.for_seconds:.3f}"
    if resources:
        body["entrypoint_resources"] = resources
    environment = dict(options.runtime_env)
    if options.andon:
        pip = environment.get("pip", [])
        environment["pip"] = [
            *(pip if isinstance(pip, list) else []),
            f"andon=={installed.version}",
        ]
    if environment:
        body["runtime_env"] = environment
    return body | _more(submission.options)


def _more(options: tuple[str, ...]) -> dict[str, Any]:
    """Returns engine options in Ray's own form: entrypoint_num_cpus=2."""
    found: dict[str, Any] = {}
    for word in options:
        name, sign, value = word.removeprefix("--").partition("=")
        try:
            number = float(value)
        except ValueError:
            sign, number = "", 0.0
        if not sign or name not in _NUMBERS or not 0 <= number < 1e15:
            raise Invalid(
                f"{word[:60]!a} is not an option for Ray", hint=f"{', '.join(_NUMBERS)}=NUMBER"
            )
        found[name] = _NUMBERS[name](number)
    return found


def entrypoint(
    submission: Submission, task: ClusterTask, installed: JobsAndon, index: int | None = None
) -> str:
    """Returns one line for a shell: the command, recorded by this andon if the node has it, else by
    that of the job's environment, else without a record."""
    job = submission.job
    command = shlex.join(job.argv)
    number = shlex.quote(submission_id(submission.label, index))
    limit = ""
    if job.for_seconds is not None:
        limit = f"timeout --kill-after=10 {job.for_seconds:.3f} "
    place = f"[ -d {shlex.quote(job.folder)} ] && cd {shlex.quote(job.folder)}; "
    array = "" if index is None else f"export ANDON_ARRAY_INDEX={index}; "
    begin = f"umask {job.umask:04o}; {place}{array}set -- {limit}{command}; "
    task_text = shlex.quote(dumps(to_json(task)))
    python, script = shlex.quote(installed.python), shlex.quote(installed.script)
    version = shlex.quote(installed.version)
    check = f"import sys; from andon.version import __version__ as v; sys.exit(v != {version!r})"
    run = "import sys; from andon.app.cluster_job import main; sys.exit(main(sys.argv[1:]))"
    return (
        f"{begin}if [ -x {python} ] && [ -r {script} ]; then "
        f'exec {python} -P {script} {version} {task_text} {number} "$@"; '
        f"elif python -c {shlex.quote(check)} >/dev/null 2>&1; then "
        f'exec python -c {shlex.quote(run)} {task_text} {number} "$@"; fi; '
        'echo "andon: no record of this job: its environment does not have andon '
        f'{installed.version}" >&2; exec "$@"'
    )
