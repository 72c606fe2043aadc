"""The record of a job's run: begun by the dispatcher, continued by the next one after a kill.

The record is in the state folder, as the queue itself is, so its lines are written directly.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import make_private
from andon.leases.placement import Grant
from andon.leases.rules.eligibility import chosen_by
from andon.model.job import AttemptEnd, AttemptFacts, AttemptVerdict, EndReason, JobSpec
from andon.model.lease import Owner
from andon.model.redaction import redact
from andon.model.run.record import (
    GitState,
    RunBegin,
    RunEnd,
    RunEvent,
    RunFacts,
    RunKind,
    RunSample,
    RunState,
)
from andon.runs.facts import git_state, interpreter_of, versions_of
from andon.runs.files import open_record, pieces
from andon.runs.header import new_run, record_path, runs_folder
from andon.runs.record import RunRecorder, SampleSource
from andon.runs.rules.lines import RecordLines
from andon.runs.rules.oom import MemoryBeforeEnd, Verdict, verdict

VERSIONS_SECONDS = 600.0
"""How long the versions of an interpreter are believed: asking it takes longer than many jobs."""
CHANGED = "git commit changed since the job was submitted"


class RecordFile:
    """Appends lines to a record, new or begun by another process. Several threads write."""

    def __init__(self, path: Path) -> None:
        self.path, self.dropped = path, 0
        self._descriptor, self._lock = -1, threading.Lock()
        self._torn = False  # it ends in half a line
        with suppress(OSError):
            make_private(path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
            size = os.fstat(self._descriptor).st_size
            self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    @property
    def writes(self) -> bool:
        return self._descriptor >= 0

    def put(self, line: str) -> None:
        """Appends a line; after half a line, which a kill or a full disk left, it begins a new
        one."""
        with self._lock:
            data = ("\n" + line if self._torn else line).encode(errors="replace")
            try:
                written = os.write(self._descriptor, data)
            except OSError:
                self.dropped += 1
                return
            self._torn = data[:written][-1:] != b"\n"
            self.dropped += written < len(data)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1


class JobRecorder:
    """The record of one attempt."""

    def __init__(self, recorder: RunRecorder, free_bytes: int | None = None) -> None:
        self.recorder, self._free_bytes = recorder, free_bytes

    def finish(self, end: AttemptEnd | None, tail: str) -> AttemptVerdict:
        """Completes the record; without an end the attempt was lost, which a reader of the
        record detects itself."""
        recorder = self.recorder
        if end is None:
            self.pause()
            return LOST
        judged, _ = recorder.finish(
            lambda strains: judged_end(end, tail, strains),
            tail,
            exit_code=end.exit_code,
            signal=end.signal,
            duration_seconds=round(end.seconds, 3),
        )
        return _said(judged, self._free_bytes)

    @staticmethod
    def without_record(end: AttemptEnd | None, tail: str) -> AttemptVerdict:
        """Returns the verdict on an attempt whose record is gone, or was never written."""
        return LOST if end is None else _said(judged_end(end, tail, ()))

    def pause(self) -> None:
        """Leave the record as it is; another dispatcher may continue it."""
        self.recorder.unfollow()
        self.recorder.file.close()

    def abandon(self) -> None:
        """Drops the record: the command did not start, so there is no run."""
        self.pause()
        self.recorder.path.unlink(missing_ok=True)


LOST = AttemptVerdict(RunState.LOST, "its supervisor was killed, or the machine restarted")


def _said(judged: Verdict, free_bytes: int | None = None) -> AttemptVerdict:
    out = judged.end is RunState.DEVICE_OUT_OF_MEMORY
    return AttemptVerdict(judged.end, judged.words, out, free_bytes)


def judged_end(end: AttemptEnd, tail: str, strains: Sequence[MemoryBeforeEnd]) -> Verdict:
    """Returns how an attempt ended, as `andon run` would report it."""
    if end.reason is EndReason.NOT_STARTED:
        return Verdict(RunState.NOT_STARTED, end.message or "the command could not be started")
    if end.exit_code is None:
        return Verdict(RunState.STOPPED, "cancelled before it began")
    late = "it ran longer than --for" if end.reason is EndReason.TIME_LIMIT else None
    asked = end.reason in (EndReason.CANCELLED, EndReason.REQUEUED, EndReason.RELEASED)
    return verdict(
        end.exit_code,
        end.signal,
        tail,
        strains,
        end.host_kills,
        late,
        asked,
    )


def begin_record(
    spec: JobSpec, attempt: int, grant: Grant, owner: Owner, folder: Path | None = None
) -> RunBegin:
    """The first line of a job's record; its process is the supervisor."""
    params: dict[str, object] = {**spec.params, "job": spec.label, "attempt": attempt}
    linked = grant.candidates.choice.linked
    begun = new_run(
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
        params=params,
        tags=spec.tags,
    )
    return replace(
        begun,
        pid=owner.pid,
        started=owner.started_ticks,
        working_directory=spec.folder.encode(errors="replace").decode(),
        parent=spec.environment.get("ANDON_RUN"),
        group=spec.group or (None if spec.array is None else f"job:{spec.array.id}"),
    )


def new_record(begin: RunBegin) -> Path:
    return record_path(runs_folder(), begin.name, begin.at)


def start_recorder(
    begin: RunBegin, path: Path, source: SampleSource, spec: JobSpec, facts: "FactsFinder"
) -> RunRecorder:
    recorder = RunRecorder(begin, RecordFile(path), source)
    recorder.start(lambda write: facts.find(spec, write, recorder.write))
    return recorder


def continued(path: Path, source: SampleSource | None) -> RunRecorder | None:
    """Returns a recorder for another dispatcher's record; None if complete or unreadable."""
    recorder: RunRecorder | None = None
    with suppress(AndonError, OSError), open_record(path) as file:
        lines = RecordLines()
        for piece in pieces(file, os.fstat(file.fileno()).st_size):
            for line in lines.feed(piece):
                if isinstance(line, RunBegin) and recorder is None:
                    recorder = RunRecorder(line, RecordFile(path), source)
                elif isinstance(line, RunSample) and recorder is not None:
                    recorder.tallies.add(line)
                elif isinstance(line, RunEnd):
                    if recorder is not None:
                        recorder.file.close()
                    return None
    if recorder is not None:
        recorder.follow()
    return recorder


def record_of(attempt: AttemptFacts) -> Path | None:
    return None if attempt.claim.record is None else Path(attempt.claim.record)


class FactsFinder:
    """Finds the commit of a job's folder and its Python's versions, once for many jobs."""

    def __init__(self) -> None:
        self._versions: dict[str, tuple[float, RunFacts]] = {}
        self._lock = threading.Lock()

    def find(
        self,
        spec: JobSpec,
        write: Callable[[RunFacts], None],
        say: Callable[[RunEvent], None],
    ) -> threading.Thread:
        thread = threading.Thread(
            target=self._find, args=(spec, write, say), name="andon facts", daemon=True
        )
        thread.start()
        return thread

    def _find(
        self, spec: JobSpec, write: Callable[[RunFacts], None], say: Callable[[RunEvent], None]
    ) -> None:
        git: GitState | None = None
        reason: str | None = "the job was submitted outside a repository"
        if spec.git_commit is not None:
            git, reason = git_state(spec.folder)
        found = self._of(spec)
        write(replace(found, at=time.time(), git=git, git_reason=reason))
        if git is not None and spec.git_commit not in (None, git.commit):
            data = {"submitted": spec.git_commit, "started": git.commit}
            say(RunEvent(time.time(), CHANGED, data))

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
