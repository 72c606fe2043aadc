"""JSON of the record of a run, line by line, and of runs in lists; both are as untrusted as the
network."""

from functools import cache
from typing import Any, TypedDict

from msgspec.structs import replace

from andon.model.codec import Name, Number, Wrong, read, shown
from andon.model.run.record import (
    RUN_SCHEMA,
    SAMPLED,
    RunAlert,
    RunBegin,
    RunEnd,
    RunEvent,
    RunFacts,
    RunItem,
    RunJoined,
    RunLine,
    RunLogged,
    RunRow,
    RunSample,
)
from andon.model.run.use import RunSpread, use_from_json
from andon.model.shapes import plain
from andon.model.wire import Json, struct_text

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
    """Returns one line of the file, with its newline."""
    kind = type(line)
    head: Json = {"event": EVENTS[kind]}
    if kind is RunBegin:
        head["schema"] = RUN_SCHEMA
    found = {**head, **plain(line, kind.__struct_fields__)}
    if found.get("begun_before") is False:
        del found["begun_before"]  # a map has many items, and few that a killed one had begun
    if isinstance(line, RunSample) and line.progress is None:
        del found["progress"]
    if isinstance(line, RunLogged):  # most are one value, and there are many
        found = {name: one for name, one in found.items() if one or name not in _OF_SEVERAL}
    return struct_text(found) + "\n"


def line_from_json(value: Json) -> RunLine:
    """Reads a line of a record; raises Wrong if it is not one."""
    event = value.get("event")
    kind = _KINDS.get(event) if isinstance(event, str) else None
    if event is None:
        raise Wrong("event", "is missing")
    if kind is None:
        raise Wrong("event", f"is {shown(event)}, which is not of {RUN_SCHEMA}")
    if kind is RunBegin and value.get("schema") != RUN_SCHEMA:
        raise Wrong("schema", f"is {shown(value.get('schema'))}, not {RUN_SCHEMA!r}")
    found: RunLine = read(kind, _without_nulls(value))
    if isinstance(found, RunSample):
        return replace(found, devices={uuid: _readings(one) for uuid, one in found.devices.items()})
    return _whole_end(found) if isinstance(found, RunEnd) else found


def _without_nulls(value: Json) -> Json:
    """Removes nulls: a logged value that is not a number is written as null."""
    logged = {name: value[name] for name in ("values", "last_values") if name in value}
    numbers: Json = {
        name: {
            one: number for one, number in read(dict[str, Any], found).items() if number is not None
        }
        for name, found in logged.items()
    }
    return {**value, **numbers} if numbers else value


@cache
def _sampled() -> Any:
    names = (name for name in SAMPLED if name != "throttle")
    kinds = {"state": Name | None, "throttle": tuple[Name, ...] | None}
    return TypedDict("_Sampled", {**dict.fromkeys(names, Number | None), **kinds}, total=False)  # type: ignore[operator]


def _readings(value: object) -> Json:
    """Reads numbers, the state, and the reasons of a throttle."""
    found: Json = read(_sampled(), value)
    return found


def _whole_end(end: RunEnd) -> RunEnd:
    return replace(
        end,
        summary={uuid: use_from_json(device) for uuid, device in end.summary.items()},
        node={name: read(RunSpread, spread) for name, spread in end.node.items()},
    )


def row_from_json(value: Json) -> RunRow:
    """Reads a run's row; raises Wrong if it is not one."""
    return read(RunRow, _without_nulls(value))


_OF_SEVERAL = ("spreads", "gaps", "restarts")
_KINDS: dict[str, Any] = {name: kind for kind, name in EVENTS.items()}
