"""The keys of a job in a job file: which field each sets, how it is read, what it means."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from msgspec import Struct, field

from andon.errors import Invalid
from andon.jobs.rules.job_options import JOB_OPTIONS
from andon.jobs.rules.metrics import MOST_METRICS, parse_metric, parse_stop
from andon.jobs.rules.naming import parse_array
from andon.jobs.rules.parameters import MOST_COMBINATIONS, Value, checked_values
from andon.jobs.rules.server_trial import ServerTrial, loads_of, server_of
from andon.leases.rules.requests import RequestOptions, rows
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import (
    CHECKPOINT_SECONDS,
    MOST_RETRIES,
    Checkpoint,
    JobSpec,
    NotifyWhen,
)
from andon.units import has_unit, parse_seconds

LONGEST_NAME = 200
LONGEST_ARGUMENT = 131_072  # bytes of one argument; the kernel takes no more
MOST_ARGUMENTS = 4096
MOST_PARAMS = 100
SIGNALS = ("USR1", "USR2", "TERM", "INT", "HUP")


class FileCombination(Struct, frozen=True):
    """What differs between the jobs of a sweep."""

    command: tuple[str, ...]
    params: Mapping[str, Value]
    request: DeviceRequest


class FileJob(Struct, frozen=True):
    """One job of a file: what JobSpec has as it is, and what is resolved where it is submitted."""

    spec: JobSpec = JobSpec(0, "", (), "", DeviceRequest(), 0.0)
    command: tuple[str, ...] = ()
    folder: str = "."
    request: DeviceRequest = field(default_factory=DeviceRequest)
    after: tuple[str, ...] = ()
    after_any: tuple[str, ...] = ()
    begin: str = ""
    array: str = ""
    image: str = ""
    on: str = ""
    engine_options: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    zip: bool = False
    sample: int | None = None
    sample_seed: int = 0
    each: tuple[FileCombination, ...] = ()  # what the parameters make of it
    server: ServerTrial | None = None
    loads: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


Reader = Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > LONGEST_NAME:
        raise ValueError(f"not a text of 1 to {LONGEST_NAME} characters")
    if not value.isprintable():
        raise ValueError("has characters that cannot be shown")
    return value


def _command(value: Any) -> tuple[str, ...]:
    """Parses a command: a list is started as it is; a string is run by a shell."""
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return ("/bin/sh", "-c", value)
    argv = tuple(str(v) if type(v) in (int, float) else v for v in _list(value))
    if not argv or len(argv) > MOST_ARGUMENTS:
        raise ValueError(
            f"not a command: a text for a shell, or a list of 1 to {MOST_ARGUMENTS} words"
        )
    for word in argv:
        if not isinstance(word, str) or "\0" in word or len(word) > LONGEST_ARGUMENT:
            raise ValueError("a word of the command is not a text")
    if not argv[0]:
        raise ValueError("the program's name is empty")
    return argv


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("not a list")
    return value


def _folder(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value or len(value) > 4096:
        raise ValueError("not a folder")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, str) or not has_unit(value):
        raise ValueError('not a duration with a unit: write "90s", "10m" or "2h"')
    return parse_seconds(value)


def _duration(value: Any) -> float:
    seconds = _seconds(value)
    if seconds <= 0:
        raise ValueError("must be longer than 0")
    return seconds


def _whole(least: int, most: int) -> Reader:
    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"not a whole number from {least} to {most}")
        return value

    return read


def flag_of(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def texts_of(value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    texts = [str(one) if type(one) is int else one for one in given]
    if len(texts) > 1000:
        raise ValueError("more than 1000 entries")
    return tuple(_text(word) for word in texts)


def _array(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError('not an array: write "0-9", or "0-99%4" for 4 at once')
    try:
        parse_array(value)
    except Invalid as wrong:
        raise ValueError(f"{wrong.reason}; {wrong.hint}") from wrong
    return value


def _checkpoint(value: Any) -> Checkpoint:
    name, at, before = _text(value).partition("@")
    signal = name.upper().removeprefix("SIG")
    if signal not in SIGNALS:
        raise ValueError(f"not one of the signals {', '.join(SIGNALS)}: write USR1, or USR1@60s")
    return Checkpoint(signal, _duration(before) if at else CHECKPOINT_SECONDS)


def _notify(value: Any) -> NotifyWhen:
    try:
        return NotifyWhen(value)
    except ValueError:
        raise ValueError(f"not one of {', '.join(NotifyWhen)}") from None


def _params(value: Any) -> dict[str, str | int | float | bool]:
    if not isinstance(value, Mapping) or len(value) > MOST_PARAMS:
        raise ValueError(f"not a table of at most {MOST_PARAMS} parameters")
    for name, given in value.items():
        _text(name)
        if not isinstance(given, str | int | float) or len(str(given)) > LONGEST_NAME:
            raise ValueError(f"{name} is neither a short text nor a number nor true or false")
        if isinstance(given, float) and not isfinite(given):
            raise ValueError(f"{name} is not a finite number")
    return dict(value)


def _parameters(value: Any) -> dict[str, tuple[Value, ...]]:
    """Parses a table of parameters, each a value or a list of values."""
    if not isinstance(value, Mapping) or len(value) > MOST_PARAMS:
        raise ValueError(f"not a table of at most {MOST_PARAMS} parameters")
    out = {}
    for name, given in value.items():
        values = given if isinstance(given, list) else [given]
        if not values or not all(isinstance(one, str | int | float) for one in values):
            raise ValueError(f"{str(name)[:40]!r} is neither a value nor a list of values")
        if any(isinstance(one, float) and not isfinite(one) for one in values):
            raise ValueError(f"{name} has a number that is not finite")
        try:
            out[_text(name)] = checked_values(name, values)
        except Invalid as wrong:
            raise ValueError(wrong.reason) from wrong
    return out


def _metrics(value: Any) -> dict[str, str]:
    """Parses a table of patterns by the name of their figure."""
    if not isinstance(value, Mapping) or len(value) > MOST_METRICS:
        raise ValueError(f"not a table of at most {MOST_METRICS} patterns")
    try:
        return dict(parse_metric(f"{name}={pattern}") for name, pattern in value.items())
    except Invalid as wrong:
        raise ValueError(wrong.reason) from wrong


def _stop_when(value: Any) -> str:
    try:
        parse_stop(_text(value))
    except Invalid as wrong:
        raise ValueError(f"{wrong.reason}; {wrong.hint}") from wrong
    return str(value)


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > 1000:
        raise ValueError("not a table of variables")
    out = {}
    for name, given in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ValueError(f"{str(name)[:40]!r} is not the name of a variable")
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise ValueError(f"{name} is neither a text nor a number")
        out[name] = str(given)
    return out


READERS: Mapping[str, Reader] = {
    "array": _array,
    "checkpoint": _checkpoint,
    "combinations": _whole(1, MOST_COMBINATIONS),
    "command": _command,
    "environment": _environment,
    "flag": flag_of,
    "folder": _folder,
    "grace": _seconds,
    "lasting": _duration,
    "loads": loads_of,
    "metrics": _metrics,
    "moment": _text,
    "notify": _notify,
    "number": _whole(0, 2**31),
    "parameters": _parameters,
    "params": _params,
    "retries": _whole(0, MOST_RETRIES),
    "rule": _stop_when,
    "server": server_of,
    "simulate": _whole(1, 64),
    "text": _text,
    "timeout": _duration,
    "words": texts_of,
}
"""How each kind of option is read in a job file."""
KEYS = {row.key: row for row in JOB_OPTIONS}
"""Each key of a job, except those of a request."""
SPEC_NAMES = tuple(row.name for row in JOB_OPTIONS if row.of_spec)
"""The keys that are fields of JobSpec."""
REQUEST_KEYS = {row.name: row for row in rows(RequestOptions)}


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Reads options of a job that are given in Python; Invalid names one that is unknown or
    wrong."""
    out = {}
    for key, value in given.items():
        row = KEYS.get(key)
        if row is None or not (row.of_spec or key in ("after", "after_any", "begin")):
            raise Invalid(f"a job takes no {key[:40]!r}", hint="docs/job-files.md has all keys")
        try:
            out[row.name] = READERS[row.kind](list(value) if isinstance(value, tuple) else value)
        except ValueError as wrong:
            raise Invalid(f"{key}: {wrong}") from wrong
    return out
