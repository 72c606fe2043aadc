"""A job's record: its first line, its facts, and how an attempt ended."""

import threading
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from andon.leases.placement import Grant
from andon.leases.rules.eligibility import chosen_by
from andon.model.job.facts import AttemptEnd, AttemptVerdict, EndReason
from andon.model.job.spec import JobSpec
from andon.model.lease import Owner
from andon.model.redaction import redact
from andon.model.run.record import (
    GitState,
    RunBegin,
    RunEvent,
    RunFacts,
    RunKind,
    RunLine,
    RunState,
)
from andon.runs.facts import git_state, interpreter_of, versions_of
from andon.runs.header import new_run
from andon.runs.record import RunRecorder
from andon.runs.rules.oom import MemoryBeforeEnd, Verdict, verdict

VERSIONS_SECONDS = 600.0
"""How long the versions of an interpreter are believed: asking it takes longer than many jobs."""
CHANGED = "git commit changed since the job was submitted"
LOST = AttemptVerdict(RunState.LOST, "its supervisor was killed, or the machine restarted")


def finish(
    recorder: RunRecorder | None, end: AttemptEnd | None, tail: str, free_bytes: int | None = None
) -> AttemptVerdict:
    """Completes the record of an attempt, if there is one; `free_bytes` were free when it began.
    Without an end the attempt was lost, which a reader of the record detects itself."""
    if end is None:
        if recorder is not None:
            recorder.pause()
        return LOST
    if recorder is None:
        judged = judged_end(end, tail, ())
    else:
        judged, _ = recorder.finish(
            lambda memory: judged_end(end, tail, memory),
            tail,
            exit_code=end.exit_code,
            signal=end.signal,
            duration_seconds=round(end.seconds, 3),
        )
    out = judged.end is RunState.DEVICE_OUT_OF_MEMORY
    return AttemptVerdict(judged.end, judged.message, out, free_bytes)


def judged_end(end: AttemptEnd, tail: str, memory: Sequence[MemoryBeforeEnd]) -> Verdict:
    """Returns how an attempt ended, by the same rules as `andon run`."""
    if end.reason is EndReason.NOT_STARTED:
        return Verdict(RunState.NOT_STARTED, end.message or "the command could not be started")
    if end.exit_code is None:
        return Verdict(RunState.STOPPED, "cancelled before it began")
    late = "it ran longer than --for" if end.reason is EndReason.TIME_LIMIT else None
    requested = end.reason in (EndReason.CANCELLED, EndReason.REQUEUED, EndReason.RELEASED)
    return verdict(end.exit_code, end.signal, tail, memory, end.host_kills, late, requested)


def begin_record(spec: JobSpec, attempt: int, grant: Grant, owner: Owner) -> RunBegin:
    """Returns the first line of a job's record, whose process is the supervisor."""
    linked = grant.candidates.choice.linked
    return new_run(
        RunKind.JOB,
        spec.name,
        grant.snapshot,
        grant.uuids,
        {},
        command=redact(spec.argv),
        lease=grant.lease_id,
        waited_seconds=round(max(0.0, time.time() - spec.submitted_at), 3),
        allocation_method=chosen_by(linked, queued=True),
        world_size=len(grant.devices),
        params={**spec.params, "job": spec.label, "attempt": attempt},
        tags=spec.tags,
        pid=owner.pid,
        started=owner.started_ticks,
        working_directory=spec.folder.encode(errors="replace").decode(),
        parent=spec.environment.get("ANDON_RUN"),
        group=spec.group or (None if spec.array is None else f"job:{spec.array.id}"),
    )


class FactsFinder:
    """Finds the commit of a job's folder and its Python's versions, once for many jobs."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[float, RunFacts]] = {}
        self._lock = threading.Lock()

    def find(self, spec: JobSpec, write: Callable[[RunLine], None]) -> threading.Thread:
        thread = threading.Thread(
            target=self._find, args=(spec, write), name="andon facts", daemon=True
        )
        thread.start()
        return thread

    def _find(self, spec: JobSpec, write: Callable[[RunLine], None]) -> None:
        git: GitState | None = None
        reason: str | None = "the job was submitted outside a repository"
        if spec.git_commit is not None:
            git, reason = git_state(spec.folder)
        found = self._of(spec)
        write(replace(found, at=time.time(), git=git, git_reason=reason))
        if git is not None and spec.git_commit not in (None, git.commit):
            data = {"submitted": spec.git_commit, "started": git.commit}
            write(RunEvent(time.time(), CHANGED, data))

    def _of(self, spec: JobSpec) -> RunFacts:
        if spec.container:
            why = f"the command ran in the image {spec.container.get('image')}"
            return RunFacts(time.time(), None, None, {}, why)
        path = spec.environment.get("PATH")
        python = interpreter_of(spec.argv, path) or ""
        with self._lock:
            known = self._versions.get(python)
            if known is not None and time.monotonic() - known[0] < VERSIONS_SECONDS:
                return known[1]
            versions, reason = versions_of(spec.argv, path)
            found = RunFacts(time.time(), None, None, versions, reason)
            self._versions[python] = (time.monotonic(), found)
            return found
