"""JSON of a probe, `andon.probe/1`; a stored file is as untrusted as the network."""

from collections.abc import Sequence

from andon.model.json_fields import (
    NAME,
    Wrong,
    choice_in,
    each_in,
    flag_in,
    inside,
    number_in,
    some_text_in,
    some_whole_in,
    text_in,
    texts_in,
    time_in,
    whole_in,
)
from andon.model.probing.probe import PROBE_SCHEMA, MemoryLine, ProbeResult, Trial, TrialState
from andon.model.shapes import to_json
from andon.model.wire import Json

PROBES_SCHEMA = "andon.probes/1"


def probe_to_json(probe: ProbeResult) -> Json:
    return {"schema": PROBE_SCHEMA, **to_json(probe)}


def probes_to_json(probes: Sequence[ProbeResult]) -> Json:
    return {"schema": PROBES_SCHEMA, "probes": [to_json(probe) for probe in probes]}


def probe_from_json(value: Json) -> ProbeResult:
    """Raises Wrong if it is not a probe."""
    if value.get("schema") != PROBE_SCHEMA:
        raise Wrong("schema", f"is {value.get('schema')!r}, not {PROBE_SCHEMA!r}")
    return ProbeResult(
        name=text_in(value, "name", NAME),
        command=text_in(value, "command"),
        model=text_in(value, "model", NAME),
        devices=whole_in(value, "devices"),
        at=time_in(value, "at"),
        node=text_in(value, "node", NAME),
        low=whole_in(value, "low"),
        high=whole_in(value, "high"),
        margin_percent=float(number_in(value, "margin_percent", 0, 100) or 0.0),
        trials=tuple(each_in(value, "trials", _trial)),
        largest=some_whole_in(value, "largest"),
        too_large=some_whole_in(value, "too_large"),
        recommended=some_whole_in(value, "recommended"),
        line=inside(value, "line", _line),
        line_reason=some_text_in(value, "line_reason"),
        memory_total_bytes=some_whole_in(value, "memory_total_bytes"),
        simulated=flag_in(value, "simulated"),
        complete=flag_in(value, "complete"),
    )


def _trial(value: Json) -> Trial:
    return Trial(
        size=whole_in(value, "size"),
        state=choice_in(value, "state", TrialState),
        seconds=float(number_in(value, "seconds", 0) or 0.0),
        message=text_in(value, "message"),
        peak_memory_bytes=some_whole_in(value, "peak_memory_bytes"),
        utilization_percent=number_in(value, "utilization_percent"),
        energy_joules=number_in(value, "energy_joules"),
        energy_source=some_text_in(value, "energy_source", NAME),
        throughput=number_in(value, "throughput"),
        samples=whole_in(value, "samples"),
        missing=texts_in(value, "missing"),
        note=some_text_in(value, "note"),
    )


def _line(value: Json) -> MemoryLine:
    return MemoryLine(
        float(number_in(value, "fixed_bytes") or 0.0),
        float(number_in(value, "bytes_per_unit") or 0.0),
        whole_in(value, "trials"),
    )
