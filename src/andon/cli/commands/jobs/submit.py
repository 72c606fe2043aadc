"""`andon submit`: queues a command that runs as soon as its devices are free."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from andon.cli.commands.completing import complete_command
from andon.cli.commands.jobs.desks import queue_desk, refuse_unstartable, sampled
from andon.cli.commands.jobs.on import (
    desk_of,
    on_options,
    per_gpu_option,
    sync_option,
    synced,
)
from andon.cli.commands.share.container_options import (
    contained,
    container_from,
    container_options,
)
from andon.cli.device_request import (
    priority_option,
    refuse_bind,
    request_options,
    request_to_take,
)
from andon.cli.options import JOB_FILES, F, chosen, duration, lasting, shared, whole, with_options
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid
from andon.jobs.git_commit import GitCommitLookup
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.job_options import JOB_OPTIONS, JobOption
from andon.jobs.submitting import local_spec, new_submission
from andon.model.codec import to_json
from andon.model.job import LOCAL
from andon.model.job.desk import Accepted, Submission
from andon.model.job.spec import CHECKPOINT_SECONDS, Checkpoint, JobSpec, NotifyWhen
from andon.units import sh

if TYPE_CHECKING:
    from andon.jobs.clusters.desk import ClusterDesk
    from andon.model.device import Snapshot
    from andon.model.execution import ContainerOptions

MOST_RETRIES = 1000
USUAL_SIGNS = ("dev/nvidiactl", "dev/dxg")
"""Of a GPU; most machines have one of them."""


def is_job_file(word: str) -> bool:
    """Whether the argument names a job file; defined here because `submit` must import little."""
    return word.lower().endswith(JOB_FILES)


def retries(text: str) -> int:
    return whole(text, MOST_RETRIES)


def begin_moment(text: str) -> float:
    """Parses the value of --begin; defined here because `submit` must import little."""
    from andon.cli.moments import coming_moment

    return coming_moment(text)


def checkpoint(text: str) -> Checkpoint:
    """Parses `USR1@60s`: a signal, and how long before the end it is sent."""
    import signal

    name, _, before = text.partition("@")
    name = name.upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__ or name in ("KILL", "STOP"):
        raise click.BadParameter(f"{name[:40]!r} is not a signal that a job can handle; use USR1")
    return Checkpoint(name, lasting(before) if before else CHECKPOINT_SECONDS)


CLICK_TYPES: dict[str, dict[str, Any]] = {
    "checkpoint": {"type": checkpoint},
    "combinations": {"type": whole},
    "flag": {"is_flag": True},
    "grace": {"type": duration},
    "lasting": {"type": lasting},
    "metrics": {"multiple": True},
    "moment": {"type": begin_moment},
    "notify": {"type": click.Choice([one.value for one in NotifyWhen])},
    "number": {"type": int, "default": 0},
    "parameters": {"multiple": True},
    "retries": {"type": retries},
    "timeout": {"type": duration},
    "words": {"multiple": True},
}
"""How click reads each kind of the table."""


def job_options(command: F) -> F:
    """Adds the options of a job."""
    return with_options(command, *(_option(row) for row in JOB_OPTIONS if row.help))


def _option(row: JobOption) -> Callable[[F], F]:
    parts = (*filter(None, (row.word, row.short)), row.name)
    return click.option(
        *parts, metavar=row.metavar or None, help=row.help, **CLICK_TYPES.get(row.kind, {})
    )


@click.command(context_settings={"allow_interspersed_args": False})
@request_options
@priority_option
@job_options
@click.option("--yes", is_flag=True, help="Queue more than 1,000 jobs.")
@click.option("--dry-run", is_flag=True, help="Check everything and queue nothing.")
@click.option("--wait", is_flag=True, help="Wait for the end; the exit code is the job's.")
@on_options
@click.option("--kind", metavar="KIND", help="With --on k8s: job, deployment, inferenceservice.")
@per_gpu_option
@sync_option
@container_options
@click.argument(
    "command", nargs=-1, type=click.UNPROCESSED, required=True, shell_complete=complete_command
)
@shared
def submit(command: tuple[str, ...], dry_run: bool, wait: bool, **options: Any) -> int:
    """Queue a command: andon submit --gpus 2 -- python train.py, or andon submit job.toml

    It starts as soon as GPUs are free, in this folder and environment, and keeps running when you
    log out if this machine allows it. If standard output is not a terminal, only the job's number
    is printed. `andon jobs` lists jobs, `andon logs @` shows the output of the last one.
    """
    choices = chosen()
    if len(command) == 1 and is_job_file(command[0]):
        from andon.cli.commands.jobs.from_file import file_batches

        batches = file_batches(choices, command[0], options)
    else:
        _refuse_arguments_after_a_file(command)
        desk = desk_of(choices, options, partial(queue_desk, choices))
        batches = [(desk, _jobs(choices, desk, command, options))]
    return submit_all(choices, batches, dry_run=dry_run, wait=wait)


def submit_all(
    choices: Choices,
    batches: "Sequence[tuple[QueueDesk | ClusterDesk, Sequence[Submission]]]",
    *,
    dry_run: bool,
    wait: bool,
) -> int:
    """Submits jobs, shows them and waits for them. If one desk refuses a job, none is submitted."""
    for desk, jobs in batches:
        refuse(desk, jobs)
    if dry_run:
        from andon.cli.commands.jobs.submitted import show_dry

        for desk, jobs in batches:
            show_dry(choices, desk.submit(jobs, dry=True))
        return 0
    if len(batches) > 1:
        for desk, jobs in batches:
            desk.submit(jobs, dry=True)
    made: list[tuple[QueueDesk | ClusterDesk, Sequence[Accepted]]] = []
    for desk, jobs in batches:
        made.append((desk, desk.submit(jobs)))
        show_accepted(choices, made[-1][1])  # before the next one, which may fail
    if not wait:
        return 0
    from andon.cli.commands.jobs.common import notice_if_interrupted, wait_for_all

    every = [one for _, accepted in made for one in accepted]
    names = dict.fromkeys(one.submission.job.group or one.label for one in every)
    with notice_if_interrupted(choices, list(names)):
        return max(
            wait_for_all(
                desk, [one.label for one in accepted], on_failure=partial(notice, choices=choices)
            )
            for desk, accepted in made
        )


def _jobs(
    choices: Choices,
    desk: "QueueDesk | ClusterDesk",
    command: tuple[str, ...],
    options: dict[str, Any],
) -> list[Submission]:
    """Returns the job, an array of them, or one for each combination of parameters."""
    image = container_from(options)
    if desk.name == LOCAL:
        if choices.replay is not None:
            raise Invalid("the devices of a recorded file cannot be used by jobs")
        refuse_unstartable(choices)
        refuse_bind(options["bind"], image)
        contained(image, command)
    indices, limit = _array(options["array"])
    kind = [f"kind={options['kind']}"] if options["kind"] else []
    spec = _spec(choices, command, options, image)
    more: dict[str, Any] = {
        "after": _names(options["after"]),
        "after_any": _names(options["after_any"]),
        "indices": indices,
        "limit": limit,
        "options": (*options["engine_options"], *kind, *synced(options)),
        "per_gpu": options["processes"] or 0,
    }
    specs = [spec]
    if options["parameters"]:
        from andon.cli.commands.jobs.sweep import parameters_of, swept

        specs = swept(spec, parameters_of(options), options)
    if desk.name == LOCAL and image is None:
        _warn_if_missing(choices, specs[0].argv)
    return [new_submission(one, **more) for one in specs]


def _spec(
    choices: Choices,
    command: tuple[str, ...],
    options: dict[str, Any],
    image: "ContainerOptions | None",
) -> JobSpec:
    commit = GitCommitLookup()
    given = {row.name: options[row.name] for row in JOB_OPTIONS if row.of_spec and row.help}
    fields = {name: value for name, value in given.items() if value is not None} | _figures(options)
    fields["name"] = fields.get("name", "")[:200]

    return local_spec(
        command,
        request_to_take(options, choices),
        commit=commit,
        simulate=choices.simulate,
        begin_at=options["begin"],
        container={} if image is None else to_json(image),
        **fields,
    )


def _figures(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the metric patterns of the job, and when to stop it because of them."""
    if not options["metrics"] and options["stop_when"] is None:
        return {"metrics": {}}
    from andon.jobs.metrics import refuse_slow
    from andon.jobs.rules.metrics import parse_metric, parse_stop

    metrics = dict(map(parse_metric, options["metrics"]))
    refuse_slow(metrics)
    if options["stop_when"] is not None:
        parse_stop(options["stop_when"])
    return {"metrics": metrics, "stop_when": options["stop_when"]}


