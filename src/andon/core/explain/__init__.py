"""Explains the state of a device: ranked reasons from the latest snapshot and the recent past."""

from collections.abc import Iterable, Mapping, Sequence

from andon.core.conditions.rulebook import Rulebook
from andon.core.explain.reasons import Reason
from andon.core.explain.rules import RULES
from andon.core.explain.states import absence, nothing, vanished
from andon.core.explain.view import View
from andon.model.device import Snapshot

__all__ = ["explain", "explain_absence", "explain_node", "most_troubled"]


def explain(
    snapshots: Sequence[Snapshot], uuid: str, rulebook: Rulebook | None = None
) -> tuple[Reason, ...]:
    """The reasons for one device, most important first; never empty. Snapshots in any order."""
    past = sorted(snapshots, key=lambda snapshot: snapshot.at)
    view = View.of(past, uuid, rulebook) if past else None
    if view is None:
        return _of_the_unlisted(past, uuid)
    found = [reason for rule in RULES if (reason := rule(view)) is not None]
    fine = nothing(view)
    if fine is not None and not any(reason.is_trouble for reason in found):
        found.append(fine)
    return ranked(found) or absence(view.snapshot)


def explain_node(
    snapshots: Sequence[Snapshot], rulebook: Rulebook | None = None
) -> Mapping[str, tuple[Reason, ...]]:
    """The reasons for every device of the latest snapshot, in its order."""
    if not snapshots:
        return {}
    past = sorted(snapshots, key=lambda snapshot: snapshot.at)
    return {s.device.uuid: explain(past, s.device.uuid, rulebook) for s in past[-1].devices}


def explain_absence(snapshots: Sequence[Snapshot]) -> tuple[Reason, ...]:
    """Why the latest snapshot shows no device."""
    latest = max(snapshots, key=lambda snapshot: snapshot.at, default=None)
    return ranked(absence(latest))


def most_troubled(explained: Mapping[str, tuple[Reason, ...]]) -> str | None:
    """The device whose first reason weighs most; the first one on a tie."""
    return max(explained, key=lambda uuid: explained[uuid][0].weight, default=None)


def ranked(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """By weight, then confidence, then name, so that the order is total."""
    return tuple(sorted(reasons, key=lambda r: (-r.weight, -r.confidence, r.code, r.sentence)))


def _of_the_unlisted(past: Sequence[Snapshot], uuid: str) -> tuple[Reason, ...]:
    seen = [s.at for s in past if any(one.device.uuid == uuid for one in s.devices)]
    if seen:
        return (vanished(uuid, seen[-1], past[-1].at),)
    return ranked(absence(past[-1] if past else None))
