"""A device as conditions see it, and the facts of a finding about it."""

from andon.explain.conditions.description import ConditionFacts
from andon.explain.conditions.finding import Finding
from andon.explain.conditions.rulebook import DEFAULTS
from andon.explain.evidence.view import View
from andon.model.device import DeviceStatus, Snapshot
from tests.support.snapshots import AT, h200


def view(status: DeviceStatus | None = None, *past: Snapshot) -> View:
    """The view of a status, or of a healthy card."""
    status = h200(0, 0.0) if status is None else status
    seen = View.of(
        [*past, Snapshot("n", AT, devices=(status,))], status.device.uuid, lambda _: DEFAULTS
    )
    assert seen is not None
    return seen


def facts(
    finding: Finding, status: DeviceStatus | None = None, lasted_seconds: float = 0.0
) -> ConditionFacts:
    """The facts of a finding about this device, or about a healthy card."""
    return ConditionFacts("GPU 0", finding, view(status), "0", lasted_seconds=lasted_seconds)
