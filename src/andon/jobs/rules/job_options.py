"""The options of a job: one table for the command line, job files, REST, Python and refusals.

`submit` must be quick: how each kind is read stands where it is read.
"""

from msgspec import Struct

from andon.model.job.desk import Able


class JobOption(Struct, frozen=True):
    """One row: an option, and its name in each interface."""

    key: str  # of a job file, and Python's keyword
    kind: str  # how it is written: a key of file_keys.READERS
    about: str  # in a job file
    field: str = ""  # of JobSpec, or of FileJob what JobSpec has otherwise; empty: the key
    help: str = ""  # on the command line; empty: not an option, or one of other commands too
    metavar: str = ""
    option: str = ""  # on the command line, if it is not the key
    able: Able | None = None  # what a desk must be able to do, for a field of JobSpec
    of_spec: bool = True  # whether JobSpec has it as it is
    short: str = ""  # on the command line

    @property
    def name(self) -> str:
        return self.field or self.key

    @property
    def word(self) -> str:
        """The option as it is written on the command line."""
        return f"--{self.option or self.key.replace('_', '-')}"


JOB_OPTIONS = (
    JobOption("command", "command", "a list of words, or a text for a shell; required",
              of_spec=False),
    JobOption("folder", "folder", "where it runs; relative to the file", of_spec=False),
    JobOption("timeout", "timeout", "its longest wait", "timeout_seconds",
              "Fail after waiting this long.", "TIME", able=Able.TIMEOUT, short="-t"),
    JobOption("for", "lasting", "its longest time", "for_seconds",
              "Stop the command after this time: 2h.", "TIME"),
    JobOption("bind", "flag", "run it on the CPUs next to its GPUs", able=Able.BIND,
              help="Run it on the CPUs next to its GPUs (NUMA)."),
    JobOption("grace", "grace", "between SIGTERM and SIGKILL", "grace_seconds",
              "Time from SIGTERM to SIGKILL [10s].", "TIME"),
    JobOption("name", "text", "what to call it", "", "Name of the job and its run.", "NAME"),
    JobOption("after", "words", "jobs that must have succeeded: numbers, or names in this file",
              "", "Start when these have succeeded.", "JOB,…", of_spec=False),
    JobOption("after_any", "words", "jobs that must have ended", "",
              "Start when these have ended.", "JOB,…", of_spec=False),
    JobOption("begin", "moment", "not before this time", "",
              "Start no earlier than: 2h, 22:30, Fri 18:00.", "TIME", of_spec=False),
    JobOption("reservation", "text", "your reservation: in its time, on its GPUs", "",
              "Start within your reservation, on its GPUs.", "ID", able=Able.RESERVATION),
    JobOption("array", "array", "one job per index: 0-99%4", "",
              "One job per index; at most N at once.", "0-9[%N]", of_spec=False),
    JobOption("parameters", "parameters", "lists of values: one job for each combination", "",
              "One job per value, {NAME} in the command: lr=0.1,0.01, seed=1..5, @FILE.",
              "NAME=VALUES", "param", of_spec=False),
    JobOption("zip", "flag", "pairs of their values instead of every combination", "",
              "First values of all --param together, then the second.", of_spec=False),
    JobOption("sample", "combinations", "only so many of the combinations", "",
              "Only N of the combinations.", "N", of_spec=False),
    JobOption("sample_seed", "number", "which ones", "", "Which ones [default: 0].", "N",
              of_spec=False),
    JobOption("metrics", "metrics", "figures that it prints: a name and a pattern each", "",
              r"Record a figure that it prints: 'loss=([\d.]+)'.", "NAME=REGEX", "metric",
              Able.METRICS),
    JobOption("stop_when", "rule", "cancels it by a figure: loss>2 after 10m", "",
              "Cancel it by a figure: 'loss>2 after 10m'.", "RULE", able=Able.STOP_WHEN),
    JobOption("retries", "retries", "after a failure", "",
              "Retry up to N times after a failure.", "N", able=Able.RETRIES),
    JobOption("retry_lost", "flag", "again after a restart of the machine", "",
              "Retry after a crash of the machine.", able=Able.RETRY_LOST),
    JobOption("retry_oom", "retries", "with more memory, when it ran out", "",
              "On GPU out-of-memory, retry up to N times with more.", "N", able=Able.RETRY_OOM),
    JobOption("checkpoint", "checkpoint",
              "a signal before `for` ends and when it is requeued: USR1@60s", "",
              "Signal before --for ends, and of requeue: USR1@60s.", "SIG[@TIME]",
              able=Able.CHECKPOINT),
    JobOption("notify", "notify", "end or fail", "", "Send a message at the end.",
              able=Able.NOTIFY),
    JobOption("tags", "words", "of its run", "", "Tag the run.", "TAG", "tag"),
    JobOption("check", "flag", "check its GPUs first; bad ones are given back, once", "",
              "Check its GPUs first, for two seconds.", able=Able.CHECK),
    JobOption("unique", "flag",
              "not while a job with the same name, command and folder waits or runs", "",
              "Not if the same job already waits or runs.", able=Able.UNIQUE),
    JobOption("simulate", "simulate", "this many simulated devices instead of real ones"),
    JobOption("image", "text", "a container image to run it in", of_spec=False),
    JobOption("on", "text",
              "the cluster it runs on; else jobs.on of the settings; here: this machine",
              of_spec=False),
    JobOption("engine_options", "words", "with on: options in the cluster's own words",
              of_spec=False),
    JobOption("group", "text", "the group of its run: andon runs compare --group"),
    JobOption("params", "params", "parameters that its run is recorded with"),
    JobOption("server", "server", "a server under test instead of a command", of_spec=False),
    JobOption("load", "loads", "the loads that the server gets", "loads", of_spec=False),
    JobOption("environment", "environment", "variables on top of those at submission",
              of_spec=False),
)  # fmt: skip
"""In the order of the command line."""
