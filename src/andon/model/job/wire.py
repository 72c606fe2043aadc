"""JSON of the files in the folders of jobs, and of jobs as they are shown; all untrusted."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from andon.model.codec import Count, Json, Pid, read
from andon.model.job.facts import (
    AttemptClaim,
    AttemptEnd,
    AttemptVerdict,
    Holdup,
    JobNote,
    JobView,
)
from andon.model.job.spec_wire import LARGEST_JOB_BYTES as LARGEST_JOB_BYTES
from andon.model.job.spec_wire import dumps as dumps
from andon.model.job.spec_wire import loads as loads
from andon.model.job.spec_wire import plain_fields
from andon.model.job.spec_wire import spec_from_json as spec_from_json
from andon.model.job.spec_wire import spec_to_json as spec_to_json

JOBS_SCHEMA = "andon.jobs/1"


# The small files of a job.


def note_to_json(note: JobNote) -> dict[str, Any]:
    return plain_fields(note)


def note_from_json(value: Json) -> JobNote:
    return read(JobNote, value)


def claim_from_json(value: Json) -> AttemptClaim:
    return read(AttemptClaim, value)


class AdoptedClaim(Struct, frozen=True):
    """What changes where another supervisor takes an attempt over."""

    pid: Pid
    group: Pid
    group_ticks: Count
    started_ticks: Count = field(name="start_ticks")


def adopted(claim: AttemptClaim, value: Json) -> AttemptClaim:
    """The claim of an attempt that another supervisor has taken over."""
    found = read(AdoptedClaim, value)
    return replace(claim, **asdict(found))


def claim_to_json(claim: AttemptClaim) -> dict[str, Any]:
    """Returns the claim as a supervisor writes it."""
    out = plain_fields(claim)
    out["start_ticks"] = out.pop("started_ticks")
    return out


def end_from_json(value: Json) -> AttemptEnd:
    return read(AttemptEnd, value)


def end_to_json(end: AttemptEnd) -> dict[str, Any]:
    return plain_fields(end)


def verdict_to_json(verdict: AttemptVerdict) -> dict[str, Any]:
    return plain_fields(verdict)


def verdict_from_json(value: Json) -> AttemptVerdict:
    return read(AttemptVerdict, value)


def holdup_to_json(holdup: Holdup) -> dict[str, Any]:
    return plain_fields(holdup)


def holdup_from_json(value: Json) -> Holdup:
    return read(Holdup, value)


# Views.


def view_to_json(view: JobView) -> dict[str, Any]:
    progress = None if view.progress is None else plain_fields(view.progress)
    return {**plain_fields(view), "progress": progress}


def views_to_json(views: Sequence[JobView], paused: bool = False) -> dict[str, Any]:
    return {
        "schema": JOBS_SCHEMA,
        "paused": paused,
        "jobs": [view_to_json(view) for view in views],
    }
