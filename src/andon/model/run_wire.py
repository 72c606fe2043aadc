"""JSON of the record of a run, line by line, and of runs in lists; both are as untrusted as the
network."""

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from andon.model.job.progress import progress_from_json
from andon.model.json_fields import (
    MOST_ITEMS,
    NAME,
    Wrong,
    choice_in,
    each_in,
    flag_in,
    id_in,
    inside,
    names_in,
    number_in,
    some_text_in,
    some_whole_in,
    table_of,
    text_in,
    texts_in,
    time_in,
    whole_in,
)
from andon.model.run import (
    RUN_SCHEMA,
    GitState,
    ItemState,
    OutOfMemory,
    RunAlert,
    RunBegin,
    RunCandidate,
    RunDevice,
    RunEnd,
    RunEvent,
    RunFacts,
    RunItem,
    RunJoined,
    RunKind,
    RunLine,
    RunLogged,
    RunRow,
    RunSample,
    RunSeries,
    RunState,
)
from andon.model.run_use import spread_from_json, use_from_json
from andon.model.shapes import to_json
from andon.model.wire import Json, dumps

RUNS_SCHEMA = "andon.runs/1"
EVENTS: dict[type, str] = {
    RunBegin: "begin",
    RunFacts: "facts",
    RunJoined: "joined",
    RunSample: "sample",
    RunLogged: "log",
    RunEvent: "event",
    RunItem: "item",
    RunAlert: "alert",
    RunEnd: "end",
}


def line_to_text(line: RunLine) -> str:
    """One line of the file, with its end."""
    kind = type(line)
    head: Json = {"event": EVENTS[kind]}
    if kind is RunBegin:
        head["schema"] = RUN_SCHEMA
    found = {**head, **to_json(line)}
    if found.get("begun_before") is False:
        del found["begun_before"]  # a map has many items, and few that a killed one had begun
    if isinstance(line, RunSample) and line.progress is None:
        del found["progress"]
    return dumps(found) + "\n"


def line_from_json(value: Json) -> RunLine:
    """Raises Wrong if it is not a line of a record."""
    event = text_in(value, "event", NAME)
    read = _READERS.get(event)
    if read is None:
        raise Wrong("event", f"is {event!r}, which is not of {RUN_SCHEMA}")
    return read(value)


def _begin(value: Json) -> RunBegin:
    if value.get("schema") != RUN_SCHEMA:
        raise Wrong("schema", f"is {value.get('schema')!r}, not {RUN_SCHEMA!r}")
    return RunBegin(
        at=time_in(value, "at"),
        id=id_in(value, "id"),
        name=text_in(value, "name", NAME),
        kind=choice_in(value, "kind", RunKind),
        node=text_in(value, "node", NAME),
        user=some_text_in(value, "user", NAME),
        pid=whole_in(value, "pid"),
        boot=some_text_in(value, "boot", NAME),
        started=number_in(value, "started", 0),
        devices=tuple(each_in(value, "devices", device_from_json)),
        simulated=flag_in(value, "simulated"),
        command=some_text_in(value, "command"),
        working_directory=some_text_in(value, "working_directory"),
        parent=some_text_in(value, "parent", NAME),
        group=some_text_in(value, "group", NAME),
        rank=some_whole_in(value, "rank"),
        world_size=some_whole_in(value, "world_size"),
        lease=some_text_in(value, "lease", NAME),
        waited_seconds=number_in(value, "waited_seconds", 0),
        allocation_method=some_text_in(value, "allocation_method", NAME),
        candidates=tuple(each_in(value, "candidates", _candidate)),
        params=inside(value, "params", dict) or {},
        tags=short_texts(value, "tags"),
        pid_namespace=some_text_in(value, "pid_namespace", NAME),
    )


def device_from_json(value: Json) -> RunDevice:
    return RunDevice(
        uuid=text_in(value, "uuid", NAME),
        index=whole_in(value, "index"),
        label=text_in(value, "label", NAME),
        name=text_in(value, "name", NAME),
        memory_total_bytes=some_whole_in(value, "memory_total_bytes"),
        power_limit_watts=number_in(value, "power_limit_watts", 0),
    )


def _candidate(value: Json) -> RunCandidate:
    return RunCandidate(
        index=whole_in(value, "index"),
        name=text_in(value, "name", NAME),
        memory_free_mb=number_in(value, "memory_free_mb"),
        utilization_percent=number_in(value, "utilization_percent"),
        availability_score=number_in(value, "availability_score"),
        uuid=some_text_in(value, "uuid", NAME),
        obstacle=some_text_in(value, "obstacle"),
    )


