"""The claim of an attempt, as a supervisor writes it."""

from typing import Any

from andon.model.job.facts import AttemptClaim
from andon.model.shapes import to_json


def claim_to_json(claim: AttemptClaim) -> dict[str, Any]:
    out: dict[str, Any] = to_json(claim)
    out["start_ticks"] = out.pop("started_ticks")
    return out
