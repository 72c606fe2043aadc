"""Starts supervisors, and hands each its job with the locked files of its lease."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.host.interpreter import isolated_command, module_environment, process_command
from andon.host.machine_id import node_name
from andon.host.processes.kin import myself, started_ticks
from andon.jobs.folder import BELL, LOCK, LOG, JobsFolder
from andon.jobs.log_out import scope_prefix
from andon.leases.book.hold import LeaseHold
from andon.leases.placement import Placement
from andon.model.job import facts
from andon.model.job.facts import AttemptFacts
from andon.model.job.spec import JobSpec, NotifyWhen
from andon.model.lease import Owner
from andon.runs.rules.ranks import run_variables
from andon.standalone import STANDALONE
from andon.work.containers.task import clean_command, follow_command, task_command
from andon.work.preparing import defaults, environment_of

SUPERVISE = (
    "import sys; sys.path.append(sys.argv[1]); import job_supervisor as s; sys.exit(s.main())"
)
"""Imported and not run as a script, which Python would compile at each start; last on the path, so
that nothing beside it hides a module of Python."""
JOB_VARIABLE, INDEX_VARIABLE = "ANDON_JOB", "ANDON_ARRAY_INDEX"
MOST_SPARE = 4  # supervisors that wait for a job
SEND_SECONDS = 10.0  # for a supervisor to take its task, most of which is the environment


class DispatcherSettings(Struct, frozen=True):
    log_bytes: int
    idle_seconds: float
    grace_seconds: float  # of jobs that name none
    notify: NotifyWhen | None = None  # of jobs that say nothing
    notify_turn: bool = False  # that a job starts, too


class AttemptRun(Struct, frozen=True):
    """The run of an attempt: the devices, lease, record and port of its command."""

    placement: Placement
    held: LeaseHold
    run: str
    record: Path
    port: int | None = None
    cpus: frozenset[int] | None = None  # that its command is bound to


class Supervisor:
    """A supervisor as its dispatcher sees it; it waits until it is sent a job."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        command = isolated_command("-c", SUPERVISE, str(STANDALONE))
        try:
            self._process = subprocess.Popen(
                [*scope_prefix(f"andon-job-{os.urandom(6).hex()}"), *command],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        finally:
            theirs.close()
        self.received = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def owner(self) -> Owner:
        """Returns the supervisor as the holder of a lease that this dispatcher takes for it."""
        pid = self.pid
        return replace(myself(pid), started_ticks=started_ticks(pid) or 0, session=pid)

    def send(
        self, task: Mapping[str, Any], held: LeaseHold, timeout_seconds: float = SEND_SECONDS
    ) -> None:
        """Sends everything the supervisor needs; from here on the lease is its own. Raises
        OSError if it has died, or is stopped and does not take it in time."""
        data = facts.dumps(task).encode()
        message = len(data).to_bytes(8, "big") + data
        self._channel.settimeout(timeout_seconds)
        sent = socket.send_fds(self._channel, [message], list(held.hold.descriptors))
        self._channel.sendall(message[sent:])
        self._channel.setblocking(False)

    def answer(self) -> str | None:
        """Returns `claimed`, `taken` or `failed …`; empty if the supervisor died, None if there
        is no answer yet."""
        with suppress(BlockingIOError, ConnectionError):
            piece = self._channel.recv(4096)
            self.received += piece.decode(errors="replace")
            if not piece and "\n" not in self.received:
                return ""
        if "\n" in self.received:
            return self.received.partition("\n")[0]
        return None if self._process.poll() is None else ""

    @property
    def has_ended(self) -> bool:
        """Whether its process has exited; it is no longer a zombie then."""
        return self._process.poll() is not None

    def let_go(self) -> None:
        """Closes the channel: a supervisor without a job then exits."""
        self._channel.close()

    def kill(self) -> None:
        """Kills the supervisor, unless it has ended: its pid may be another process's by now."""
        self._process.kill()
        self._process.wait()


class SupervisorPool:
    """Supervisors that wait for a job: starting one takes longer than many jobs."""

    def __init__(self) -> None:
        self._spare: list[Supervisor] = []
        self._leaving: list[Supervisor] = []

    def take(self) -> Supervisor:
        while self._spare:
            found = self._spare.pop()
            if not found.has_ended:
                return found
            found.let_go()
        return Supervisor()

    def give(self, supervisor: Supervisor) -> None:
        """Takes back a supervisor whose lease was not granted."""
        if len(self._spare) < MOST_SPARE:
            self._spare.append(supervisor)
        else:
            supervisor.let_go()
            self._leaving.append(supervisor)

    def prepare(self, count: int) -> None:
        while len(self._spare) < min(count, MOST_SPARE):
            self._spare.append(Supervisor())

    def reap(self) -> None:
        self._leaving = [one for one in self._leaving if not one.has_ended]

    def close(self) -> None:
        for one in self._spare:
            one.let_go()
        self._leaving += self._spare
        self._spare = []
        self.reap()


def task_for(
    folder: JobsFolder,
    spec: JobSpec,
    attempt: int,
    begun: AttemptRun,
    settings: DispatcherSettings,
) -> dict[str, Any]:
    """Returns what is sent to a supervisor."""
    checkpoint = spec.checkpoint
    contained = bool(spec.container)
    own = str(folder.attempt(spec.number, attempt))
    return {
        "job": str(folder.job(spec.number)),
        "bell": str(folder.path / BELL),
        "attempt": attempt,
        "argv": container_command(spec, begun, own) if contained else list(spec.argv),
        "environment": client_environment(spec, begun)
        if contained
        else job_environment(spec, begun),
        "clean": clean_command(begun.held.lease.id) if contained else None,
        "folder": spec.folder,
        "umask": spec.umask,
        "cpus": None if begun.cpus is None else sorted(begun.cpus),
        "lease_file": begun.held.hold.name,
        "for_seconds": _lasts_seconds(spec, begun),
        "grace_seconds": settings.grace_seconds
        if spec.grace_seconds is None
        else spec.grace_seconds,
        "checkpoint": None
        if checkpoint is None
        else [signal_number(checkpoint.signal), checkpoint.seconds],
        "log_bytes": settings.log_bytes,
        "claim": {
            "boot": begun.held.lease.owner.boot,
            "lease": begun.held.lease.id,
            "devices": [device.uuid for device in begun.placement.devices],
            "labels": begun.placement.label.split(",") if begun.placement.devices else [],
            "run": begun.run,
            "record": str(begun.record),
            "node": node_name(),
        },
        "dispatcher": {
            "lock": str(folder.path / LOCK),
            "log": str(folder.path / LOG),
            "argv": process_command("dispatcher", str(folder.path)),
            "environment": module_environment(),
        },
    }


def adopting_task(
    folder: JobsFolder,
    spec: JobSpec,
    attempt: AttemptFacts,
    held: LeaseHold,
    settings: DispatcherSettings,
) -> dict[str, Any]:
    """Returns what is sent to a supervisor that takes over an attempt in a container."""
    claim, output = attempt.claim, folder.output(spec.number, attempt.number)
    begun = AttemptRun(Placement(), held, claim.run or "", Path(claim.record or os.devnull))
    written = output.stat().st_mtime if output.exists() else claim.at
    until = held.lease.until
    return {
        **task_for(folder, spec, attempt.number, begun, settings),
        "adopt": claim.at,
        "argv": follow_command(held.lease.id, spec.container.get("image"), written),
        "for_seconds": None if until is None else max(0.0, until - time.time()),
    }


def _lasts_seconds(spec: JobSpec, begun: AttemptRun) -> float | None:
    """Returns the requested length, or what root's policy made of it."""
    lease = begun.held.lease
    return spec.for_seconds if lease.until is None else lease.until - lease.since


def container_command(spec: JobSpec, begun: AttemptRun, attempt: str) -> list[str]:
    """Returns the command that runs the job's own in a container."""
    variables = {**defaults({}, begun.port), **_job_variables(spec, begun, inside=True)}
    lease = begun.held.lease.id
    return task_command(
        spec.container, lease, begun.placement.devices, variables, spec.argv, attempt=attempt
    )


def client_environment(spec: JobSpec, begun: AttemptRun) -> dict[str, str]:
    """Returns what the engine's client needs: the submitter's variables, and the path of andon."""
    return {**module_environment(spec.environment), **_job_variables(spec, begun)}


def job_environment(spec: JobSpec, begun: AttemptRun) -> dict[str, str]:
    """Returns the environment of the submission, with the devices of the lease and the run."""
    return environment_of(
        spec.environment, begun.placement, _job_variables(spec, begun), begun.port
    )


def _job_variables(spec: JobSpec, begun: AttemptRun, inside: bool = False) -> dict[str, str]:
    """The variables with the job's run and number; without the record's path inside a container."""
    variables = run_variables(begun.run, None if inside else str(begun.record))
    variables[JOB_VARIABLE] = spec.label
    if spec.array is not None:
        variables[INDEX_VARIABLE] = str(spec.array.index)
    return variables


def signal_number(name: str) -> int:
    return int(signal.Signals[f"SIG{name.removeprefix('SIG')}"])
