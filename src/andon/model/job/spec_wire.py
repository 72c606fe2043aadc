"""JSON of a job as it was submitted; `submit` must be quick, so this module imports little."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from andon.model.codec import Json, Wrong, read, shown
from andon.model.job.spec import JOB_SCHEMA, JobSpec

LARGEST_JOB_BYTES = 4 * 1024 * 1024


def dumps(value: object) -> str:
    """Returns a line of JSON; lone surrogates, which a path or variable may have, are escaped."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def loads(text: bytes | str) -> dict[str, Any]:
    """Reads one JSON object; raises Wrong otherwise."""
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
    found = read(JobSpec, value if environment else {**value, "environment": {}})
    if found.request.least > found.request.most:
        raise Wrong("request.least", f"is {found.request.least}, more than {found.request.most}")
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
