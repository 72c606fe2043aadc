"""Jobs: as they were submitted (`spec`), as a scan finds them and as they are shown (`facts`).

A part is imported when one of its names is first used: `submit` needs only the first.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from andon.model.job.facts import (
        UNSETTLED,
        AttemptClaim,
        AttemptEnd,
        AttemptFacts,
        AttemptVerdict,
        EndReason,
        Holdup,
        JobFacts,
        JobNote,
        JobState,
        JobView,
    )
    from andon.model.job.spec import (
        CHECKPOINT_SECONDS,
        MOST_ARRAY,
        ArrayPlace,
        Checkpoint,
        JobSpec,
        NotifyWhen,
    )

__all__ = [
    "CHECKPOINT_SECONDS",
    "MOST_ARRAY",
    "UNSETTLED",
    "ArrayPlace",
    "AttemptClaim",
    "AttemptEnd",
    "AttemptFacts",
    "AttemptVerdict",
    "Checkpoint",
    "EndReason",
    "Holdup",
    "JobFacts",
    "JobNote",
    "JobSpec",
    "JobState",
    "JobView",
    "NotifyWhen",
]
_SUBMITTED = frozenset(
    (
        "ArrayPlace",
        "CHECKPOINT_SECONDS",
        "Checkpoint",
        "JobSpec",
        "MOST_ARRAY",
        "NotifyWhen",
    )
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = "andon.model.job.spec" if name in _SUBMITTED else "andon.model.job.facts"
    found = globals()[name] = getattr(import_module(place), name)
    return found
