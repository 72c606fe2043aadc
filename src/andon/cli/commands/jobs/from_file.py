"""`andon submit job.toml`: queues the jobs of a file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from andon.core.jobs.job_file_keys import FileJob
    from andon.model.job_spec import JobSpec


def submit_file(
    choices: Choices, path: str, asked: Mapping[str, Any], *, dry_run: bool, wait: bool
) -> int:
    """Queue them one after the other: a later one may name an earlier one in `after`."""
    from andon.engine.jobs.job_files import read_job_file

    _refuse_options(asked)
    jobs = read_job_file(path)
    _refuse_images(path, jobs)
    folder = Path(path).resolve().parent
    if dry_run:
        from andon.cli.commands.jobs.submit import show_dry

        for job in jobs:
            show_dry(_specs(choices, job, folder, {}))
        return 0
    from andon.app.jobs import refuse_too_many
    from andon.app.jobs import submit as queue
    from andon.engine.jobs.folder import open_jobs_folder

    refuse_too_many(open_jobs_folder(), len(jobs))
    named: dict[str, int] = {}
    labels: list[str] = []
    for job in jobs:
        made = queue(_specs(choices, job, folder, named))
        named[job.name] = made[0].number
        labels.append(made[0].label.partition("_")[0])
    _say(choices, labels, jobs)
    return _waited(choices, labels) if wait else 0


def _refuse_options(asked: Mapping[str, Any]) -> None:
    """What a file says is not changed from outside; --simulate, --dry-run and --wait may be."""
    context = click.get_current_context()
    given = [
        name
        for name in asked
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        option = next(p for p in context.command.params if p.name == given[0]).opts[0]
        raise Invalid(f"{option} cannot stand beside a job file", hint="write it into the file")


def _refuse_images(path: str, jobs: "Sequence[FileJob]") -> None:
    images = [job.image for job in jobs if job.image]
    if images:
        raise Unavailable(
            f"{path}: jobs in a container image ({images[0]}) cannot be run by this andon yet",
            hint="leave out image and deployment_mode, and name a command",
        )


def _specs(
    choices: Choices, job: "FileJob", base: Path, named: Mapping[str, int]
) -> "list[JobSpec]":
    from andon.cli.commands.jobs.submit import begin_moment
    from andon.core.jobs.naming import parse_array
    from andon.engine.jobs.submitting import here_spec
    from andon.model.job_spec import ArrayPlace

    place = base / Path(job.folder).expanduser()
    if not place.is_dir():
        raise Invalid(f"{place} is not a folder", hint="folder is relative to the job file")
    if job.checkpoint is not None and job.for_seconds is None:
        raise Invalid("checkpoint needs for: its signal comes before that ends")
    spec = here_spec(
        job.command,
        job.request,
        name=job.name,
        folder=str(place.resolve()),
        environment={**os.environ, **job.environment},
        simulate=choices.simulate if choices.simulate is not None else job.simulate,
        for_seconds=job.for_seconds,
        grace_seconds=job.grace_seconds,
        timeout_seconds=job.timeout_seconds,
        after=_numbers(job.after, named),
        after_any=_numbers(job.after_any, named),
        begin_at=begin_moment(job.begin) if job.begin else None,
        retries=job.retries,
        retry_lost=job.retry_lost,
        retry_oom=job.retry_oom,
        checkpoint=job.checkpoint,
        notify=job.notify,
        unique=job.unique,
        tags=job.tags,
    )
    if not job.array:
        return [spec]
    indices, limit = parse_array(job.array)
    return [replace(spec, array=ArrayPlace(0, index, len(indices), limit)) for index in indices]


def _numbers(words: Sequence[str], named: Mapping[str, int]) -> tuple[int, ...]:
    """A name means an earlier job of the file, and all elements where that is an array."""
    if not words:
        return ()
    from andon.app.jobs import Queue
    from andon.core.jobs.naming import meant

    jobs = Queue().jobs
    texts = [str(named[word]) if word in named else word for word in words]
    known = [text for text in texts if text in map(str, named.values()) or text]
    try:
        found = [number for text in known for number in meant(text, jobs)]
    except Invalid:
        if named:
            raise
        return ()  # a dry run: the earlier jobs of the file have no numbers
    return tuple(dict.fromkeys(found))


def _say(choices: Choices, labels: Sequence[str], jobs: "Sequence[FileJob]") -> None:
    terminal = Terminal.of(choices)
    if not terminal.live:
        terminal.show("".join(f"{label}\n" for label in labels))
        return
    from andon.cli.terminal import notice
    from andon.host.inspection.log_out import log_out_line

    for label, job in zip(labels, jobs, strict=True):
        terminal.show(f"job {label}: {job.name or job.command[0]}\n")
    notice(log_out_line(), choices)


def _waited(choices: Choices, labels: Sequence[str]) -> int:
    from andon.cli.commands.jobs.submit import wait_for_end

    return max(wait_for_end(choices, label) for label in labels)
