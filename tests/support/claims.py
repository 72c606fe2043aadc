"""The claim of an attempt, as a supervisor writes it."""

from typing import Any

from andon.model.job.facts import AttemptClaim
from andon.model.job.spec import plain_fields


def claim_to_json(claim: AttemptClaim) -> dict[str, Any]:
    out = plain_fields(claim)
    out["start_ticks"] = out.pop("started_ticks")
    return out
