"""JSON of the files in the folders of jobs, and of jobs as they are shown; all untrusted."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from andon.model.job.facts import (
    AttemptClaim,
    AttemptEnd,
    AttemptVerdict,
    EndReason,
    Holdup,
    JobNote,
    JobView,
)
from andon.model.job.spec_wire import LARGEST_JOB_BYTES as LARGEST_JOB_BYTES
from andon.model.job.spec_wire import MOST_GPUS, MOST_JOBS, plain_fields, seconds_in
from andon.model.job.spec_wire import dumps as dumps
from andon.model.job.spec_wire import loads as loads
from andon.model.job.spec_wire import spec_from_json as spec_from_json
from andon.model.job.spec_wire import spec_to_json as spec_to_json
from andon.model.json_fields import (
    MOST_PID,
    NAME,
    Json,
    choice_in,
    flag_in,
    names_in,
    some_id_in,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    time_in,
    whole_in,
)

JOBS_SCHEMA = "andon.jobs/1"
_COUNT = 2**53


# The small files of a job.


def note_to_json(note: JobNote) -> dict[str, Any]:
    return plain_fields(note)


def note_from_json(value: Json) -> JobNote:
    return JobNote(
        whole_in(value, "attempt", MOST_JOBS),
        time_in(value, "at"),
        some_text_in(value, "by", NAME) or "",
        some_text_in(value, "reason") or "",
    )


def claim_from_json(value: Json) -> AttemptClaim:
    return AttemptClaim(
        pid=whole_in(value, "pid", MOST_PID),
        started_ticks=whole_in(value, "start_ticks", _COUNT),
        boot=some_text_in(value, "boot", NAME),
        group=whole_in(value, "group", MOST_PID),
        group_ticks=whole_in(value, "group_ticks", _COUNT),
        at=time_in(value, "at"),
        lease=some_id_in(value, "lease"),
        devices=names_in(value, "devices", MOST_GPUS),
        labels=names_in(value, "labels", MOST_GPUS),
        run=some_id_in(value, "run"),
        record=some_text_in(value, "record"),
        node=some_text_in(value, "node", NAME),
    )


def adopted(claim: AttemptClaim, value: Json) -> AttemptClaim:
    """The claim of an attempt that another supervisor has taken over."""
    return replace(
        claim,
        pid=whole_in(value, "pid", MOST_PID),
        started_ticks=whole_in(value, "start_ticks", _COUNT),
        group=whole_in(value, "group", MOST_PID),
        group_ticks=whole_in(value, "group_ticks", _COUNT),
    )


def claim_to_json(claim: AttemptClaim) -> dict[str, Any]:
    """As a supervisor writes it."""
    out = plain_fields(claim)
    out["start_ticks"] = out.pop("started_ticks")
    return out


def end_from_json(value: Json) -> AttemptEnd:
    return AttemptEnd(
        reason=choice_in(value, "reason", EndReason),
        started=time_in(value, "started"),
        ended=time_in(value, "ended"),
        seconds=seconds_in(value, "seconds") or 0.0,
        exit_code=some_whole_in(value, "exit_code", 2**31),
        signal=some_whole_in(value, "signal", 128),
        run=some_id_in(value, "run"),
        by=some_text_in(value, "by", NAME),
        host_kills=some_whole_in(value, "host_kills", _COUNT) or 0,
        message=some_text_in(value, "message"),
    )


def end_to_json(end: AttemptEnd) -> dict[str, Any]:
    return plain_fields(end)


def verdict_to_json(verdict: AttemptVerdict) -> dict[str, Any]:
    return plain_fields(verdict)


def verdict_from_json(value: Json) -> AttemptVerdict:
    return AttemptVerdict(
        text_in(value, "state", NAME),
        text_in(value, "words"),
        flag_in(value, "out_of_memory"),
        some_whole_in(value, "free_bytes", 2**63 - 1),
    )


def holdup_to_json(holdup: Holdup) -> dict[str, Any]:
    return plain_fields(holdup)


def holdup_from_json(value: Json) -> Holdup:
    return Holdup(
        text_in(value, "reason"),
        time_in(value, "since"),
        some_time_in(value, "expected_start"),
        some_whole_in(value, "expected_from", _COUNT) or 0,
        names_in(value, "details", MOST_GPUS),
    )


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
