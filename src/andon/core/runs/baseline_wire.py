"""JSON of baselines: `andon.baselines/1`, and as an index keeps them."""

from collections.abc import Sequence
from typing import Any

from andon.core.runs.baselines import BaselineRun, DriftLine, RunBaseline
from andon.model.json_fields import NAME, each_in, text_in, time_in
from andon.model.run_wire import named_numbers
from andon.model.shapes import to_json
from andon.model.wire import Json

BASELINES_SCHEMA = "andon.baselines/1"
DRIFT_SCHEMA = "andon.drift/1"


def baselines_to_json(baselines: Sequence[RunBaseline]) -> Json:
    return {"schema": BASELINES_SCHEMA, "baselines": [baseline_to_json(one) for one in baselines]}


def baseline_to_json(baseline: RunBaseline) -> Json:
    found: Json = to_json(baseline)
    return found


def baseline_from_json(value: Json) -> RunBaseline:
    """Raises Wrong if it is none."""
    return RunBaseline(
        name=text_in(value, "name", NAME),
        at=time_in(value, "at"),
        runs=tuple(each_in(value, "runs", _run)),
    )


def drift_to_json(
    baseline: RunBaseline, runs: Sequence[str], tolerance_percent: float, lines: Sequence[DriftLine]
) -> Json:
    """What `andon runs baseline check` found."""
    return {
        "schema": DRIFT_SCHEMA,
        "baseline": baseline.name,
        "runs": list(runs),
        "tolerance_percent": tolerance_percent,
        "drifted": any(line.drifted for line in lines),
        "measures": [_line(line) for line in lines],
    }


def _line(line: DriftLine) -> dict[str, Any]:
    return {
        "name": line.measure.name,
        "baseline": to_json(line.baseline),
        "found": to_json(line.found),
        "change_percent": line.change_percent,
        "order": str(line.order),
        "drifted": line.drifted,
    }


def _run(value: Json) -> BaselineRun:
    return BaselineRun(
        id=text_in(value, "id", NAME),
        name=text_in(value, "name", NAME),
        began=time_in(value, "began"),
        devices=text_in(value, "devices"),
        values=named_numbers(value, "values"),
    )
