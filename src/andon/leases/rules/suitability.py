"""How suitable a device is: its score, and the limits that decide."""

MEMORY_WEIGHT = 0.6
UTILIZATION_WEIGHT = 0.4
LINK_WEIGHT = 0.2
MAX_UTILIZATION_PERCENT = 50.0


def chosen_by(linked: str | None, queued: bool = False) -> str:
    """How devices were chosen, for a record: by their score, and by what links them where that
    counted; `queued` for a job."""
    by = "best score: most free memory, least busy"
    if linked is not None:
        by = f"score and links: {linked}"
    return f"the queue, {by}" if queued else by


def score(
    free_bytes: int | None,
    total_bytes: int | None,
    utilization_percent: float | None,
    memory_weight: float = MEMORY_WEIGHT,
    utilization_weight: float = UTILIZATION_WEIGHT,
) -> float | None:
    """How suitable a device is: 1 is empty and idle; None where a reading is unknown."""
    if free_bytes is None or not total_bytes or utilization_percent is None:
        return None
    idle_percent = 100 - utilization_percent
    return memory_weight * free_bytes / total_bytes + utilization_weight * idle_percent / 100
