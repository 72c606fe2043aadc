"""Reads a job file, and makes submissions of the jobs of a file or a request."""

import json
import os
import re
import time
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.host.clock import offset
from andon.host.files import expanded, read_regular
from andon.host.interpreter import module_environment, process_command
from andon.jobs.rules.file import jobs_in
from andon.jobs.rules.file_keys import SPEC_NAMES, FileJob
from andon.jobs.rules.file_lines import KeyPath, Lines, json_lines, toml_lines, without_comments
from andon.jobs.rules.model_file import is_model_file, model_jobs_in
from andon.jobs.rules.naming import parse_array
from andon.jobs.submitting import local_spec, new_submission
from andon.model.execution import ContainerOptions
from andon.model.job.desk import Submission
from andon.model.job.spec import JobSpec, without_own_secrets
from andon.model.shapes import to_json
from andon.settings.moments import parse_moment

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


def submissions_of(job: FileJob, base: Path, simulate: int | None = None) -> list[Submission]:
    """Returns the submissions of a file's job: one, an array, or one for each combination."""
    indices, limit = parse_array(job.array) if job.array else ((), None)
    return [
        new_submission(
            spec,
            after=job.after,
            after_any=job.after_any,
            indices=indices,
            limit=limit,
            options=job.engine_options,
            variables=tuple(job.environment),
        )
        for spec in specs_of(job, base, simulate)
    ]


def specs_of(job: FileJob, base: Path, simulate: int | None = None) -> list[JobSpec]:
    """Returns the job, or one for each combination."""
    place = base / expanded(job.folder)
    if not place.is_dir():
        raise Invalid(f"{place} is not a folder", hint="folder is relative to the job file")
    fields = {name: getattr(job.spec, name) for name in SPEC_NAMES}
    if simulate is not None:
        fields["simulate"] = simulate
    spec = local_spec(
        job.command,
        job.request,
        folder=str(place.resolve()),
        environment={**without_own_secrets(os.environ), **job.environment},
        begin_at=begin_moment(job.begin),
        container=to_json(ContainerOptions(job.image)) if job.image else {},
        **fields,
    )
    if job.each:
        made = [
            replace(spec, argv=one.command, params=one.params, request=one.request)
            for one in job.each
        ]
        return made if job.server is None else [_trial(job, one) for one in made]
    return [spec if job.server is None else _trial(job, spec)]


def _trial(job: FileJob, spec: JobSpec) -> JobSpec:
    """Returns the job with the command that starts its server and sends the loads."""
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
    argv = process_command("server-trial", msgspec.json.encode(trial).decode())
    environment = module_environment(spec.environment)
    return replace(spec, argv=tuple(argv), group=trial.group, environment=environment)


def begin_moment(text: str) -> float | None:
    try:
        return parse_moment(text, time.time(), offset(), future=True) if text else None
    except ValueError as wrong:
        raise Invalid(f"begin: {wrong}") from wrong
