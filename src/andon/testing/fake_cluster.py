"""A cluster that is a file: jobs are played, not run, and time passes when a test lets it.

The state is in a folder, so that a test, a command and a server see the same cluster. A job's
script may have `echo TEXT`, `sleep SECONDS`, `exit CODE` and `kill -NUMBER $$`, with ; in between;
`sh -c SCRIPT` and a command of one of these are played, anything else ends at once with exit code
0.
"""

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from andon.errors import Gone, Invalid, Unavailable
from andon.host.files import lock, make_private
from andon.host.users import user_name
from andon.model.codec import prepared
from andon.model.job.cluster import ClusterJob, ClusterNode, GpuHolder, NoteFolder
from andon.model.job.desk import Able, LogPart, Submission
from andon.model.job.facts import JobState
from andon.settings.clusters import ClusterSettings

STATE, LOCK = "state.json", "lock"
QUEUE = "main"
SHORT = "no node can take it now"
LOG_IT = "no andon runs inside its jobs: let the program log its figures: andon.run().log(loss=…)"


class PlayedNode(Struct):
    """A node of the fake: its GPUs are numbered from 0."""

    name: str
    gpus: int
    model: str = "Fake GPU"


class PlayedJob(Struct):
    """A job of the fake; its times are on the fake's clock."""

    id: str
    label: str
    name: str
    user: str
    command: str
    gpus: int
    submitted_at: float
    seconds: float
    exit_code: int
    lines: list[tuple[float, str]]  # each after so many seconds
    after: list[str] = field(default_factory=list)
    after_any: list[str] = field(default_factory=list)
    array: str | None = None
    index: int | None = None
    limit: int | None = None
    started: float | None = None
    ended: float | None = None
    node: str | None = None
    devices: list[int] = field(default_factory=list)
    cancelled: bool = False
    run: str | None = None
    signal: int | None = None

    @property
    def runs(self) -> bool:
        return self.started is not None and self.ended is None


class PlayedState(Struct):
    """Everything the fake knows. `fault` is what is wrong with it: `away` with a reason, `slow` by
    so many real seconds, `silent` with the reason why it has no output, or `dies` before or after
    it takes the next job."""

    now: float
    nodes: list[PlayedNode]
    jobs: list[PlayedJob] = field(default_factory=list)
    last: int = 4710
    fault: dict[str, Any] = field(default_factory=dict)
    real_time: bool = False  # the clock is this machine's


