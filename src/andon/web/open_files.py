"""The limit on open files; the soft limit is often far below the hard limit."""

from contextlib import suppress

from andon.access.quotas import MOST, RESERVED_FILES


def raised_limit(wanted: int = MOST + RESERVED_FILES) -> int | None:
    """Raise the limit to `wanted` if allowed, and return it; None if there is no limit."""
    try:
        import resource
    except ImportError:  # this system has no such limit
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
