"""The jobs of the queue, for their view."""

from andon.tui.scene import JobRow


def has_queue() -> bool:
    """Whether this version has a queue; without one the view has no key."""
    return False


def read_jobs() -> tuple[JobRow, ...]:
    return ()
