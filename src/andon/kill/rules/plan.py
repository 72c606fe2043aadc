"""Ending processes: which may be ended, in which order, and every message about it.

`andon kill` and the key of `andon top` use these rules. The signal itself is sent in
`kill/ending.py`.
"""

import signal
from collections.abc import Sequence

from msgspec import Struct

from andon.errors import AndonError, Denied, Gone, Invalid
from andon.units import and_more, human_bytes, human_seconds, sh

SAME_START_SECONDS = 1.5  # the kernel's boot time, from which starts are counted, moves by a second
MOST_CHILDREN = 4  # named in one line
ENDING_SIGNALS = frozenset(("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGKILL", "SIGABRT"))
"""Those after which a process is expected to end."""


class EndRequester(Struct, frozen=True):
    """Who ends a process: this user, and the processes from which the request comes."""

    uid: int
    line: frozenset[int]  # the asking process and its ancestors


class EndLease(Struct, frozen=True):
    """The lease that a process belongs to, and whether this user may release it."""

    id: str
    user: str
    releasable: bool


class EndTarget(Struct, frozen=True):
    """A process that may be ended, as shown before the question."""

    pid: int
    user: str | None
    program: str
    command: str | None
    age_seconds: float | None
    permitted: bool = True  # the kernel lets this user signal it
    kernel_thread: bool = False
    memory_bytes: int | None = None  # on all devices; None where it is unknown
    devices: tuple[str, ...] | None = ()  # their labels; empty if it uses none, None: unknown
    lease: EndLease | None = None
    job: str | None = None  # `slurm:42.0`, `job:k7qm2x`
    container: str | None = None
    children: tuple[tuple[int, str], ...] = ()  # all descendants: pid and name
    depth: int = 0  # of a descendant that is ended with the process above it


class LargerTarget(Struct, frozen=True):
    """What a process is a part of, and what can be done to all of it instead."""

    key: str  # that chooses it
    verb: str
    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.verb} {self.kind} {self.id}"


def parse_pids(texts: Sequence[str]) -> tuple[int, ...]:
    """Parses pids; Invalid names every one that is not the pid of a single process."""
    mistakes = tuple(filter(None, map(_mistake, texts)))
    if mistakes:
        raise Invalid(mistakes[0], hint="andon ps lists the processes", mistakes=mistakes)
    return tuple(dict.fromkeys(int(text) for text in texts))


def parse_signal(word: str) -> signal.Signals:
    """Parses `TERM`, `SIGTERM`, `term` or `15`."""
    text = word.strip().upper()
    try:
        if text.isdecimal():
            return signal.Signals(int(text))
        return signal.Signals[text if text.startswith("SIG") else f"SIG{text}"]
    except (KeyError, ValueError) as exc:
        raise Invalid(
            f"there is no signal {word[:20]!r}", hint="for example TERM, INT or KILL"
        ) from exc


def refusal(target: EndTarget, asker: EndRequester, number: signal.Signals) -> AndonError | None:
    """Returns why a process is not signalled; None if it may be."""
    if (barred := barred_pid(target.pid, asker)) is not None:
        return barred
    if target.kernel_thread:
        return Denied(
            f"pid {target.pid} ({target.program}) is a thread of the kernel",
            hint="it cannot be ended",
        )
    if not target.permitted:
        whose = target.user or "another user"
        return Denied(
            f"pid {target.pid} ({target.program}) belongs to {whose}",
            hint=f"ask {whose}, or as root: sudo kill -{number.name[3:]} {target.pid}",
        )
    return None


def barred_pid(pid: int, asker: EndRequester) -> AndonError | None:
    """Returns why a pid is never signalled; checked before the process is opened."""
    if pid <= 0:
        return Invalid(_mistake(str(pid)) or "", hint="andon ps lists the processes")
    if pid == 1:
        return Denied(
            "pid 1 is the system's first process", hint="ending it would end everything else"
        )
    if pid in asker.line:
        return Denied(
            f"pid {pid} is this command, or started it", hint="end it from another terminal"
        )
    return None


def is_same_start(one: float | None, other: float | None) -> bool:
    """Whether two start times are of the same process; an unknown one matches any."""
    return one is None or other is None or abs(one - other) <= SAME_START_SECONDS


