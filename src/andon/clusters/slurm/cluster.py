"""Submits jobs to Slurm and reads it, each command within the cluster's time limit.

Slurm knows its jobs for some minutes after their end, then `sacct` does where the site has it.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from andon.clusters.slurm.rules import answers, commands, reasons
from andon.clusters.slurm.rules.answers import SEPARATOR, SlurmJob
from andon.clusters.slurm.rules.commands import SameAndon
from andon.clusters.slurm.rules.refusals import over_limit, refusal
from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.host.files import make_private
from andon.host.interpreter import interpreter
from andon.host.processes.child_output import ask_command
from andon.host.state.user_folder import runs_folder, state_folder
from andon.host.users import user_name
from andon.jobs.clusters.asking import NotSent
from andon.jobs.clusters.desk import local_time
from andon.jobs.clusters.kept import KeptAnswers, SubmittedLabels
from andon.jobs.clusters.run_notes import note_of, noted_jobs, recorded_job
from andon.jobs.outputs import read_output
from andon.jobs.rules.cluster_task import task_of
from andon.jobs.rules.polling import UNWATCHED_SECONDS
from andon.jobs.rules.room import short_words
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.model.job.cluster import ClusterJob, ClusterNode, ClusterTask
from andon.model.job.desk import JobReason, LogPart, Submission
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
OWN, EVERYONES, ENDS = "squeue", "squeue-all", "squeue-ends"
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
        self._kept, self._labels = KeptAnswers(self._logs), SubmittedLabels(self._logs)

    # The port.

    @property
    def identity(self) -> str:
        return f"{os.environ.get('SLURM_CONF', '')} {self._user}"

    def submit(self, submission: Submission) -> str:
        arguments = self._arguments(submission)
        script, label = self._script(submission), submission.label
        try:
            self._ping()
            self._refuse_longer(submission)
            make_private(self._logs)  # Slurm would start a job and throw its output away
            known = self._labels.begin(label)
            if known == "":  # it was handed to Slurm before, and no answer came
                known = self._with_label(label)
        except Unavailable as exc:
            raise NotSent(exc.reason, exc.hint) from exc
        except OSError as exc:
            raise NotSent(f"{self._logs} cannot be written: {exc.strerror}", "set logs") from exc
        if known:
            return known
        try:
            out = self._ask(
                "sbatch", *arguments, script=script, variables=submission.job.environment
            )
        except Unavailable:
            raise
        except AndonError:
            self._labels.refused(label)
            raise
        finally:
            self._forget()
        job = out.strip().split(";")[0]
        self._labels.submitted(label, job)
        return job

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        self._ping()
        present = self._present(everyone)
        listed = [one.job for one in self._explained(self._placed(present))]
        known = {job.id for job in listed}
        past = [job for job in self._past(since, everyone) if job.id not in known]
        found = [self._with_run(job) for job in (*past, *listed)]
        known |= {job.id for job in past}
        found = [*self._recorded(since, known), *found]
        return [job for job in found if job.ended is None or job.ended > since]

    def cancel(self, ids: Sequence[str]) -> None:
        self._ping()
        unknown = [one for one in ids if not commands.JOB_ID.fullmatch(one) or not self._known(one)]
        if here := [one for one in ids if one not in unknown]:
            self._ask("scancel", "--quiet", *here)
            self._forget()
        for one in unknown:
            self._ended_or_gone(one)

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        ended = self._find(job).state.is_settled  # before the file is read: nothing comes after
        return read_output(self._logs / f"{job}.out", start, most_bytes, ended)

    def nodes(self) -> Sequence[ClusterNode]:
        self._ping()
        return self._nodes()

    def reasons(self, job: str) -> Sequence[JobReason]:
        self._ping()
        own = self._present(everyone=False)
        one = next((each for each in self._known(job, own) if each.job.id == job), None)
        found = self._ended_or_gone(job) if one is None else one.job
        if found.state is JobState.RUNNING or found.reason is None:
            return []
        if one is None or found.state.is_settled:
            return [JobReason(found.reason)]
        told = reasons.reason_of(one.reason)
        (explained,) = self._explained([one], own)
        text = explained.job.reason or told.text
        start = explained.job.expected_start
        advice = [told.advice] if told.advice else []
        if start is not None and start > time.time():
            advice.append(f"Slurm expects to start it in {human_seconds(start - time.time())}")
        return [JobReason(text, "; ".join(advice))]

    # What else it can do.

    def foreground(self, submission: Submission) -> Sequence[str]:
        task = replace(self._task(submission), quiet=False, if_busy="", forwards=False)
        command = commands.srun_command(submission, self._options, task, _installation())
        self._ping()
        return command

    def signal(self, submission: Submission, number: int) -> None:
        until = time.monotonic() + self._seconds
        while (job := self._of_label(submission.label)) is None:
            if time.monotonic() > until:
                raise Unavailable("Slurm does not have the job yet")
            time.sleep(ASK_AGAIN_SECONDS)
        sent = () if _waits(job) else (f"--signal={signal.Signals(number).name}",)
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

    def _present(self, everyone: bool) -> list[SlurmJob]:
        name = EVERYONES if everyone else OWN
        return answers.parse_jobs(self._kept.get(name, lambda: self._squeue(everyone)))

    def _squeue(self, everyone: bool, states: str = "all") -> str:
        who = () if everyone else (f"--user={self._user}",)
        form = answers.with_separators(answers.JOB_FIELDS)
        return self._ask("squeue", "-h", "-r", "-a", f"--states={states}", *who, f"--Format={form}")

    def _forget(self) -> None:
        self._kept.forget(OWN, EVERYONES)

    def _known(self, job: str, own: Sequence[SlurmJob] | None = None) -> list[SlurmJob]:
        """Returns a job, or the elements of an array, whoever's it is; none if Slurm's list has it
        not. What is not in this user's kept list is asked for."""
        found = _meant(self._present(everyone=False) if own is None else own, job)
        return found or _meant(answers.parse_jobs(self._squeue(everyone=True)), job)

    def _with_label(self, label: str) -> str | None:
        found = self._of_label(label)
        return None if found is None else found.job.array or found.job.id

    def _of_label(self, label: str) -> SlurmJob | None:
        """Returns the job with a label, as Slurm knows it now."""
        jobs = answers.parse_jobs(self._squeue(everyone=False))
        return next((one for one in jobs if one.job.label == label), None)

    def _placed(self, jobs: list[SlurmJob]) -> list[SlurmJob]:
        """Adds the devices of running jobs, asked for by one command."""
        running = [one.number for one in jobs if one.job.state is JobState.RUNNING][:MOST_PLACED]
        if not running:
            return jobs
        questions = "".join(f"show job {number}\n" for number in running)
        out = self._ask("scontrol", "-o", "-d", script=questions)
        return answers.on_devices(jobs, answers.parse_devices(out))

    def _explained(
        self, jobs: list[SlurmJob], around: Sequence[SlurmJob] | None = None
    ) -> list[SlurmJob]:
        """Adds what the jobs that wait for GPUs lack; `around` are this user's jobs, if there are
        more than these."""
        short = {one.job.gpus for one in jobs if _waits(one) and one.reason in reasons.SHORT_OF}
        short -= {None, 0}
        words = self._short_words(short, jobs if around is None else around) if short else {}
        limits = self._throttles([one for one in jobs if one.reason == "JobArrayTaskLimit"])

        def why(one: SlurmJob) -> str | None:
            if one.reason in reasons.SHORT_OF and one.job.gpus:
                return words[one.job.gpus]
            limit = limits.get(one.job.array or "")
            return one.job.reason if limit is None else reasons.array_words(limit)

        return [
            replace(one, job=replace(one.job, reason=why(one))) if _waits(one) else one
            for one in jobs
        ]

    def _short_words(
        self, counts: Collection[int | None], own: Sequence[SlurmJob]
    ) -> dict[int | None, str]:
        """Returns what jobs lack that wait for so many GPUs. When jobs of others must end seldom
        changes: Slurm is asked for them once a minute."""
        nodes, running = self._nodes(), partial(self._squeue, everyone=True, states="running")
        others = answers.parse_jobs(self._kept.get(ENDS, running, UNWATCHED_SECONDS))
        ends = {one.job: one for one in answers.ends_of((*others, *own))}

        return {one: short_words(one or 0, nodes, ends.values(), local_time) for one in counts}

    def _throttles(self, jobs: Sequence[SlurmJob]) -> dict[str, str]:
        """Returns how many elements of an array may run at once, by array."""
        arrays = dict.fromkeys(one.job.array for one in jobs if one.job.array is not None)
        if not arrays:
            return {}
        out = self._ask("scontrol", "-o", script="".join(f"show job {one}\n" for one in arrays))
        rows = [answers.parse_fields(line) for line in out.splitlines()]
        found = {row.get("ArrayJobId"): row.get("ArrayTaskThrottle") for row in rows}
        return {array: limit for array, limit in found.items() if array and limit}

    def _nodes(self) -> list[ClusterNode]:
        form = answers.with_separators(answers.NODE_FIELDS)
        return answers.parse_nodes(self._ask("sinfo", "-h", "-N", "-a", f"--Format={form}"))

    def _past(self, since: float, everyone: bool, needed: bool = False) -> list[ClusterJob]:
        """Returns the jobs that `sacct` knows; none where it keeps none, or does not answer and is
        not needed."""
        who = ("--allusers",) if everyone else (f"--user={self._user}",)
        begin = _local(max(since, 0.0))
        form = ",".join(answers.PAST_FIELDS)
        try:
            out = self._ask(
                "sacct", "-X", "-n", "-P", f"--delimiter={SEPARATOR}", *who,
                f"--starttime={begin}", "--endtime=now", f"--format={form}",
            )  # fmt: skip
        except AndonError as exc:  # accounts that are away cost no list
            if needed and isinstance(exc, Unavailable):
                raise
            return []
        return answers.parse_past(out)

    def _with_run(self, job: ClusterJob) -> ClusterJob:
        """Adds the run of a job that andon submitted and that has begun."""
        if job.label is None or job.started is None:
            return job
        note = note_of(self._logs, job.id)
        return job if note is None else replace(job, run=note.run)

    def _recorded(self, since: float, known: Collection[str]) -> list[ClusterJob]:
        """Returns jobs that Slurm has forgotten, from their records."""
        forgotten = [job for job in noted_jobs(self._logs, since) if job not in known]
        notes = [note_of(self._logs, job) for job in forgotten]
        return [recorded_job(note) for note in notes if note is not None]

    def _find(self, job: str) -> ClusterJob:
        """Returns one job, whoever's it is; Gone if Slurm does not know it."""
        self._ping()
        found = next((one.job for one in self._known(job) if one.job.id == job), None)
        return found or self._ended_or_gone(job)

    def _ended_or_gone(self, job: str) -> ClusterJob:
        note = note_of(self._logs, job)
        for one in self._past(time.time() - 86_400.0, everyone=True, needed=note is None):
            if job in (one.id, one.array):
                return one
        if note is not None:
            return recorded_job(note)
        raise Gone(
            f"Slurm knows no job {job[:60]}", hint="it forgets jobs some time after they end"
        )

    def _refuse_longer(self, submission: Submission) -> None:
        """Refuses a job that would never start because of its time limit. A quality of service may
        allow more than the partition: then Slurm decides."""
        seconds = submission.job.for_seconds
        chosen, qos = commands.place_of(submission, self._options)
        if seconds is None or qos:
            return
        chosen = chosen or submission.job.environment.get("SBATCH_PARTITION", "")
        error = over_limit(seconds, self._ask("scontrol", "-o", "show", "partition"), chosen)
        if error is not None:
            raise error

    def _ping(self) -> None:
        """Fails at once while the controller is away; most commands would wait for it."""
        out = self._ask("scontrol", "ping", may_fail=True)
        if " is UP" not in out:
            told = out.strip().splitlines()[:1]
            raise Unavailable(
                "Slurm's controller does not answer", hint=told[0] if told else "scontrol ping"
            )

    def _ask(
        self,
        *command: str,
        script: str = "",
        variables: Mapping[str, str] | None = None,
        may_fail: bool = False,
    ) -> str:
        try:
            code, out, said = self._run(
                command, self._seconds, script, _environment(variables or os.environ), outlives=True
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
            raise refusal(said or out)
        return out


def _installation() -> SameAndon:
    script = str(STANDALONE / "cluster_start.py")
    return SameAndon(interpreter(), script, __version__, os.uname().machine)


def _meant(jobs: Sequence[SlurmJob], job: str) -> list[SlurmJob]:
    return [one for one in jobs if job in (one.job.id, one.job.array)]


def _local(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


def _waits(one: SlurmJob) -> bool:
    return one.job.state is JobState.WAITING


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for a command: times in seconds, and no mask and no lease of this
    machine's GPUs."""
    outer = (*MASKS, LEASE_VARIABLE)
    kept = {name: value for name, value in given.items() if name not in outer}
    kept = {name: value for name, value in kept.items() if not name.startswith(ARRAY)}
    place = {"SLURM_CONF": os.environ["SLURM_CONF"]} if "SLURM_CONF" in os.environ else {}
    return {**kept, **place, "SLURM_TIME_FORMAT": "%s"}
