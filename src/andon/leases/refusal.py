"""Why nothing was granted, with a reason for every device."""

import time

from andon.errors import Conflict, TimedOut
from andon.leases.availability import Candidates
from andon.leases.rules.choice import Candidate
from andon.leases.rules.eligibility import HEALTH, Obstacle, ObstacleKind, request_text
from andon.model.job.device_request import DeviceRequest
from andon.model.naming import device_labels, title, titles
from andon.units import human_bytes, human_seconds

DAY_SECONDS = 86_400.0
HELD = frozenset(
    {
        ObstacleKind.LEASED,
        ObstacleKind.ORPHANED,
        ObstacleKind.UNREADABLE,
        ObstacleKind.NEXT,
        ObstacleKind.FULL,
    }
)
USED = frozenset(
    {
        ObstacleKind.UNLEASED_PROCESS,
        ObstacleKind.BUSY,
        ObstacleKind.UNATTRIBUTED_MEMORY,
    }
)
SIMULATED_WORK = frozenset({ObstacleKind.UNLEASED_PROCESS, ObstacleKind.BUSY})


def refusal(
    candidates: Candidates,
    request: DeviceRequest,
    waited_seconds: float | None,
    note: str | None = None,
    note_hint: str = "",
) -> Conflict:
    """Returns the error of a request that was not met, at once or after a wait.

    `note` is a further obstacle, `note_hint` what to do about it.
    """
    free = sum(c.obstacle is None for c in candidates.choice.candidates)
    counts = f"{request_text(request)} requested, {free} available"
    summary = candidates.limit or candidates.choice.reason or counts
    lines = tuple(device_lines(candidates))
    hint = note_hint or hint_of(candidates)
    if waited_seconds is None:
        return Conflict(note or summary, hint=hint, mistakes=lines)
    reason = f"{summary} after waiting {human_seconds(waited_seconds)}"
    return TimedOut(f"{reason}: {note}" if note else reason, hint=hint, mistakes=lines)


def hint_of(candidates: Candidates) -> str:
    """Returns what to do about the obstacles: a lease, a process, or a device in trouble."""
    if is_hopeless(candidates):
        return "simulated work never ends; for idle devices: ANDON_SIMULATE_SCENARIO=idle"
    if candidates.limit is not None:
        own = candidates.limit.startswith("you ")
        return "release one of yours: andon leases" if own else "who holds them: andon leases"
    if candidates.lacks_memory:
        return "no GPU has that much even when nothing runs on it: use a smaller --memory"
    if candidates.choice.reason is not None:
        return "--unbalanced allows different free memory"
    kinds = {c.obstacle.kind for c in candidates.choice.candidates if c.obstacle is not None}
    if kinds & HELD:
        return "see who holds them: andon leases"
    if ObstacleKind.RESERVED in kinds:
        return "see what is reserved: andon reservations"
    if kinds & USED:
        return "see who uses them: andon ps; --even-if-used takes them anyway"
    return "andon why says what is wrong with them" if kinds & HEALTH else ""


def is_hopeless(candidates: Candidates) -> bool:
    """Whether only simulated work blocks the request: it never ends, so waiting is useless."""
    barred = (c.obstacle.kind for c in candidates.choice.candidates if c.obstacle is not None)
    lasting = sum(bar in SIMULATED_WORK for bar in barred)
    left = len(candidates.need.eligible) - lasting
    return candidates.snapshot.simulated and left < candidates.need.least


def device_lines(candidates: Candidates) -> list[str]:
    """Returns `GPU 2: held by lease k7qm2 (alice), until about 14:20`, for every requested
    device."""
    names = titles(candidates.snapshot.devices)
    return [
        f"{names[c.uuid]}: {candidate_text(c, candidates.snapshot.at)}"
        for c in candidates.choice.candidates
        if c.obstacle is None or c.obstacle.kind is not ObstacleKind.NOT_REQUESTED
    ]


def chosen_title(candidates: Candidates) -> str:
    """Returns the chosen devices as `GPU 0, 6:1`."""
    labels = device_labels(candidates.snapshot.devices)
    return title(", ".join(labels[capacity.uuid] for capacity in candidates.choice.chosen))


def candidate_text(candidate: Candidate, at: float) -> str:
    if candidate.obstacle is not None:
        return obstacle_text(candidate.obstacle, at)
    if candidate.free_bytes is None:
        return "available"
    return f"available, {human_bytes(candidate.free_bytes)} free"


def obstacle_text(obstacle: Obstacle, at: float) -> str:
    return obstacle.reason + (
        "" if obstacle.until is None else f", until about {clock(obstacle.until, at)}"
    )


def clock(moment: float, at: float) -> str:
    """Returns the time of day, with the date if it is more than a day away."""
    form = "%H:%M" if abs(moment - at) < DAY_SECONDS else "%a %d %b %H:%M"
    return time.strftime(form, time.localtime(moment))
