"""Prepares the jobs of a file or a request for the queue."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid
from andon.host.clock import offset
from andon.host.files import expanded
from andon.jobs.rules.file import is_job_word
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.rules.naming import meant, parse_array
from andon.jobs.submitting import here_spec
from andon.model.execution import ContainerOptions
from andon.model.job import JobFacts
from andon.model.job.spec import ArrayPlace, JobSpec
from andon.settings.moments import parse_moment
from andon.work.rules.container_options import options_to_json

Known = Callable[[], Mapping[int, JobFacts]]
"""The jobs that are queued already; read only where a job names others."""


class JobQueue(Struct, frozen=True):
    """The queue that the jobs of a file go to."""

    known: Known
    submit: Callable[[Sequence[JobSpec]], Sequence[JobSpec]]
    same: Callable[[JobSpec], JobSpec | None]  # a job like this one that waits or runs


class FileJobResult(Struct, frozen=True):
    """The result of one job of a file: its first element, or the job that already existed."""

    spec: JobSpec
    is_new: bool = True


def queue_all(
    jobs: Sequence[FileJob], base: Path, queue: JobQueue, simulate: int | None = None
) -> list[FileJobResult]:
    """Queue them one after the other, as a later one may name an earlier one."""
    named: dict[str, int] = {}
    out: list[FileJobResult] = []
    for job in jobs:
        specs = specs_of(job, base, named, queue.known, simulate)
        same = queue.same(specs[0]) if job.unique else None
        out.append(
            FileJobResult(queue.submit(specs)[0]) if same is None else FileJobResult(same, False)
        )
        named[job.name] = out[-1].spec.number
    return out


def specs_of(
    job: FileJob, base: Path, named: Mapping[str, int], known: Known, simulate: int | None = None
) -> list[JobSpec]:
    """Returns the specification of a job, or one for each index of an array."""
    place = base / expanded(job.folder)
    if not place.is_dir():
        raise Invalid(f"{place} is not a folder", hint="folder is relative to the job file")
    spec = here_spec(
        job.command,
        job.request,
        name=job.name,
        folder=str(place.resolve()),
        environment={**os.environ, **job.environment},
        simulate=job.simulate if simulate is None else simulate,
        for_seconds=job.for_seconds,
        bind=job.bind,
        grace_seconds=job.grace_seconds,
        timeout_seconds=job.timeout_seconds,
        after=_numbers(job.after, named, known),
        after_any=_numbers(job.after_any, named, known),
        begin_at=_begin(job.begin),
        retries=job.retries,
        retry_lost=job.retry_lost,
        retry_oom=job.retry_oom,
        checkpoint=job.checkpoint,
        notify=job.notify,
        unique=job.unique,
        tags=job.tags,
        group=job.group or None,
        params=job.params,
        container=options_to_json(ContainerOptions(job.image)) if job.image else {},
    )
    if not job.array:
        return [spec]
    indices, limit = parse_array(job.array)
    return [replace(spec, array=ArrayPlace(0, index, len(indices), limit)) for index in indices]


def _begin(text: str) -> float | None:
    try:
        return parse_moment(text, time.time(), offset(), future=True) if text else None
    except ValueError as wrong:
        raise Invalid(f"begin: {wrong}") from wrong


def _numbers(words: Sequence[str], named: Mapping[str, int], known: Known) -> tuple[int, ...]:
    """A name means an earlier job of the file, and all elements where that is an array; in a dry
    run those have no numbers yet, and nothing is made of them."""
    texts = [str(named[word]) if word in named else word for word in words]
    texts = [text for text in texts if is_job_word(text)]
    if not texts:
        return ()
    jobs = known()
    return tuple(dict.fromkeys(number for text in texts for number in meant(text, jobs)))