class FakeCluster:
    """Implements andon.ports.Cluster. Its options: `folder`, which `make` prepared, and `user`."""

    title = "The fake"
    able = frozenset(Able) - {
        Able.UNIQUE, Able.NOTIFY, Able.METRICS, Able.STOP_WHEN, Able.QUEUED, Able.PREVIEW,
        Able.FOREGROUND,
    }  # fmt: skip
    instead: Mapping[Able, str] = {Able.METRICS: LOG_IT, Able.STOP_WHEN: LOG_IT}
    shared_folder: str | None = None
    notes: NoteFolder | None = None

    def __init__(self, settings: ClusterSettings) -> None:
        options = dict(settings.options)
        folder, user = options.pop("folder", None), options.pop("user", None)
        if not isinstance(folder, str) or options:
            raise Invalid("a fake cluster takes folder and user, and needs a folder")
        self._folder, self._limit = Path(folder), settings.timeout_seconds
        self._user = user or user_name(os.getuid())

    @property
    def identity(self) -> str:
        return f"{self._folder} {self._user}"

    @classmethod
    def make(
        cls, folder: Path, *nodes: PlayedNode, now: float | None = None, timeout: float = 10.0
    ) -> "FakeCluster":
        """Makes a cluster in this folder; without `now` its clock is this machine's."""
        make_private(folder)
        state = PlayedState(time.time() if now is None else now, list(nodes))
        state.real_time = now is None
        _write(folder, state)
        return cls(ClusterSettings("fake", "fake", timeout, {"folder": str(folder)}))

    # What a test does.

    def advance(self, seconds: float) -> None:
        """Let time pass: jobs start, print and end."""
        with self._state(faults=False) as state:
            _play(state, state.now + seconds)

    def break_(self, **fault: Any) -> None:
        """Makes it fail from now on: `away="…"`, `slow=5`, `dies="before"` or "after"; without
        any, it works again."""
        with self._state(faults=False) as state:
            state.fault = fault

    def forget(self, job: str) -> None:
        """Drops a job that it knew."""
        with self._state(faults=False) as state:
            state.jobs = [one for one in state.jobs if job not in (one.id, one.array)]

    # The port.

    def submit(self, submission: Submission, again: bool = False) -> str:
        with self._state() as state:
            dies = state.fault.get("dies")
            if dies == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            for one in state.jobs if again else ():
                if one.label == submission.label:
                    return one.array or one.id
            most = max(node.gpus for node in state.nodes)
            if submission.job.request.least > most:
                raise Invalid(
                    f"no node has {submission.job.request.least} GPUs: the largest has {most}",
                    hint=f"--gpus {most}",
                )
            state.last += 1
            state.jobs += _jobs_of(submission, str(state.last), self._user, state.now)
            _play(state, state.now)
            if dies == "after":
                _write(self._folder, replace(state, fault={}))
                os.kill(os.getpid(), signal.SIGKILL)
            return str(state.last)

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        with self._state() as state:
            return [
                _seen(one, state)
                for one in state.jobs
                if (everyone or one.user == self._user) and (one.ended is None or one.ended > since)
            ]

    def cancel(self, ids: Sequence[str]) -> None:
        with self._state() as state:
            unknown = [one for one in ids if not _meant(state, one)]
            for one in (job for name in ids for job in _meant(state, name)):
                if one.ended is None:
                    one.cancelled, one.ended = True, state.now
            _play(state, state.now)
            if unknown:
                raise Gone(f"there is no job {unknown[0]}")

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        with self._state() as state:
            if "silent" in state.fault:
                raise Unavailable(str(state.fault["silent"]))
            one = _one(state, job)
            began = state.now if one.started is None else one.started
            until = state.now if one.ended is None else one.ended
            printed = "".join(text + "\n" for at, text in one.lines if began + at <= until)
            content = printed.encode() if one.started is not None else b""
            begin = max(0, len(content) - most_bytes) if start is None else min(start, len(content))
            part = content[begin : begin + most_bytes]
            while (
                part
                and begin + len(part) < len(content)
                and content[begin + len(part)] & 0xC0 == 0x80
            ):
                part = part[:-1]
            text = part.decode("utf-8", "replace")
            return LogPart(begin, begin + len(part), text, one.ended is not None)

    def nodes(self) -> Sequence[ClusterNode]:
        with self._state() as state:
            return [
                ClusterNode(
                    node.name, "ready", True, node.gpus, len(taken := _taken(state, node)),
                    node.gpus - len(taken), node.model, holders=_holders(state, node),
                )
                for node in sorted(state.nodes, key=lambda node: node.name)
            ]  # fmt: skip

    def job(self, job: str) -> ClusterJob:
        with self._state() as state:
            found = [_seen(one, state) for one in _meant(state, job)]
            if not found:
                raise Gone(f"there is no job {job}")
            return next((one for one in found if not one.state.is_settled), found[0])

    @contextmanager
    def _state(self, faults: bool = True) -> Iterator[PlayedState]:
        """Yields the state as it is now, and writes what changed, also where a call fails."""
        if faults:
            self._suffer()
        with (self._folder / LOCK).open("a") as file:
            lock(file.fileno(), wait=True)
            state = convert(json.loads((self._folder / STATE).read_text()), prepared(PlayedState))
            if state.real_time:
                _play(state, time.time())
            try:
                yield state
            finally:
                _write(self._folder, state)

    def _suffer(self) -> None:
        with self._state(faults=False) as state:
            fault = dict(state.fault)
        if "away" in fault:
            raise Unavailable(str(fault["away"]), hint="is it running?")
        slow = float(fault.get("slow", 0.0))
        time.sleep(min(slow, self._limit))
        if slow > self._limit:
            raise Unavailable(f"no answer within {self._limit:g} s")


class FakeForegroundCluster(FakeCluster):
    """A fake that also runs a job at this terminal: its command is really executed, here."""

    able = FakeCluster.able | {Able.PREVIEW, Able.FOREGROUND}
    own_lines = ()

    def foreground(self, submission: Submission) -> Sequence[str]:
        noted = f'echo $$ > {shlex.quote(str(self._pid(submission)))}; exec "$@"'
        return ["sh", "-c", noted, "sh", *submission.job.argv]

    def signal(self, submission: Submission, number: int) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self._pid(submission).read_text()), number)

    def _pid(self, submission: Submission) -> Path:
        return self._folder / f"{submission.label}.pid"

    def preview(self, submission: Submission) -> str:
        return f"# {submission.label}\n{shlex.join(submission.job.argv)}\n"

    def placed(self, submission: Submission) -> str:
        return ""


def _write(folder: Path, state: PlayedState) -> None:
    draft = folder / f"{STATE}.{os.getpid()}"
    draft.write_text(json.dumps(to_builtins(state)))
    draft.rename(folder / STATE)


# How jobs are played.


def _jobs_of(submission: Submission, number: str, user: str, now: float) -> list[PlayedJob]:
    spec = submission.job
    lines, seconds, code, signal_number = _script(spec.argv)
    one = PlayedJob(
        number, submission.label, spec.name, user, shlex.join(spec.argv), spec.request.least, now,
        seconds, code, lines, list(submission.after), list(submission.after_any),
        signal=signal_number,
    )  # fmt: skip
    if not submission.indices:
        return [one]
    return [
        replace(one, id=f"{number}_{index}", array=number, index=index, limit=submission.limit)
        for index in submission.indices
    ]


