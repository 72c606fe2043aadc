"""`andon submit job.toml`: the jobs of a file, for the desk that each names."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from andon.cli.commands.jobs.desks import queue_desk, refuse_unstartable
from andon.cli.commands.jobs.on import desk_of
from andon.cli.commands.share.container_options import contained
from andon.cli.terminal import Choices
from andon.errors import Invalid
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.file import read_job_file, submissions_of
from andon.jobs.metrics import refuse_slow
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.rules.parameters import refuse_many
from andon.model.execution import ContainerOptions
from andon.model.job import LOCAL
from andon.model.job.desk import Submission

Batch = tuple[QueueDesk | ClusterDesk, list[Submission]]


def file_batches(choices: Choices, path: str, options: Mapping[str, Any]) -> list[Batch]:
    """Returns the jobs of each desk, in their order; those for this machine first."""
    _refuse_options(options)
    every = read_job_file(path)
    queue = partial(queue_desk, choices)
    desk_on = cache(lambda on: desk_of(choices, {"on": on or None}, queue))
    for job in every:
        refuse_many(len(job.each), options["yes"])
        refuse_slow(job.spec.metrics)
    local = [job for job in every if desk_on(job.on).name == LOCAL]
    _refuse_waiting_for_clusters(local, every)
    refuse_unstartable(choices, [job.spec.simulate for job in local])
    base, found = Path(path).resolve().parent, dict[str, Batch]()
    for job in sorted(every, key=lambda one: desk_on(one.on).name != LOCAL):
        desk = desk_on(job.on)
        batch = found.setdefault(desk.name, (desk, []))[1]
        batch += submissions_of(job, base, choices.simulate)
    _check_images(local)
    return list(found.values())


def _refuse_waiting_for_clusters(local: Sequence[FileJob], every: Sequence[FileJob]) -> None:
    names = {job.spec.name for job in every if job.spec.name and job not in local}
    for job in local:
        if wrong := names & {*job.after, *job.after_any}:
            raise Invalid(
                f"{job.spec.name or 'a job'} runs here and cannot wait for {min(wrong)}, "
                "which runs on a cluster"
            )


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Refuses options that change the file; --simulate, --dry-run, --wait and --yes are allowed."""
    context = click.get_current_context()
    given = [
        name
        for name in options
        if name != "yes"
        and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        option = next(p for p in context.command.params if p.name == given[0]).opts[0]
        raise Invalid(f"{option} cannot be combined with a job file", hint="write it into the file")


def _check_images(jobs: Sequence[FileJob]) -> None:
    """Checks that containers can be started here, each image once."""
    for image, command in {job.image: job.command for job in jobs if job.image}.items():
        contained(ContainerOptions(image), command)