def _facts(value: Json) -> RunFacts:
    return RunFacts(
        at=time_in(value, "at"),
        git=inside(value, "git", _git),
        git_reason=some_text_in(value, "git_reason"),
        versions=texts_in(value, "versions"),
        versions_reason=some_text_in(value, "versions_reason"),
    )


def _git(value: Json) -> GitState:
    dirty = value.get("dirty")
    return GitState(
        text_in(value, "commit", NAME), None if dirty is None else flag_in(value, "dirty")
    )


def _joined(value: Json) -> RunJoined:
    device = inside(value, "device", device_from_json)
    if device is None:
        raise Wrong("device", "is missing")
    return RunJoined(time_in(value, "at"), device)


def _sample(value: Json) -> RunSample:
    devices = inside(value, "devices", lambda table: table) or {}
    return RunSample(
        at=time_in(value, "at"),
        devices={str(uuid): _readings(readings) for uuid, readings in devices.items()},
        cpu_percent=number_in(value, "cpu_percent"),
        progress=inside(value, "progress", progress_from_json),
    )


def _readings(value: object) -> dict[str, Any]:
    """Numbers, the state, and the reasons of a throttle."""
    found = table_of(value)
    out: dict[str, Any] = {
        str(name): number_in(found, name) for name in found if name not in _WORDS
    }
    out["state"] = some_text_in(found, "state", NAME)
    if found.get("throttle") is not None:
        out["throttle"] = list(names_in(found, "throttle", MOST_REASONS))
    return out


_WORDS = frozenset({"state", "throttle"})
MOST_REASONS = 64


def _logged(value: Json) -> RunLogged:
    return RunLogged(
        at=time_in(value, "at"),
        values=named_numbers(value, "values"),
        step=_any_number(value, "step"),
    )


def named_numbers(value: Json, name: str) -> dict[str, float]:
    values = inside(value, name, lambda table: table) or {}
    numbers = {str(one): _any_number(values, one) for one in values}
    return {one: number for one, number in numbers.items() if number is not None}


def _any_number(value: Json, name: str) -> float | None:
    """A program's own number: a loss that diverges is as large as it is."""
    found: float | None = number_in(value, name, -sys.float_info.max, sys.float_info.max)
    return found


def _event(value: Json) -> RunEvent:
    return RunEvent(
        time_in(value, "at"), text_in(value, "name", NAME), inside(value, "data", dict) or {}
    )


def _item(value: Json) -> RunItem:
    return RunItem(
        at=time_in(value, "at"),
        state=choice_in(value, "state", ItemState),
        index=whole_in(value, "index"),
        item=text_in(value, "item"),
        device=some_text_in(value, "device", NAME),
        attempt=some_whole_in(value, "attempt") or 1,
        runtime_seconds=number_in(value, "runtime_seconds", 0),
        output=some_text_in(value, "output"),
        begun_before=flag_in(value, "begun_before"),
    )


def _alert(value: Json) -> RunAlert:
    return RunAlert(
        at=time_in(value, "at"),
        rule=text_in(value, "rule", NAME),
        level=text_in(value, "level", NAME),
        state=text_in(value, "state", NAME),
        message=text_in(value, "message"),
        device=some_text_in(value, "device", NAME),
    )


def _end(value: Json) -> RunEnd:
    summary = inside(value, "summary", lambda table: table) or {}
    return RunEnd(
        at=time_in(value, "at"),
        state=choice_in(value, "state", RunState),
        duration_seconds=number_in(value, "duration_seconds", 0) or 0.0,
        samples=whole_in(value, "samples"),
        summary={str(uuid): use_from_json(table_of(device)) for uuid, device in summary.items()},
        exit_code=number_in(value, "exit_code"),
        signal=some_whole_in(value, "signal"),
        message=some_text_in(value, "message"),
        reported_by=some_text_in(value, "reported_by", NAME),
        dropped=some_whole_in(value, "dropped") or 0,
        no_samples_reason=some_text_in(value, "no_samples_reason"),
        out_of_memory=inside(value, "out_of_memory", _out_of_memory),
        series=inside(value, "series", _series),
        last_values=named_numbers(value, "last_values"),
        node={
            str(name): spread_from_json(table_of(spread))
            for name, spread in (inside(value, "node", lambda table: table) or {}).items()
        },
        released_by=some_text_in(value, "released_by", NAME),
        release_note=some_text_in(value, "release_note"),
        devices=tuple(each_in(value, "devices", device_from_json)),
    )