def instead(target: EndTarget) -> tuple[str, str] | None:
    """Returns what a process belongs to, and the command that ends all of it in order."""
    if target.job is not None:
        kind, _, name = target.job.partition(":")
        ends = {"slurm": f"scancel {sh(name.partition('.')[0])}", "job": f"andon cancel {sh(name)}"}
        if kind in ends:
            label = "Slurm job" if kind == "slurm" else "job"
            return f"pid {target.pid} belongs to {label} {name}", ends[kind]
    if (lease := target.lease) is not None:
        text = f"pid {target.pid} runs under lease {lease.id} of {lease.user}"
        return text, f"andon release {lease.id}"
    return None


def offered(targets: Sequence[EndTarget]) -> LargerTarget | None:
    """The job to cancel or the lease to release instead, if all targets belong to the same one."""
    found = dict.fromkeys(filter(None, map(_whole, targets)))
    return next(iter(found)) if len(found) == 1 else None


def _whole(target: EndTarget) -> LargerTarget | None:
    """Returns the job, else the lease: a job whose lease alone is released would be retried."""
    kind, _, name = (target.job or "").partition(":")
    if kind == "job":
        return LargerTarget("c", "cancel", "job", name)
    lease = target.lease
    return LargerTarget("r", "release", "lease", lease.id) if lease and lease.releasable else None


def line_of(target: EndTarget) -> str:
    """Returns a process in one line: pid, user, age, memory on devices, container, command."""
    age = "age unknown" if target.age_seconds is None else human_seconds(target.age_seconds)
    parts = [
        f"{'  ' * target.depth}pid {target.pid}",
        target.user or "unknown user",
        age,
        memory_text(target),
        target.container,
        target.command or target.program,
    ]
    return " · ".join(word for word in parts if word)


def memory_text(target: EndTarget) -> str:
    """Returns `41.2 GiB on GPU 3`; unknown memory is not 0."""
    if not target.devices:
        return "no GPU" if target.devices is not None else "GPU use unknown"
    known = target.memory_bytes is not None
    size = human_bytes(target.memory_bytes or 0) if known else "unknown memory"
    return f"{size} on GPU {', '.join(target.devices)}"


def children_text(target: EndTarget) -> str:
    """Returns the children by name, if they are not ended with the process; empty if it has
    none."""
    if not target.children:
        return ""
    count = len(target.children)
    named = ", ".join(f"{pid} {name}" for pid, name in target.children[:MOST_CHILDREN])
    more = and_more(count - MOST_CHILDREN)
    label, them = ("child", "it") if count == 1 else ("children", "them")
    return f"  {count} {label} ({named}{more}), not ended; --tree ends {them} too"


def question(targets: Sequence[EndTarget], number: signal.Signals) -> str:
    """Returns the question before anything is signalled."""
    verb = "End" if number.name in ENDING_SIGNALS else "Signal"
    return f"{verb} {_which(targets)} with {number.name}?"


def kill_question(targets: Sequence[EndTarget], grace_seconds: float) -> str:
    """Returns the question if processes are still running after the first signal."""
    return f"{still_running(targets)} after {grace_seconds:g} s. Kill with SIGKILL?"


def still_running(targets: Sequence[EndTarget]) -> str:
    verb = "is" if len(targets) == 1 else "are"
    return f"{_which(targets)} {verb} still running"


def not_ended(targets: Sequence[EndTarget], number: signal.Signals) -> AndonError:
    """Returns the error if processes did not end and were not killed."""
    pids = " ".join(str(target.pid) for target in targets)
    hint = f"kill: andon kill -s KILL {pids}"
    if number is getattr(signal, "SIGKILL", None):
        hint = f"see what the kernel waits for: ps -o pid,stat,wchan,args -p {pids}"
    return AndonError(f"{still_running(targets)} after {number.name}", hint=hint)


def done(targets: Sequence[EndTarget], number: signal.Signals) -> str:
    """Returns the text for when everything has ended."""
    if number.name in ENDING_SIGNALS:
        return f"{_which(targets)} ended"
    return f"{number.name} sent to {_which(targets)}"


def nothing_left(refused: Sequence[AndonError]) -> AndonError:
    """Returns the error if no process remains to be ended."""
    return refused[0] if refused else Gone("there is no process to end", hint="see andon ps")


def _which(targets: Sequence[EndTarget]) -> str:
    if len(targets) == 1:
        return f"pid {targets[0].pid}"
    return f"{len(targets)} processes"


def _mistake(word: str) -> str | None:
    text = word.strip()
    if text.removeprefix("-").isdecimal() and (text.startswith("-") or not int(text)):
        return f"{text[:20]} is not one process: kill takes 0 and negative numbers for groups"
    if not (text.isascii() and text.isdecimal()) or len(text) > 10:
        return f"{word[:40]!r} is not a pid"
    return None
