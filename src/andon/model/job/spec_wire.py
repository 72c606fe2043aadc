"""JSON of a job as it was submitted; `submit` must be quick, so this module imports little."""

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from andon.model.job.device_request import MOST_PRIORITY, DeviceRequest, PlacementOrder
from andon.model.job.spec import (
    GRACE_SECONDS,
    JOB_SCHEMA,
    MOST_ARRAY,
    MOST_RETRIES,
    ArrayPlace,
    Checkpoint,
    JobSpec,
    NotifyWhen,
)
from andon.model.json_fields import (
    NAME,
    Json,
    Wrong,
    choice_in,
    flag_in,
    inside,
    names_in,
    number_in,
    shown,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    text_of,
    texts_in,
    time_in,
    whole_in,
)

MOST_JOBS = 10_000_000
"""The largest number of a job."""
MOST_SECONDS = 100 * 366 * 86_400.0
MOST_GPUS = 1024
MOST_WORDS = 65_536
MOST_VARIABLES = 16_384
LARGEST_JOB_BYTES = 4 * 1024 * 1024
_LONGEST_WORD = 2 * 1024 * 1024


def dumps(value: object) -> str:
    """One line; lone surrogates, which a path or a variable may have, are escaped."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def loads(text: bytes | str) -> dict[str, Any]:
    """One JSON object; raises Wrong otherwise."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Wrong("", f"is not valid JSON: {exc}") from None
    if type(value) is not dict:
        raise Wrong("", f"is {shown(value)}, not a table")
    return value


def spec_to_json(spec: JobSpec) -> dict[str, Any]:
    """The environment comes last: it is by far the largest."""
    out = {"schema": JOB_SCHEMA, **plain_fields(spec)}
    out["request"] = plain_fields(spec.request)
    out["array"] = None if spec.array is None else plain_fields(spec.array)
    out["checkpoint"] = None if spec.checkpoint is None else plain_fields(spec.checkpoint)
    out["container"] = dict(spec.container)
    del out["environment"]
    return {**out, "environment": dict(spec.environment)}


def spec_from_json(value: Json, environment: bool = True) -> JobSpec:
    """Raises Wrong for anything but a whole job; without its environment for lists."""
    if value.get("schema") != JOB_SCHEMA:
        raise Wrong("schema", f"is {shown(value.get('schema'))}, not {JOB_SCHEMA!r}")
    argv = _words(value, "argv")
    if not argv:
        raise Wrong("argv", "is empty")
    request = inside(value, "request", _request)
    if request is None:
        raise Wrong("request", "is missing")
    notify = value.get("notify")
    return JobSpec(
        number=_number(value, "number"),
        name=text_in(value, "name", NAME),
        argv=argv,
        folder=_word(value.get("folder"), "folder"),
        request=request,
        submitted_at=time_in(value, "submitted_at"),
        user=some_text_in(value, "user", NAME) or "",
        umask=some_whole_in(value, "umask", 0o777) or 0,
        environment=_environment(value) if environment else {},
        shown=names_in(value, "shown", MOST_VARIABLES),
        masks=texts_in(value, "masks"),
        simulate=some_whole_in(value, "simulate", MOST_GPUS),
        scenario=some_text_in(value, "scenario", NAME) or "",
        for_seconds=seconds_in(value, "for_seconds"),
        bind=flag_in(value, "bind"),
        grace_seconds=_grace(value),
        timeout_seconds=seconds_in(value, "timeout_seconds"),
        after=_numbers(value, "after"),
        after_any=_numbers(value, "after_any"),
        begin_at=some_time_in(value, "begin_at"),
        array=inside(value, "array", _array),
        retries=some_whole_in(value, "retries", MOST_RETRIES) or 0,
        retry_lost=flag_in(value, "retry_lost"),
        retry_oom=some_whole_in(value, "retry_oom", MOST_RETRIES) or 0,
        checkpoint=inside(value, "checkpoint", _checkpoint),
        notify=None if notify is None else choice_in(value, "notify", NotifyWhen),
        unique=flag_in(value, "unique"),
        boot=some_text_in(value, "boot", NAME),
        submitted_boot_seconds=seconds_in(value, "submitted_boot_seconds"),
        git_commit=some_text_in(value, "git_commit", NAME),
        tags=names_in(value, "tags", 100),
        container=inside(value, "container", dict) or {},
        group=some_text_in(value, "group", NAME),
        params=inside(value, "params", _params) or {},
    )


