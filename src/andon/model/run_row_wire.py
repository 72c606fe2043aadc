"""JSON of runs as lists show them: `andon.runs/1`, and the rows of the index."""

from collections.abc import Sequence

from andon.model.json_fields import (
    NAME,
    choice_in,
    each_in,
    flag_in,
    inside,
    number_in,
    some_text_in,
    some_whole_in,
    text_in,
    time_in,
)
from andon.model.run import RunKind, RunRow, RunState
from andon.model.run_wire import device_from_json, named_numbers, short_texts
from andon.model.shapes import to_json
from andon.model.wire import Json

RUNS_SCHEMA = "andon.runs/1"


def rows_to_json(rows: Sequence[RunRow], total: int) -> Json:
    """A list of runs; `total` of them match, of which these are shown."""
    return {"schema": RUNS_SCHEMA, "total": total, "runs": [row_to_json(row) for row in rows]}


def row_to_json(row: RunRow) -> Json:
    found: Json = to_json(row)
    return found


def row_from_json(value: Json) -> RunRow:
    """Raises Wrong if it is not a run's row."""
    return RunRow(
        id=text_in(value, "id", NAME),
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
        devices=tuple(each_in(value, "devices", device_from_json)),
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
        idle_share=number_in(value, "idle_share"),
        params=inside(value, "params", dict) or {},
        last_values=named_numbers(value, "last_values"),
        tags=short_texts(value, "tags"),
        note=some_text_in(value, "note"),
    )
