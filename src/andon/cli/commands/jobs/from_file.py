"""`andon submit job.toml`: queues the jobs of a file."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from andon.cli.commands.jobs.clusters import refuse_unasked, target_of
from andon.cli.commands.jobs.common import going_on
from andon.cli.commands.jobs.elsewhere import preview_there, say_submitted, waited_there
from andon.cli.commands.jobs.submitting import possible, sampled, say_same, show_dry, wait_for_end
from andon.cli.commands.jobs.sweep import say_group
from andon.cli.commands.share.container_options import contained
from andon.cli.show.text import say
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid
from andon.jobs.clusters.asking import OpenCluster
from andon.jobs.clusters.submitting import submission_of, submit_there
from andon.jobs.file import JobQueue, queue_all, read_job_file, specs_of
from andon.jobs.folder import open_jobs_folder
from andon.jobs.log_out import log_out_line
from andon.jobs.metrics import refuse_slow
from andon.jobs.queue import Queue, refuse_too_many, same_as, submit
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.rules.parameters import refuse_many
from andon.model.execution import ContainerOptions
from andon.model.job.cluster import Submission
from andon.model.job.facts import JobFacts


def submit_file(
    choices: Choices, path: str, asked: Mapping[str, Any], *, dry_run: bool, wait: bool
) -> int:
    """Queues the jobs one after the other: a later one may name an earlier one in `after`. Those
    for a cluster come last."""
    _refuse_options(asked)
    every = read_job_file(path)
    for job in every:
        refuse_many(len(job.each), asked["yes"])
        refuse_slow(job.metrics)
    base, simulate = Path(path).resolve().parent, choices.simulate
    targets = [target_of(choices, {"on": job.on or None, "engine_options": ()}) for job in every]
    jobs = [job for job, target in zip(every, targets, strict=True) if target is None]
    pairs = zip(every, targets, strict=True)
    there = _Elsewhere(base, [(job, target) for job, target in pairs if target is not None])
    there.check(jobs)
    refuse_unasked(choices, [job.simulate for job in jobs])
    sample = cache(lambda: sampled(choices))
    checked = [possible(choices, specs_of(job, base, {}, _known, simulate), sample) for job in jobs]
    _check_images(jobs)
    if dry_run:
        if checked:
            show_dry(checked)
        there.preview(choices)
        return 0

    if jobs:
        refuse_too_many(open_jobs_folder(), sum(map(len, checked)))
    queue = JobQueue(_known, lambda specs: submit(possible(choices, specs, sample)), same_as)
    made = queue_all(jobs, base, queue, simulate)
    plain = [one for one in made if one.spec.array is not None or len(one.specs) == 1]
    labels = [one.spec.label.partition("_")[0] for one in plain]
    if labels:
        _say(choices, labels, [one.spec.name for one in plain])
    for swept in (one for one in made if one not in plain):
        say_group(choices, swept.specs)
        labels += [spec.label for spec in swept.specs]
    for filed in made:
        if not filed.is_new:
            say_same(choices, filed.spec.label)
    submitted = there.submit(choices)
    if not wait:
        return 0
    code = _waited(choices, labels) if labels else 0
    return max([code, *(there.waited(choices, *one) for one in submitted)])


class _Elsewhere:
    """The jobs of a file that run on clusters, each with its cluster."""

    def __init__(self, base: Path, jobs: Sequence[tuple[FileJob, OpenCluster]]) -> None:
        self._base, self._jobs = base, jobs

    def check(self, here: Sequence[FileJob]) -> None:
        """Refuses what cannot be submitted, before anything is."""
        names = {job.name for job, _ in self._jobs if job.name}
        for job in here:
            if wrong := names & {*job.after, *job.after_any}:
                raise Invalid(
                    f"{job.name or 'a job'} runs here and cannot wait for {min(wrong)}, which runs "
                    "on a cluster"
                )
        named: dict[str, str] = {}
        for job, cluster in self._jobs:
            self._submissions(job, cluster, named)
            named[job.name] = f"{cluster.name}:?"

    def preview(self, choices: Choices) -> None:
        for job, cluster in self._jobs:
            named = {other.name: f"{cluster.name}:?" for other, _ in self._jobs}
            for submission in self._submissions(job, cluster, named):
                preview_there(choices, cluster, submission)

    def submit(self, choices: Choices) -> list[tuple[OpenCluster, str]]:
        """Submits the jobs one after the other; returns where each is and what it is called."""
        named: dict[str, str] = {}
        out = []
        for job, cluster in self._jobs:
            for submission in self._submissions(job, cluster, named):
                label = submit_there(cluster, submission)
                say_submitted(choices, cluster, label, submission)
                out.append((cluster, label))
            named[job.name] = label
        return out

    def waited(self, choices: Choices, cluster: OpenCluster, label: str) -> int:
        return waited_there(choices, cluster, label)

    def _submissions(
        self, job: FileJob, cluster: OpenCluster, named: Mapping[str, str]
    ) -> list[Submission]:

        plain = replace(job, after=(), after_any=(), array="")
        after = [named.get(word, word) for word in job.after]
        after_any = [named.get(word, word) for word in job.after_any]
        return [
            submission_of(cluster, spec, job.engine_options, after, after_any, job.array)
            for spec in specs_of(plain, self._base, {}, _known)
        ]


def _known() -> Mapping[int, JobFacts]:
    return Queue().jobs


def _refuse_options(asked: Mapping[str, Any]) -> None:
    """Refuses options that change the file; --simulate, --dry-run, --wait and --yes are allowed."""
    context = click.get_current_context()
    given = [
        name
        for name in asked
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


def _say(choices: Choices, labels: Sequence[str], names: Sequence[str]) -> None:
    terminal = Terminal.of(choices)
    if not terminal.live:
        terminal.show("".join(f"{label}\n" for label in labels))
        return

    for label, name in zip(labels, names, strict=True):
        terminal.say(say(f"job {label}: {name}"))
    notice(log_out_line(), choices)


def _waited(choices: Choices, labels: Sequence[str]) -> int:
    with going_on(choices, labels):
        return wait_for_end(choices, *labels)