def _params(value: Json) -> dict[str, str | int | float | bool]:
    for name, found in value.items():
        if isinstance(found, float) and not math.isfinite(found):
            raise Wrong("params", f"{name[:40]!r} is not a finite number")
        if not isinstance(found, bool | int | float):
            text_of(found, name[:40], NAME)
    return dict(value)


def _request(value: Json) -> DeviceRequest:
    least, most = whole_in(value, "least", MOST_GPUS), whole_in(value, "most", MOST_GPUS)
    if not 1 <= least <= most:
        raise Wrong("least", f"is {least}, which is not from 1 to {most}")
    return DeviceRequest(
        least=least,
        most=most,
        memory_bytes=some_whole_in(value, "memory_bytes", 2**63 - 1),
        shared=flag_in(value, "shared"),
        models=names_in(value, "models", MOST_GPUS),
        labels=names_in(value, "labels", MOST_GPUS),
        devices=names_in(value, "devices", MOST_GPUS),
        exclude=names_in(value, "exclude", MOST_GPUS),
        prefer=names_in(value, "prefer", MOST_GPUS),
        layout=choice_in(value, "layout", PlacementOrder),
        balanced=flag_in(value, "balanced", True),
        even_if_used=flag_in(value, "even_if_used"),
        priority=int(number_in(value, "priority", -MOST_PRIORITY, MOST_PRIORITY) or 0),
        every=flag_in(value, "every"),
    )


def _array(value: Json) -> ArrayPlace:
    return ArrayPlace(
        id=_number(value, "id"),
        index=whole_in(value, "index", MOST_JOBS),
        size=whole_in(value, "size", MOST_ARRAY),
        limit=some_whole_in(value, "limit", MOST_ARRAY),
    )


def _checkpoint(value: Json) -> Checkpoint:
    return Checkpoint(text_in(value, "signal", 16), seconds_in(value, "seconds") or 0.0)


def _grace(value: Json) -> float:
    found = seconds_in(value, "grace_seconds")
    return GRACE_SECONDS if found is None else found


def _environment(value: Json) -> Mapping[str, str]:
    found = inside(value, "environment", lambda table: table) or {}
    if len(found) > MOST_VARIABLES:
        raise Wrong("environment", f"has more than {MOST_VARIABLES} variables")
    for name, text in found.items():
        _word(text, "environment")
        if not name or "=" in name or "\0" in name:
            raise Wrong("environment", f"has the name {shown(name)}")
    return found


# Fields.


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of one value, without nested ones."""
    out: dict[str, Any] = {}
    for name in value.__struct_fields__:
        found = getattr(value, name)
        if isinstance(found, tuple):
            found = list(found)
        elif isinstance(found, StrEnum):
            found = found.value
        elif isinstance(found, Mapping):
            found = dict(found)
        out[name] = found
    return out


def _number(value: Json, name: str) -> int:
    found = whole_in(value, name, MOST_JOBS)
    if found < 1:
        raise Wrong(name, "is 0; jobs are numbered from 1")
    return found


def _numbers(value: Json, name: str) -> tuple[int, ...]:
    found = value.get(name) or []
    if not isinstance(found, list) or len(found) > MOST_ARRAY:
        raise Wrong(name, f"is {shown(found)}, not a list of numbers")
    return tuple(_number({name: one}, name) for one in found)


def seconds_in(value: Json, name: str) -> float | None:
    found = number_in(value, name, 0.0, MOST_SECONDS)
    return None if found is None or not math.isfinite(found) else float(found)


def _words(value: Json, name: str) -> tuple[str, ...]:
    found = value.get(name)
    if not isinstance(found, list):
        raise Wrong(name, f"is {shown(found)}, not a list of words")
    if len(found) > MOST_WORDS:
        raise Wrong(name, f"has {len(found)} words, more than {MOST_WORDS}")
    return tuple(_word(one, name) for one in found)


def _word(found: object, name: str) -> str:
    """A word of a command, a path or a value of a variable: any bytes but a zero."""
    if not isinstance(found, str):
        raise Wrong(name, f"is {shown(found)}, not a string")
    if len(found) > _LONGEST_WORD or "\0" in found:
        raise Wrong(name, f"is longer than {_LONGEST_WORD} characters, or has a zero byte")
    return found