def _out_of_memory(value: Json) -> OutOfMemory:
    return OutOfMemory(
        reported_by=some_text_in(value, "reported_by", NAME),
        wanted_bytes=some_whole_in(value, "wanted_bytes"),
        free_bytes=some_whole_in(value, "free_bytes"),
        held_by_run_bytes=some_whole_in(value, "held_by_run_bytes"),
        held_by_others_bytes=some_whole_in(value, "held_by_others_bytes"),
        held_by_cache_bytes=some_whole_in(value, "held_by_cache_bytes"),
        growth=some_text_in(value, "growth", NAME),
    )


def _series(value: Json) -> RunSeries:
    at = _numbers(value, "at")
    devices = inside(value, "devices", lambda table: table) or {}
    read = {
        str(uuid): {str(name): _numbers(table_of(named), name) for name in table_of(named)}
        for uuid, named in devices.items()
    }
    if any(len(points) != len(at) for named in read.values() for points in named.values()):
        raise Wrong("series", "has lines of different lengths")
    return RunSeries(tuple(point or 0.0 for point in at), read)


def _numbers(value: Json, name: str) -> tuple[float | None, ...]:
    found = value.get(name)
    if not isinstance(found, list) or len(found) > MOST_ITEMS:
        raise Wrong(name, "is not a list of numbers")
    return tuple(number_in({name: one}, name) for one in found)


def short_texts(value: Json, name: str) -> tuple[str, ...]:
    found = value.get(name) or []
    if not isinstance(found, list) or len(found) > MOST_ITEMS:
        raise Wrong(name, "is not a list of texts")
    return tuple(text_in({name: one}, name, NAME) for one in found)


def rows_to_json(rows: Sequence[RunRow], total: int) -> Json:
    """A list of runs; `total` of them match, of which these are shown."""
    return {"schema": RUNS_SCHEMA, "total": total, "runs": [row_to_json(row) for row in rows]}


def row_to_json(row: RunRow) -> Json:
    found: Json = to_json(row)
    return found


def _device_of_many(value: Json) -> RunDevice:
    """Runs of one node have the same devices: an index holds each a thousand times."""
    try:
        return _known_device(tuple(value.items()))
    except TypeError:  # it has a list where none should be
        return device_from_json(value)


@lru_cache(maxsize=256)
def _known_device(items: tuple[tuple[str, Any], ...]) -> RunDevice:
    return device_from_json(dict(items))


def row_from_json(value: Json) -> RunRow:
    """Raises Wrong if it is not a run's row."""
    return RunRow(
        id=id_in(value, "id"),
        name=text_in(value, "name", NAME),
        kind=choice_in(value, "kind", RunKind),
        state=choice_in(value, "state", RunState),
        node=text_in(value, "node", NAME),
        began=time_in(value, "began"),
        path=text_in(value, "path"),
        user=some_text_in(value, "user", NAME),
        ended=number_in(value, "ended"),
        duration_seconds=number_in(value, "duration_seconds", 0),
        command=some_text_in(value, "command"),
        devices=tuple(each_in(value, "devices", _device_of_many)),
        parent=some_text_in(value, "parent", NAME),
        group=some_text_in(value, "group", NAME),
        rank=some_whole_in(value, "rank"),
        world_size=some_whole_in(value, "world_size"),
        simulated=flag_in(value, "simulated"),
        samples=some_whole_in(value, "samples"),
        no_samples_reason=some_text_in(value, "no_samples_reason"),
        waited_seconds=number_in(value, "waited_seconds", 0),
        exit_code=number_in(value, "exit_code"),
        message=some_text_in(value, "message"),
        mean_utilization_percent=number_in(value, "mean_utilization_percent"),
        peak_memory_bytes=some_whole_in(value, "peak_memory_bytes"),
        energy_joules=number_in(value, "energy_joules"),
        energy_source=some_text_in(value, "energy_source", NAME),
        idle_share=number_in(value, "idle_share"),
        params=inside(value, "params", dict) or {},
        last_values=named_numbers(value, "last_values"),
        tags=short_texts(value, "tags"),
        note=some_text_in(value, "note"),
        progress=inside(value, "progress", progress_from_json),
    )


_READERS: dict[str, Callable[[Json], RunLine]] = {
    "begin": _begin,
    "facts": _facts,
    "joined": _joined,
    "sample": _sample,
    "log": _logged,
    "event": _event,
    "item": _item,
    "alert": _alert,
    "end": _end,
}
