"""JSON of a probe, `andon.probe/1`; a stored file is as untrusted as the network."""

from collections.abc import Sequence

from andon.model.codec import Wrong, read
from andon.model.probe.probe import PROBE_SCHEMA, ProbeResult
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
    return read(ProbeResult, value)
