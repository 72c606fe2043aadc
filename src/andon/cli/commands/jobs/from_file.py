"""`andon submit job.toml`: queues the jobs of a file."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from andon.cli.terminal import Choices, Terminal
from andon.errors import Invalid

if TYPE_CHECKING:
    from andon.jobs.rules.file_keys import FileJob
    from andon.model.job import JobFacts


def submit_file(
    choices: Choices, path: str, asked: Mapping[str, Any], *, dry_run: bool, wait: bool
) -> int:
    """Queues the jobs one after the other: a later one may name an earlier one in `after`."""
    from andon.cli.commands.jobs.submit import possible, sampled, say_same
    from andon.jobs.file import JobQueue, queue_all, read_job_file, specs_of

    _refuse_options(asked)
    jobs = read_job_file(path)
    base, simulate = Path(path).resolve().parent, choices.simulate
    sample = cache(lambda: sampled(choices))
    checked = [possible(choices, specs_of(job, base, {}, _known, simulate), sample) for job in jobs]
    _check_images(jobs)
    if dry_run:
        from andon.cli.commands.jobs.submit import show_dry

        show_dry(checked)
        return 0
    from andon.jobs.folder import open_jobs_folder
    from andon.jobs.queue import refuse_too_many, same_as, submit

    refuse_too_many(open_jobs_folder(), sum(map(len, checked)))
    queue = JobQueue(_known, lambda specs: submit(possible(choices, specs, sample)), same_as)
    made = queue_all(jobs, base, queue, simulate)
    labels = [one.spec.label.partition("_")[0] for one in made]
    _say(choices, labels, [one.spec.name for one in made])
    for filed in made:
        if not filed.is_new:
            say_same(choices, filed.spec.label)
    return _waited(choices, labels) if wait else 0


def _known() -> "Mapping[int, JobFacts]":
    from andon.jobs.queue import Queue

    return Queue().jobs


def _refuse_options(asked: Mapping[str, Any]) -> None:
    """Refuses options that change the file; --simulate, --dry-run and --wait are allowed."""
    context = click.get_current_context()
    given = [
        name
        for name in asked
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        option = next(p for p in context.command.params if p.name == given[0]).opts[0]
        raise Invalid(f"{option} cannot be combined with a job file", hint="write it into the file")


def _check_images(jobs: "Sequence[FileJob]") -> None:
    """Checks that containers can be started here, each image once."""
    from andon.cli.commands.share.container_options import contained
    from andon.model.execution import ContainerOptions

    for image, command in {job.image: job.command for job in jobs if job.image}.items():
        contained(ContainerOptions(image), command)


def _say(choices: Choices, labels: Sequence[str], names: Sequence[str]) -> None:
    terminal = Terminal.of(choices)
    if not terminal.live:
        terminal.show("".join(f"{label}\n" for label in labels))
        return
    from andon.cli.show.text import say
    from andon.cli.terminal import notice
    from andon.jobs.log_out import log_out_line

    for label, name in zip(labels, names, strict=True):
        terminal.say(say(f"job {label}: {name}"))
    notice(log_out_line(), choices)


def _waited(choices: Choices, labels: Sequence[str]) -> int:
    from andon.cli.commands.jobs.common import going_on
    from andon.cli.commands.jobs.submit import wait_for_end

    with going_on(choices, labels):
        return max(wait_for_end(choices, label) for label in labels)
