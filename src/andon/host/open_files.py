"""How many files this process may open; the soft limit is often far below what is allowed."""

from contextlib import suppress

from andon.core.access.quotas import MOST, RESERVED_FILES


def raised_limit(wanted: int = MOST + RESERVED_FILES) -> int | None:
    """The limit, raised to what is wanted where that is allowed; None where there is none."""
    try:
        import resource
    except ImportError:  # not on this system, which has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
