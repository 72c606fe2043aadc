"""Gives a new supervisor to a job in a container whose supervisor was killed.

The container keeps running without its supervisor and its client. The new supervisor locks the same
claim, holds the same lease again, passes on the container's output and writes its exit code.
"""

import logging
import os
import signal
import time
from typing import Any

from andon.errors import AndonError
from andon.host.processes.kin import session_members
from andon.jobs.acts import signal_process
from andon.jobs.container_files import container_lives
from andon.jobs.folder import JobsFolder
from andon.jobs.launching import DispatcherSettings, Supervisor, adopting_task
from andon.leases.book.hold import LeaseHold
from andon.leases.book.lease_book import Book
from andon.leases.book.places import VARIABLE
from andon.model.job.facts import AttemptClaim, AttemptFacts, JobFacts
from andon.work.containers.adoption import hold_again

log = logging.getLogger("andon.jobs")
RETRY_SECONDS = 5.0


class ContainerAdopter:
    """Decides which attempts need a new supervisor, and prepares what it is sent."""

    def __init__(self, folder: JobsFolder, settings: DispatcherSettings) -> None:
        self._folder, self._settings = folder, settings
        self._due: dict[int, float] = {}

    def needs(self, facts: JobFacts) -> AttemptFacts | None:
        """Returns the attempt of a job that is running in a container without a supervisor.

        A client that is left is ended: only a child's exit code can be known.
        """
        last = facts.last
        if last is None or last.locked or not last.alive or not facts.spec.container:
            return None
        number, now = facts.spec.number, time.monotonic()
        if now < self._due.get(number, 0.0):
            return None
        self._due[number] = now + RETRY_SECONDS
        if not container_lives(self._folder.attempt(number, last.number), last.claim):
            return None  # it is being made, or has ended and is being removed
        if self._ends_client(last.claim):
            self._due[number] = 0.0  # adopted in the next round, when the lock of the lease is free
            return None
        return last

    def _ends_client(self, claim: AttemptClaim) -> bool:
        """Kills what is left of the command's session, which would also write to the output;
        returns whether there was anything."""
        if claim.group <= 1:  # a damaged claim names no process, and session 0 is not the command's
            return False
        left = [
            one
            for one in session_members(claim.group)
            if one.uid == os.getuid() and one.started_ticks >= claim.group_ticks
        ]
        for one in left:
            signal_process(one.pid, one.started_ticks, signal.SIGKILL)
        return bool(left)

    def prepare(
        self, facts: JobFacts, attempt: AttemptFacts, supervisor: Supervisor
    ) -> tuple[LeaseHold, dict[str, Any]] | None:
        """Returns the lease, held for this supervisor, and what to send it; None if that failed."""
        number = facts.spec.number
        try:
            spec, name = self._folder.spec(number), attempt.claim.lease or ""
            held = hold_again(Book({VARIABLE: spec.book}), name, os.getuid(), supervisor.owner())
        except AndonError as error:
            log.warning("job %s: its container has no supervisor: %s", number, error.reason)
            return None
        log.info("job %s: a new supervisor takes over its container", facts.spec.label)
        return held, adopting_task(self._folder, spec, attempt, held, self._settings)
