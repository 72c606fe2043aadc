"""Submits jobs to Slurm and reads it, each command within the cluster's time limit.

Slurm knows its jobs for some minutes after their end, then `sacct` does where the site has it.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from andon.clusters.slurm.rules import answers, commands, reasons
from andon.clusters.slurm.rules.answers import SEPARATOR, SlurmJob
from andon.clusters.slurm.rules.commands import SameAndon
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.host.files import make_private
from andon.host.interpreter import interpreter
from andon.host.processes.child_output import ask_command
from andon.host.state.user_folder import runs_folder, state_folder
from andon.host.users import user_name
from andon.jobs.outputs import read_output
from andon.jobs.rules.cluster_task import task_of
from andon.jobs.rules.polling import PAST_SECONDS
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.model.job.cluster import ClusterJob, ClusterNode, ClusterTask, NoteFolder, NotSent
from andon.model.job.desk import LogPart, Submission
from andon.model.job.facts import JobState
from andon.sampling.rules.masks import VARIABLES as MASKS
from andon.settings.clusters import ClusterSettings
from andon.standalone import STANDALONE
from andon.units import human_seconds
from andon.version import __version__

LOGS = "clusters"
ARRAY = "SLURM_ARRAY_"
"""Variables of a job that submits another, which would take them for its own."""
ASK_AGAIN_SECONDS = 0.2
ON_ITS_WAY_SECONDS = 2.0
"""How long Slurm may take to accept a job whose client was killed or gave up."""
MOST_PLACED = 200
"""Running jobs whose devices are looked up for one list."""


class SlurmCluster:
    """Implements ports.Cluster and its abilities with the site's own commands."""

    title, able, instead = "Slurm", commands.ABLE, commands.INSTEAD
    own_lines = (
        r"srun: (?:error: )?(?:\S+: tasks? [\d,\[\]-]+: |launch/slurm: |Force Terminated "
        r"|Job step aborted: |Terminating |.*StepId=|io_init_msg|failed reading io init).*",
        r"slurmstepd\S*: error: \*\*\* (?:STEP|JOB) .*",
    )

    def __init__(
        self, settings: ClusterSettings, run: Callable[..., tuple[int, str, str]] = ask_command
    ) -> None:
        self._run = run
        self._options, self._name = commands.read_options(settings), settings.name
        self._seconds = settings.timeout_seconds
        logs = self._options.logs
        # The same on all login nodes, which share a home.
        self._logs = Path(logs).expanduser() if logs else state_folder() / LOGS / settings.name
        self.shared_folder: str | None = str(self._logs)
        self._user = user_name(os.getuid())
        self.notes: NoteFolder | None = NoteFolder(str(self._logs))

    # The port.

    @property
    def identity(self) -> str:
        return f"{os.environ.get('SLURM_CONF', '')} {self._user}"

    def submit(self, submission: Submission, again: bool = False) -> str:
        arguments, script = self._arguments(submission), self._script(submission)
        try:
            make_private(self._logs)  # Slurm would start a job and throw its output away
        except OSError as exc:
            raise NotSent(f"{self._logs} cannot be written: {exc.strerror}", "set logs") from exc
        if again and (known := self._late(submission.label)) is not None:
            return known.job.array or known.job.id
        try:
            self._refuse_longer(submission)
        except Unavailable as exc:
            raise NotSent(exc.reason, exc.hint) from exc
        variables = submission.job.environment
        out = self._ask("sbatch", *arguments, script=script, variables=variables)
        return out.strip().split(";")[0]

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        self._ping()
        listed = self._throttled(self._placed(self._squeue(*self._whose(everyone))))
        known = {job.id for job in listed}
        past = [job for job in self._past(since, everyone) if job.id not in known]
        return [job for job in (*past, *listed) if job.ended is None or job.ended > since]

    def job(self, job: str) -> ClusterJob:
        found = self._known([job])
        if exact := [one for one in found if one.job.id == job] or found:
            return self._throttled(exact[:1])[0]
        for one in self._past(time.time() - PAST_SECONDS, everyone=True, needed=True):
            if job in (one.id, one.array):
                return one
        raise Gone(
            f"Slurm knows no job {job[:60]}", hint="it forgets jobs some time after they end"
        )

    def cancel(self, ids: Sequence[str]) -> None:
        self._ping()
        jobs = self._known(ids)
        known = {name for one in jobs for name in (one.job.id, one.job.array)}
        if active := [one for one in ids if one in known]:
            self._ask("scancel", "--quiet", *active)
        for one in ids:
            if one not in known:
                self.job(one)

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        output = self._logs / f"{job}.out"
        try:
            ended = self.job(job).state.is_settled  # before the file is read: nothing comes after
        except Gone:
            if commands.JOB_ID.fullmatch(job) is None or not output.is_file():
                raise
            ended = True  # the output stays when Slurm forgets the job
        return read_output(output, start, most_bytes, ended)

    def nodes(self) -> Sequence[ClusterNode]:
        self._ping()
        form = answers.with_separators(answers.NODE_FIELDS)
        nodes = answers.parse_nodes(self._ask("sinfo", "-h", "-N", "-a", f"--Format={form}"))
        running = self._squeue(states="running") if any(one.allocated for one in nodes) else []
        return [replace(one, holders=answers.holders_on(one.name, running)) for one in nodes]

    # What else it can do.

    def foreground(self, submission: Submission) -> Sequence[str]:
        task = replace(self._task(submission), quiet=False, if_busy="", forwards=False)
        return commands.srun_command(submission, self._options, task, _installation())

    def signal(self, submission: Submission, number: int) -> None:
        until = time.monotonic() + self._seconds
        while (job := self._of_label(submission.label)) is None:
            if time.monotonic() > until:
                raise Unavailable("Slurm does not have the job yet")
            time.sleep(ASK_AGAIN_SECONDS)
        waits = job.job.state is JobState.WAITING
        sent = () if waits else (f"--signal={signal.Signals(number).name}",)
        self._ask("scancel", "--quiet", *sent, job.job.id)

    def preview(self, submission: Submission) -> str:
        arguments = self._arguments(submission)
        return commands.preview(submission, arguments, self._script(submission))

    def placed(self, submission: Submission) -> str:
        return ""

    # Reading Slurm.

    def _arguments(self, submission: Submission) -> list[str]:
        at = submission.job.begin_at
        begin = None if at is None else _local(at)
        return commands.sbatch_arguments(
            submission, self._options, str(self._logs).replace("%", "%%"), begin
        )

    def _script(self, submission: Submission) -> str:
        return commands.batch_script(submission, self._task(submission), _installation())

    def _task(self, submission: Submission) -> ClusterTask:
        where = (self._name, str(self._logs), str(runs_folder()))
        return task_of(submission, *where, **commands.task_options(submission, self._options))

    def _squeue(self, *which: str, states: str = "all") -> list[SlurmJob]:
        form = answers.with_separators(answers.JOB_FIELDS)
        out = self._ask(
            "squeue", "-h", "-r", "-a", f"--states={states}", *which, f"--Format={form}"
        )
        return answers.parse_jobs(out)

    def _whose(self, everyone: bool) -> Sequence[str]:
        return () if everyone else (f"--user={self._user}",)

    def _known(self, ids: Sequence[str]) -> list[SlurmJob]:
        """Returns which of these jobs and arrays are in Slurm's list, of any user."""
        valid = [one for one in ids if commands.JOB_ID.fullmatch(one)]
        try:
            found = self._squeue(f"--jobs={','.join(valid)}") if valid else []
        except Gone:
            return []
        return [one for one in found if {one.job.id, one.job.array} & set(ids)]

    def _of_label(self, label: str) -> SlurmJob | None:
        """Returns the job with a label."""
        jobs = self._squeue(*self._whose(everyone=False))
        return next((one for one in jobs if one.job.label == label), None)

    def _late(self, label: str) -> SlurmJob | None:
        """Returns the job that a label already has, after waiting for the request of a killed
        client, which may still reach the controller."""
        until = time.monotonic() + min(ON_ITS_WAY_SECONDS, self._seconds / 2)
        while (found := self._of_label(label)) is None and time.monotonic() < until:
            time.sleep(ASK_AGAIN_SECONDS)
        return found

    def _placed(self, jobs: list[SlurmJob]) -> list[SlurmJob]:
        """Adds the devices of running jobs, which one command reads for all."""
        running = [one.number for one in jobs if one.job.state is JobState.RUNNING][:MOST_PLACED]
        if not running:
            return jobs
        questions = "".join(f"show job {number}\n" for number in running)
        out = self._ask("scontrol", "-o", "-d", script=questions)
        return answers.on_devices(jobs, answers.parse_devices(out))

    def _throttled(self, jobs: Sequence[SlurmJob]) -> list[ClusterJob]:
        """Sets the reason of array elements that wait for others: how many may run at once."""
        waits = [one.job for one in jobs if one.reason == "JobArrayTaskLimit"]
        arrays = dict.fromkeys(one.array for one in waits)
        if not arrays:
            return [one.job for one in jobs]
        out = self._ask("scontrol", "-o", script="".join(f"show job {one}\n" for one in arrays))
        rows = [answers.parse_fields(line) for line in out.splitlines()]
        limits = {row.get("ArrayJobId"): row.get("ArrayTaskThrottle") for row in rows}
        texts = {
            one.id: reasons.array_text(limit) for one in waits if (limit := limits.get(one.array))
        }
        return [replace(one.job, reason=texts.get(one.job.id, one.job.reason)) for one in jobs]

    def _past(self, since: float, everyone: bool, needed: bool = False) -> list[ClusterJob]:
        """Returns the jobs of `sacct`; none if it has no database, or does not answer and is not
        needed."""
        who = ("--allusers",) if everyone else self._whose(everyone)
        begin = _local(max(since, 0.0))
        form = ",".join(answers.PAST_FIELDS)
        try:
            out = self._ask(
                "sacct", "-X", "-n", "-P", f"--delimiter={SEPARATOR}", *who,
                f"--starttime={begin}", "--endtime=now", f"--format={form}",
            )  # fmt: skip
        except AndonError as exc:  # a list needs no accounting database
            if needed and isinstance(exc, Unavailable):
                raise
            return []
        return answers.parse_past(out)

    def _refuse_longer(self, submission: Submission) -> None:
        """Raises an error for a job that its time limit would keep from ever starting. A quality of
        service may allow more than the partition: then Slurm decides."""
        seconds = submission.job.for_seconds
        chosen, qos = commands.place_of(submission, self._options)
        if seconds is None or qos:
            return
        chosen = chosen or submission.job.environment.get("SBATCH_PARTITION", "")
        answers.refuse_longer(seconds, self._ask("scontrol", "-o", "show", "partition"), chosen)

    def _ping(self) -> None:
        """Fails at once while the controller is away; most commands would wait for it."""
        out = self._ask("scontrol", "ping", may_fail=True)
        if " is UP" not in out:
            first = out.strip().splitlines()[:1]
            raise Unavailable(
                "Slurm's controller does not answer", hint=first[0] if first else "scontrol ping"
            )

    def _ask(
        self,
        *command: str,
        script: str = "",
        variables: Mapping[str, str] | None = None,
        may_fail: bool = False,
    ) -> str:
        environment, alone = _environment(variables or os.environ), command[0] != "sbatch"
        try:  # the sbatch of a dead client must not submit after its label was looked for
            code, out, stderr = self._run(
                command, self._seconds, script, environment, outlives=alone
            )
        except FileNotFoundError as exc:
            raise Invalid(
                f"there is no {command[0]} on PATH", hint="Slurm's commands are on its login nodes"
            ) from exc
        except TimeoutError as exc:
            raise Unavailable(f"no answer within {human_seconds(self._seconds)}") from exc
        except OSError as exc:
            raise Unavailable(f"{command[0]} cannot be run: {exc}") from exc
        if code != 0 and not may_fail:
            raise reasons.refusal(stderr or out)
        return out


def _installation() -> SameAndon:
    script = str(STANDALONE / "cluster_start.py")
    return SameAndon(interpreter(), script, __version__, os.uname().machine)


def _local(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for a command: times in seconds, without masks or leases of this
    machine's GPUs."""
    outer = (*MASKS, LEASE_VARIABLE)
    variables = {name: value for name, value in given.items() if name not in outer}
    variables = {name: value for name, value in variables.items() if not name.startswith(ARRAY)}
    place = {"SLURM_CONF": os.environ["SLURM_CONF"]} if "SLURM_CONF" in os.environ else {}
    return {**variables, **place, "SLURM_TIME_FORMAT": "%s"}
