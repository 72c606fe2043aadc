"""The CPUs that a new process may run on."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress


def allowed_cpus() -> frozenset[int]:
    """Returns the CPUs that this process may use; empty if the system does not tell."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


@contextmanager
def on_cpus(cpus: Collection[int] | None) -> Iterator[None]:
    """What this thread starts within the block runs on these CPUs; None changes nothing.

    A child inherits the CPUs of the thread that starts it. This needs no code between fork and
    exec, which could deadlock in a process with other threads.
    """
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    with suppress(OSError):  # all of them were taken away meanwhile: it runs unbound
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        with suppress(OSError):  # the same: what was started must not be lost for it
            os.sched_setaffinity(0, before)
