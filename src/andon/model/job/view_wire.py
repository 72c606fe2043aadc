"""A job as a server shows it, read from its JSON."""

from typing import Any

from andon.model.job.facts import JobState, JobView
from andon.model.job.progress import progress_from_json
from andon.model.job.spec_wire import MOST_GPUS, MOST_JOBS, seconds_in
from andon.model.json_fields import (
    LONGEST,
    MOST_PID,
    NAME,
    Json,
    Wrong,
    choice_in,
    flag_in,
    id_in,
    inside,
    names_in,
    number_in,
    some_id_in,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    text_of,
    texts_in,
    time_in,
    whole_in,
)

_COUNT = 2**53


def view_from_json(value: Json) -> JobView:
    """Wrong names the field that is not as it should be."""
    return JobView(
        number=whole_in(value, "number", MOST_JOBS),
        label=id_in(value, "label"),
        name=text_in(value, "name"),
        state=choice_in(value, "state", JobState),
        command=text_in(value, "command"),
        folder=text_in(value, "folder"),
        user=text_in(value, "user", NAME),
        submitted_at=time_in(value, "submitted_at"),
        gpus=text_in(value, "gpus", NAME),
        reason=some_text_in(value, "reason"),
        position=some_whole_in(value, "position", _COUNT),
        attempt=whole_in(value, "attempt", _COUNT),
        attempts=whole_in(value, "attempts", _COUNT),
        memory_bytes=some_whole_in(value, "memory_bytes", 2**63 - 1),
        simulated=flag_in(value, "simulated"),
        priority=int(number_in(value, "priority", -_COUNT, _COUNT) or 0),
        array=some_whole_in(value, "array", MOST_JOBS),
        array_index=some_whole_in(value, "array_index", _COUNT),
        devices=names_in(value, "devices", MOST_GPUS),
        device_uuids=names_in(value, "device_uuids", MOST_GPUS),
        waiting_details=_lines(value, "waiting_details"),
        progress=inside(value, "progress", progress_from_json),
        environment=texts_in(value, "environment"),
        tags=names_in(value, "tags"),
        group=some_text_in(value, "group"),
        params=texts_in(value, "params"),
        after=_numbers(value, "after"),
        after_any=_numbers(value, "after_any"),
        **_times(value),
        **_outcome(value),
    )


def _times(value: Json) -> dict[str, Any]:
    names = ("begin_at", "expected_start", "started", "ended")
    return {
        "for_seconds": seconds_in(value, "for_seconds"),
        "seconds": seconds_in(value, "seconds"),
        "expected_from": some_whole_in(value, "expected_from", _COUNT) or 0,
        **{name: some_time_in(value, name) for name in names},
    }


def _outcome(value: Json) -> dict[str, Any]:
    return {
        "lease": some_id_in(value, "lease"),
        "run": some_id_in(value, "run"),
        "record": some_text_in(value, "record"),
        "pid": some_whole_in(value, "pid", MOST_PID),
        "exit_code": some_whole_in(value, "exit_code", 2**31),
        "signal": some_whole_in(value, "signal", 128),
        "error": some_text_in(value, "error"),
    }


def _listed(value: Json, name: str, most: int) -> list[object]:
    found = value.get(name)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)) or len(found) > most:
        raise Wrong(name, f"is not a list of at most {most}")
    return list(found)


def _lines(value: Json, name: str) -> tuple[str, ...]:
    return tuple(text_of(one, name, LONGEST) for one in _listed(value, name, MOST_GPUS))


def _numbers(value: Json, name: str) -> tuple[int, ...]:
    found = _listed(value, name, MOST_JOBS)
    return tuple(whole_in({name: one}, name, MOST_JOBS) for one in found)
