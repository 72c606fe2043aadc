"""Reads a job file: TOML or JSON, and YAML where its parser is installed."""

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from andon.errors import Invalid, Unavailable
from andon.host.files import read_regular
from andon.jobs.rules.file import jobs_in
from andon.jobs.rules.file_keys import FileJob
from andon.jobs.rules.file_lines import KeyPath, Lines, json_lines, toml_lines
from andon.jobs.rules.older_file import is_older, older_jobs_in

LARGEST_BYTES = 4 << 20


def read_job_file(path: str) -> tuple[FileJob, ...]:
    """The jobs of a file; Invalid with every mistake in it."""
    text = _text(path)
    document, lines = _parsed(path, text)
    jobs = older_jobs_in(document, path, lines) if is_older(document) else None
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
        if suffix == ".json":
            return json.loads(text), json_lines(text)
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
    """Aliases may repeat a node: each path is noted once, so a bomb of them is not unfolded."""
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