def _array(given: str | None) -> tuple[tuple[int, ...], int | None]:
    if given is None:
        return (), None
    from andon.jobs.rules.naming import parse_array

    return parse_array(given)


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the jobs that were named, with commas or one by one."""
    names = (word.strip() for part in given for word in part.split(","))
    return tuple(dict.fromkeys(word for word in names if word))


def show_accepted(choices: Choices, accepted: "Sequence[Accepted]") -> None:
    terminal = Terminal.of(choices)
    for one in accepted:
        if not one.is_new:
            notice(f"job {one.label} is the same; nothing was queued", choices)
        if one.note:
            notice(f"{one.label}: {one.note}", choices)
    if terminal.live:
        from andon.cli.commands.jobs.submitted import show_batches

        show_batches(choices, accepted)
    else:
        terminal.show("".join(f"{one.label}\n" for one in accepted))
    first = accepted[0]
    if not first.is_new or first.submission.job.simulate is not None or ":" in first.label:
        return
    if (why := _no_gpu(lambda: sampled(choices))) is not None:
        notice(f"it waits: {why}; to use simulated GPUs: andon submit --simulate 4 …", choices)


def _refuse_arguments_after_a_file(command: tuple[str, ...]) -> None:
    """Refuses options after a job file: they would be part of a command called job.toml."""
    if is_job_file(command[0]) and not _can_start(command[0]):
        raise Invalid(
            f"{command[0]} is a job file, and nothing may follow it: {command[1]}",
            hint=f"options come before the file: andon submit --dry-run {sh(command[0])}",
        )


def _warn_if_missing(choices: Choices, command: tuple[str, ...]) -> None:
    """Prints a notice if the program is missing; an earlier job may still create it."""
    if _can_start(command[0]):
        return
    from andon.work.preparing import CannotStart, find

    try:
        find(command)
    except CannotStart as missing:
        hint = f" ({missing.hint})" if missing.hint else ""
        notice(f"{missing.reason}{hint}; the job fails if that is still so at its start", choices)


def _can_start(name: str) -> bool:
    """Whether the program can be started now; avoids shutil, whose import takes longer."""
    folders = [""] if os.sep in name else os.get_exec_path()
    paths = [f"{folder}/{name}" if folder else name for folder in folders]
    return any(os.access(path, os.X_OK) and not os.path.isdir(path) for path in paths)  # noqa: PTH112


def _no_gpu(sample: "Callable[[], Snapshot]", root: str = "/") -> str | None:
    """Returns why no job can start here; None if there is a GPU. The driver is queried only if no
    file shows a GPU: in WSL and in containers it may still find one."""
    if any(os.path.exists(root + sign) for sign in USUAL_SIGNS):  # noqa: PTH110 - before the table of all vendors is imported
        return None

    from andon.drivers.shared.presence import signs

    if signs(Path(root)):
        return None
    from andon.leases.rules.eligibility import no_gpu

    found = sample()
    return None if found.devices else no_gpu(found.faults).reason
