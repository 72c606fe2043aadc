"""Checks whether a set of processes is still alive with one system call.

A pidfd refers to one process and never to a later one with the same pid, and becomes readable when
the process ends: one poll replaces reading /proc for each.
"""

import os
import select
from collections.abc import Iterable

MOST_PROCESSES = 256  # descriptors are limited; more processes than this are read one by one


class Liveness:
    """Watches a set of processes. Not thread-safe."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._poll = select.poll() if hasattr(select, "poll") else None

    def watch(self, pids: Iterable[int]) -> bool:
        """Watch these from now on; False if that is not possible."""
        self.close()
        wanted = list(pids)
        if self._poll is None or not hasattr(os, "pidfd_open") or len(wanted) > MOST_PROCESSES:
            return False
        try:
            for pid in wanted:
                self._open(pid)
        except OSError:  # an old kernel, or out of descriptors
            self.close()
            return False
        return True

    def all_live(self) -> bool:
        """Whether none has ended since `watch`."""
        return self._poll is not None and not self._poll.poll(0)

    def close(self) -> None:
        for descriptor in self._descriptors:
            if self._poll is not None:
                self._poll.unregister(descriptor)
            os.close(descriptor)
        self._descriptors = []

    def _open(self, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # in another namespace or exited: nothing to watch
        self._descriptors.append(descriptor)
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLIN)

    def __del__(self) -> None:
        self.close()
