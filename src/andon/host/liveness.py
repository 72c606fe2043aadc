"""Whether some processes are still the same ones, by asking the kernel once for all of them.

A descriptor of a process (pidfd) stands for that very process and no later one of the same number,
and becomes readable when it ends: one poll takes the place of a look at each under /proc.
"""

import os
import select
from collections.abc import Iterable

MOST_PROCESSES = 256  # descriptors are scarce; more processes than this are looked at one by one


class Liveness:
    """Watches a set of processes. Used by one thread."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._poll = select.poll() if hasattr(select, "poll") else None

    def watch(self, pids: Iterable[int]) -> bool:
        """Watch these from now on; False where that cannot be done."""
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
            return  # of another namespace, or gone: there is nothing of it to watch
        self._descriptors.append(descriptor)
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLIN)

    def __del__(self) -> None:
        self.close()