def _script(argv: Sequence[str]) -> tuple[list[tuple[float, str]], float, int, int | None]:
    """Returns what a command prints when, how long it takes, its exit code and its signal."""
    text = argv[2] if tuple(argv[:2]) in (("sh", "-c"), ("/bin/sh", "-c")) else shlex.join(argv)
    lines, at = list[tuple[float, str]](), 0.0
    for part in text.split(";"):
        arguments = shlex.split(part)
        match arguments:
            case ["echo", *texts]:
                lines.append((at, " ".join(texts)))
            case ["sleep", seconds]:
                at += float(seconds)
            case ["exit", code]:
                return lines, at, int(code), None
            case ["kill", number, "$$"]:
                return lines, at, 128 - int(number), -int(number)
    return lines, at, 0, None


def _play(state: PlayedState, until: float) -> None:
    """Moves the clock: every job starts and ends at its time."""
    while True:
        _start(state)
        ends = [(one.started or 0.0) + one.seconds for one in state.jobs if one.runs]
        nearest = min(ends, default=until + 1)
        if nearest > until:
            break
        state.now = max(state.now, nearest)
        for one in state.jobs:
            if one.runs and (one.started or 0.0) + one.seconds <= state.now:
                one.ended = (one.started or 0.0) + one.seconds
    state.now = max(state.now, until)


def _start(state: PlayedState) -> None:
    for one in state.jobs:
        if one.started is None and one.ended is None and _obstacle(state, one) is None:
            place = _place(state, one)
            if place is not None:
                one.started, (one.node, one.devices) = state.now, place


def _obstacle(state: PlayedState, one: PlayedJob) -> str | None:
    """Why a job may not start even if there are GPUs; one that never may is cancelled."""
    for name in (*one.after, *one.after_any):
        for other in _meant(state, name):
            if other.ended is None:
                return f"after job {other.id}"
            if name in one.after and (other.cancelled or other.exit_code):
                one.cancelled, one.ended = True, state.now
                return f"job {other.id} did not succeed"
    running = sum(other.runs for other in state.jobs if other.array == one.array)
    if one.array is not None and one.limit is not None and running >= one.limit:
        return f"at most {one.limit} of its tasks run at once"
    return None


def _place(state: PlayedState, one: PlayedJob) -> tuple[str, list[int]] | None:
    for node in state.nodes:
        free = [n for n in range(node.gpus) if n not in _taken(state, node)]
        if len(free) >= one.gpus:
            return node.name, free[: one.gpus]
    return None


def _taken(state: PlayedState, node: PlayedNode) -> list[int]:
    return [n for one in state.jobs if one.runs and one.node == node.name for n in one.devices]


def _holders(state: PlayedState, node: PlayedNode) -> tuple[GpuHolder, ...]:
    return tuple(
        GpuHolder(one.id, one.gpus, one.started)
        for one in state.jobs
        if one.runs and one.node == node.name and one.gpus
    )


def _seen(one: PlayedJob, state: PlayedState) -> ClusterJob:
    now, reason = _state_of(one, state)
    devices = ", ".join(map(str, one.devices))
    return ClusterJob(
        id=one.id, name=one.name, state=now, user=one.user, submitted_at=one.submitted_at,
        gpus=one.gpus, where=f"{one.node} GPU {devices}" if one.node else QUEUE,
        command=one.command, reason=reason, label=one.label, array=one.array,
        array_index=one.index, started=one.started, ended=one.ended,
        exit_code=None if one.ended is None or one.cancelled or one.signal else one.exit_code,
        signal=None if one.ended is None or one.cancelled else one.signal,
        short_of_gpus=reason == SHORT,
    )  # fmt: skip


def _state_of(one: PlayedJob, state: PlayedState) -> tuple[JobState, str | None]:
    if one.cancelled:
        return JobState.CANCELLED, _obstacle(state, replace(one)) or "cancelled"
    if one.ended is not None:
        if one.exit_code == 0:
            return JobState.SUCCEEDED, None
        signalled = one.signal is not None
        how = f"killed by signal {one.signal}" if signalled else f"exit code {one.exit_code}"
        return JobState.FAILED, how
    if one.started is not None:
        return JobState.RUNNING, None
    return JobState.WAITING, _obstacle(state, one) or SHORT


def _meant(state: PlayedState, name: str) -> list[PlayedJob]:
    return [one for one in state.jobs if name in (one.id, one.array)]


def _one(state: PlayedState, name: str) -> PlayedJob:
    found = [one for one in state.jobs if one.id == name]
    if not found:
        raise Gone(f"there is no job {name}")
    return found[0]
