"""Reads a job file, and prepares the jobs of a file or a request for the queue."""

import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.host.clock import offset
from andon.host.files import expanded, read_regular
from andon.host.interpreter import module_environment, process_command
from andon.jobs.rules.file import is_job_word, jobs_in
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.rules.file_lines import KeyPath, Lines, json_lines, toml_lines, without_comments
from andon.jobs.rules.model_file import is_model_file, model_jobs_in
from andon.jobs.rules.naming import meant, parse_array
from andon.jobs.submitting import here_spec
from andon.model.execution import ContainerOptions
from andon.model.job.facts import JobFacts
from andon.model.job.spec import ArrayPlace, JobSpec, without_own_secrets
from andon.settings.moments import parse_moment
from andon.work.containers.rules.options import options_to_json

# Reads a job file: TOML or JSON, and YAML where its parser is installed.

LARGEST_BYTES = 4 << 20


def read_job_file(path: str) -> tuple[FileJob, ...]:
    """Reads the jobs of a file; raises Invalid with every mistake in it."""
    text = _text(path)
    document, lines = _parsed(path, text)
    jobs = model_jobs_in(document, path, lines) if is_model_file(document) else None
    return jobs_in(document, path, lines) if jobs is None else jobs


def _text(path: str) -> str:
    try:
        return read_regular(path, LARGEST_BYTES, follow=True).decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise Invalid(f"{path}: not UTF-8 text", hint="save it as UTF-8") from exc
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise Invalid(
            f"{path} cannot be read: {reason}",
            hint="to run a command of that name: andon submit -- COMMAND",
        ) from exc


def _parsed(path: str, text: str) -> tuple[Any, Lines]:
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".toml":
            return tomllib.loads(text), toml_lines(text)
        if suffix in (".json", ".jsonc"):
            plain = without_comments(text)
            return json.loads(plain), json_lines(plain)
    except json.JSONDecodeError as exc:
        raise Invalid(f"{path}:{exc.lineno}: not valid JSON: {exc.msg}") from exc
    except (ValueError, RecursionError) as exc:
        line = re.search(r"at line (\d+)", str(exc))
        at = f":{line[1]}" if line else ""
        kind = suffix[1:].upper()
        raise Invalid(f"{path}{at}: not valid {kind}: {str(exc) or 'too deep'}") from exc
    return _yaml(path, text)


def _yaml(path: str, text: str) -> tuple[Any, Lines]:
    try:
        yaml: Any = import_module("yaml")
    except ImportError as exc:
        raise Unavailable(
            f"{path} is YAML, whose parser is not installed",
            hint="pip install 'andon[yaml]', or use TOML or JSON",
        ) from exc
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[KeyPath, int] = {}
        if node is not None:
            _yaml_lines(node, (), lines)
        return yaml.safe_load(text), lines
    except yaml.MarkedYAMLError as exc:
        at = "" if exc.problem_mark is None else f":{exc.problem_mark.line + 1}"
        raise Invalid(f"{path}{at}: not valid YAML: {exc.problem}") from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise Invalid(f"{path}: not valid YAML: {str(exc)[:200]}") from exc


def _yaml_lines(node: Any, path: KeyPath, lines: dict[KeyPath, int]) -> None:
    """Notes the line of each path once: a bomb of aliases is not unfolded."""
    if len(lines) > 100_000 or len(path) > 20:
        return
    if node.id == "mapping":
        for key, value in node.value:
            place = (*path, str(key.value))
            lines.setdefault(place, key.start_mark.line + 1)
            _yaml_lines(value, place, lines)
    elif node.id == "sequence":
        for index, value in enumerate(node.value):
            place = (*path, index)
            lines.setdefault(place, value.start_mark.line + 1)
            _yaml_lines(value, place, lines)


# Prepares the jobs of a file or a request for the queue.

Known = Callable[[], Mapping[int, JobFacts]]
"""The jobs that are queued already; read only where a job names others."""


class JobQueue(Struct, frozen=True):
    """The queue that the jobs of a file go to."""

    known: Known
    submit: Callable[[Sequence[JobSpec]], Sequence[JobSpec]]
    same: Callable[[JobSpec], JobSpec | None]  # a job like this one that waits or runs


class FileJobResult(Struct, frozen=True):
    """The jobs that one job of a file became: the elements of an array, the combinations of a
    sweep, or the job that already existed."""

    specs: Sequence[JobSpec]
    is_new: bool = True

    @property
    def spec(self) -> JobSpec:
        return self.specs[0]


def queue_all(
    jobs: Sequence[FileJob], base: Path, queue: JobQueue, simulate: int | None = None
) -> list[FileJobResult]:
    """Queues jobs one after the other: a later one may name an earlier one."""
    named: dict[str, Sequence[int]] = {}
    out: list[FileJobResult] = []
    for job in jobs:
        specs = specs_of(job, base, named, queue.known, simulate)
        same = queue.same(specs[0]) if job.unique else None
        out.append(
            FileJobResult(queue.submit(specs)) if same is None else FileJobResult([same], False)
        )
        named[job.name] = [spec.number for spec in out[-1].specs]
    return out


def specs_of(
    job: FileJob,
    base: Path,
    named: Mapping[str, Sequence[int]],
    known: Known,
    simulate: int | None = None,
) -> list[JobSpec]:
    """Returns the specification of a job, or one for each index of an array or combination."""
    place = base / expanded(job.folder)
    if not place.is_dir():
        raise Invalid(f"{place} is not a folder", hint="folder is relative to the job file")
    spec = here_spec(
        job.command,
        job.request,
        name=job.name,
        folder=str(place.resolve()),
        environment={**without_own_secrets(os.environ), **job.environment},
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
        metrics=job.metrics,
        stop_when=job.stop_when,
        container=options_to_json(ContainerOptions(job.image)) if job.image else {},
    )
    if job.each:
        made = [
            replace(spec, argv=one.command, params=one.params, request=one.request)
            for one in job.each
        ]
        return made if job.server is None else [_trial(job, one) for one in made]
    if job.server is not None:
        return [_trial(job, spec)]
    if not job.array:
        return [spec]
    indices, limit = parse_array(job.array)
    return [replace(spec, array=ArrayPlace(0, index, len(indices), limit)) for index in indices]


def _trial(job: FileJob, spec: JobSpec) -> JobSpec:
    """Returns the job with a command that starts its server and drives the loads."""
    assert job.server is not None
    trial = replace(
        job.server,
        command=spec.argv if job.server.command else (),
        loads=job.loads,
        name=spec.name,
        group=spec.group or spec.name,
        params=spec.params,
        tags=spec.tags,
        simulate=spec.simulate,
    )
    words = process_command("server-trial", msgspec.json.encode(trial).decode())
    environment = module_environment(spec.environment)
    return replace(spec, argv=tuple(words), group=trial.group, environment=environment)


def _begin(text: str) -> float | None:
    try:
        return parse_moment(text, time.time(), offset(), future=True) if text else None
    except ValueError as wrong:
        raise Invalid(f"begin: {wrong}") from wrong


def _numbers(
    words: Sequence[str], named: Mapping[str, Sequence[int]], known: Known
) -> tuple[int, ...]:
    """Returns the numbers of jobs. A name means an earlier job of the file with all that it
    became; in a dry run those have no numbers yet and give none."""
    found = [number for word in words for number in named.get(word, ())]
    texts = [word for word in words if word not in named and is_job_word(word)]
    if texts:
        jobs = known()
        found += [number for text in texts for number in meant(text, jobs)]
    return tuple(dict.fromkeys(found))
