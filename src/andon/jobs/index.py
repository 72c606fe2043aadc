"""The cache of jobs: rows of plain values with a checksum, rebuilt when it is missing.

A first line has the state and the position of each job: a list of ten thousand needs no more of
most. Then comes a line for each job, which is decoded only when needed.

Only andon writes it, whole, into a folder that no other user can write to; the checksum detects
damage and edits. So its values are taken as they are, which is ten times as fast.
"""

import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from andon.jobs.rules.order import OrderKey, order_key
from andon.jobs.rules.states import JobStatus, lasting_status
from andon.model.job.device_request import DeviceRequest, PlacementOrder
from andon.model.job.facts import (
    AttemptClaim,
    AttemptEnd,
    AttemptFacts,
    AttemptVerdict,
    EndReason,
    JobFacts,
    JobNote,
    JobState,
    dumps,
)
from andon.model.job.spec import ArrayPlace, Checkpoint, JobSpec, NotifyWhen

INDEX_SCHEMA = "andon.job-index/2"
_SPEC = JobSpec.__struct_fields__
_REQUEST = DeviceRequest.__struct_fields__
_LISTS = tuple(
    _SPEC.index(name) for name in ("argv", "shown", "after", "after_any", "tags")
)  # tuples, which JSON has as lists
_AT = {name: _SPEC.index(name) for name in ("request", "array", "checkpoint", "notify")}
_LAYOUT = _REQUEST.index("layout")


class IndexedJob(Struct):
    """One job of the index: the time of its folder, what a list needs, and its undecoded row."""

    stamp: int
    status: JobStatus | None  # None: it depends on the time or on other jobs
    key: OrderKey
    row: str


def indexed(stamp: int, facts: JobFacts) -> IndexedJob:
    """Returns a job's row for the index; no attempt of it may be running."""
    return IndexedJob(stamp, lasting_status(facts), order_key(facts), dumps(_row(facts)))


def index_text(jobs: Mapping[int, IndexedJob]) -> str:
    """Returns a line with the checksum, a line with all heads, then the rows in the same order."""
    heads = dumps([_head(number, one) for number, one in jobs.items()])
    body = "\n".join((heads, *(one.row for one in jobs.values())))
    head = {"schema": INDEX_SCHEMA, "fields": _shape(), "checksum": zlib.crc32(body.encode())}
    return f"{dumps(head)}\n{body}\n"


def read_index(content: bytes) -> dict[int, IndexedJob]:
    """Reads the index by number; empty if the file is incomplete or of another version."""
    head, _, body = content.partition(b"\n")
    try:
        header = json.loads(head)
        if header["schema"] != INDEX_SCHEMA or header["fields"] != _shape():
            return {}
        if header["checksum"] != zlib.crc32(memoryview(body)[:-1]) or not body.endswith(b"\n"):
            return {}
        heads, *rows = body.decode().rstrip("\n").split("\n")
        return {
            number: IndexedJob(stamp, _status(*stands) if stands else None, tuple(key), row)
            for (number, stamp, stands, key), row in zip(json.loads(heads), rows, strict=True)
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _head(number: int, one: IndexedJob) -> list[Any]:
    return [number, one.stamp, None if one.status is None else _values(one.status), one.key]


@lru_cache(maxsize=1024)
def _status(state: str, attempt: int, reason: str | None) -> JobStatus:
    """Returns one object for all jobs with the same state."""
    return JobStatus(JobState(state), attempt, reason)


def facts_from_row(text: str) -> JobFacts | None:
    """Decodes a job; None if it cannot be read."""
    try:
        spec, held, cancelled, again, expired, order, attempts = json.loads(text)
        return JobFacts(
            _spec(spec),
            held,
            None if cancelled is None else JobNote(*cancelled),
            None if again is None else JobNote(*again),
            None if expired is None else JobNote(*expired),
            order,
            tuple(_attempt(one) for one in attempts),
        )
    except (TypeError, ValueError, IndexError, RecursionError):
        return None


@lru_cache(maxsize=1)
def _shape() -> int:
    """Returns a checksum of the field names, so that another version of andon ignores the index."""
    kinds = (JobSpec, DeviceRequest, AttemptClaim, AttemptEnd, AttemptVerdict, JobNote)
    names = [name for kind in kinds for name in kind.__struct_fields__]
    return zlib.crc32(",".join(names).encode())


def _row(facts: JobFacts) -> list[Any]:
    notes = (facts.cancelled, facts.again, facts.expired)
    return [
        _spec_row(facts.spec),
        facts.held,
        *(None if note is None else _values(note) for note in notes),
        facts.order,
        [_attempt_row(one) for one in facts.attempts],
    ]


def _spec_row(spec: JobSpec) -> list[Any]:
    row = [getattr(spec, name) for name in _SPEC]
    row[_SPEC.index("environment")] = {}
    row[_AT["request"]] = _values(spec.request)
    row[_AT["array"]] = None if spec.array is None else _values(spec.array)
    row[_AT["checkpoint"]] = None if spec.checkpoint is None else _values(spec.checkpoint)
    return row


def _spec(row: list[Any]) -> JobSpec:
    for place in _LISTS:
        row[place] = tuple(row[place])
    row[_AT["request"]] = _request(*_tuples(row[_AT["request"]]))
    if (array := row[_AT["array"]]) is not None:
        row[_AT["array"]] = ArrayPlace(*array)
    if (checkpoint := row[_AT["checkpoint"]]) is not None:
        row[_AT["checkpoint"]] = Checkpoint(*checkpoint)
    if (notify := row[_AT["notify"]]) is not None:
        row[_AT["notify"]] = NotifyWhen(notify)
    return JobSpec(*row)


@lru_cache(maxsize=4096)
def _request(*values: Any) -> DeviceRequest:
    """Returns one object for all jobs with the same request."""
    row = list(values)
    row[_LAYOUT] = PlacementOrder(row[_LAYOUT])
    return DeviceRequest(*row)


def _attempt_row(one: AttemptFacts) -> list[Any]:
    end, verdict = one.end, one.verdict
    return [
        one.number,
        _values(one.claim),
        None if end is None else _values(end),
        None if verdict is None else _values(verdict),
    ]


def _attempt(row: list[Any]) -> AttemptFacts:
    """Decodes an attempt; only settled ones are kept: none is locked, none is alive."""
    number, claim, end, verdict = row
    return AttemptFacts(
        number,
        AttemptClaim(*_tuples(claim)),
        end=None if end is None else AttemptEnd(EndReason(end[0]), *end[1:]),
        verdict=None if verdict is None else AttemptVerdict(*verdict),
    )


def _tuples(row: list[Any]) -> list[Any]:
    return [tuple(value) if type(value) is list else value for value in row]


def _values(value: Any) -> list[Any]:
    return [getattr(value, one) for one in value.__struct_fields__]
