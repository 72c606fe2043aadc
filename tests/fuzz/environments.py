"""Commands under limits and in places that are not what they should be.

Each round forks a command from this process, gives it a tight limit (files, memory, sizes,
processes) or an odd home, state folder, lease book, working folder or locale, and reads what it
says: output, or a sentence and an exit code. No traceback, no silence, no hang.
"""

import codecs
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from andon.cli import entry
from tests.fuzz.chance import Chance, rounds
from tests.support.homes import own_folders
from tests.support.warm.keeper import PRELOADED, preload_all

LONGEST_SECONDS = 60.0
COMMANDS = (
    "status", "ps", "devices", "history", "why", "alerts", "alerts rules", "free", "run -- true",
    "map --items {d}/items -- echo", "lease --for 1h -- true", "leases", "release zzz", "who",
    "runs", "runs show last", "runs add .", "runs baseline", "jobs", "submit -- true",
    "submit --dry-run -- true", "logs 1", "cancel 1", "gc", "doctor", "config", "config check",
    "audit", "cost", "estimate llama3:8b", "probes", "open --print", "kill 999999", "cordon 0",
    "watch -n 1", "nosuch",
)  # fmt: skip
WORDS_OF_ITS_OWN = ("No GPU", "no GPU", "No runs", "SIMULATED")  # an answer, with a code

Place = Callable[[str], object]


def _limit(what: int, most: int) -> Place:
    return lambda _folder: resource.setrlimit(what, (most, most))


def _memory(more: int) -> Place:
    def limit(_folder: str) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (more << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return limit


def _become_nobody(_folder: str) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def _nobody_without_processes(folder: str) -> None:
    _become_nobody(folder)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def _folder_gone(folder: str) -> None:
    Path(folder, "gone").mkdir()
    os.chdir(Path(folder, "gone"))
    Path(folder, "gone").rmdir()


def _nothing(_folder: str) -> None:
    """Only the variables are odd."""


_HOME = {"HOME": "{d}/file", "XDG_STATE_HOME": ""}
ENVIRONMENTS: tuple[tuple[Place, Mapping[str, str]], ...] = (
    *((_limit(resource.RLIMIT_NOFILE, n), {}) for n in (8, 10, 12, 14, 16, 20, 24, 32)),
    *((_limit(resource.RLIMIT_FSIZE, n), {}) for n in (0, 1, 100, 1000, 4096, 20_000)),
    *((_memory(n), {}) for n in (1, 4, 10, 30)),
    (_nobody_without_processes, {"HOME": "{d}/free", "XDG_STATE_HOME": ""}),
    (_become_nobody, {"HOME": "{d}/shut", "XDG_STATE_HOME": ""}),
    (_become_nobody, {"HOME": "{d}", "XDG_STATE_HOME": "{d}/shut"}),
    (_become_nobody, {"HOME": "{d}", "ANDON_LEASE_DIR": "{d}/shut"}),
    (_folder_gone, {}),
    (lambda _: os.close(0), {}),
    *((_nothing, odd) for odd in (
        _HOME, {"XDG_STATE_HOME": "{d}/file"}, {"HOME": "", "XDG_STATE_HOME": ""},
        {"XDG_STATE_HOME": "relative/x"}, {"XDG_STATE_HOME": "{d}/loop"},
        {"XDG_STATE_HOME": "/tmp/" + "x" * 5000}, {"XDG_STATE_HOME": "/dev/null"},
        {"XDG_STATE_HOME": "/proc/self"}, {"TMPDIR": "{d}/nowhere"},
        {"ANDON_LEASE_DIR": "{d}/file"},
        {"ANDON_LEASE_DIR": "{d}/nowhere/book"}, {"PATH": ""}, {"TZ": "Nowhere/\x01"},
        {"TERM": "\x01", "COLUMNS": "-5", "LINES": "x"}, {"LC_ALL": "xx", "LANG": "xx.nope"},
    )),
)  # fmt: skip


def play(seed: int, seconds: float) -> int:
    preload_all(PRELOADED)
    for name in ("ascii", "latin-1", "idna", "utf-8"):  # another user may not read their files
        codecs.lookup(name)
    return rounds("environments", seed, seconds, _round)


def _round(chance: Chance, _number: int) -> None:
    place, variables = chance.choice(ENVIRONMENTS)
    words = chance.choice(COMMANDS).split()
    if words[0] not in ("nosuch",) and chance.random() < 0.8:
        words[1:1] = ["--simulate", "2"]
    with tempfile.TemporaryDirectory() as folder:
        _furnish(Path(folder))
        words = [word.replace("{d}", folder) for word in words]
        code, said = _called(words, folder, place, variables)
    where = f"andon {' '.join(words)} with {dict(variables) or place}: {code}: {said[-2000:]}"
    assert not any(
        word in said for word in ("Traceback", "Exception in thread", "Exception ignored", "Fatal")
    ), where
    assert code >= 0, where
    assert code in (0, 1) or "andon:" in said or any(w in said for w in WORDS_OF_ITS_OWN), where


def _furnish(folder: Path) -> None:
    folder.chmod(0o755)
    (folder / "file").write_text("x")
    (folder / "items").write_text("1\n2\n")
    (folder / "shut").mkdir(mode=0o700)
    (folder / "free").mkdir()
    (folder / "free").chmod(0o777)
    (folder / "book").mkdir()
    (folder / "loop").symlink_to(folder / "loop")


def _called(
    words: list[str], folder: str, place: Place, variables: Mapping[str, str]
) -> tuple[int, str]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _be(words, folder, place, variables, writing)
    os.close(writing)
    try:
        said = _heard(child, reading)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # its session, while it is still ours to wait for
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert said is not None, f"andon {' '.join(words)} hung"
    return code, said


def _be(
    words: list[str], folder: str, place: Place, variables: Mapping[str, str], writing: int
) -> None:
    """The command, in a process and a session of its own; never returns."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, writing, writing)):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANDON_", "CUDA_"))}
        own = {
            **own_folders(Path(folder)), "HOME": folder, "NO_COLOR": "1",
            "XDG_CONFIG_HOME": f"{folder}/none",
            "ANDON_JOBS_IDLE": "1s",  # a dispatcher leaves soon
        }  # fmt: skip
        odd = {name: value.replace("{d}", folder) for name, value in variables.items()}
        os.environ.clear()
        os.environ.update({**kept, **own, **odd})
        os.chdir(folder)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as the interpreter does at its start
        sys.argv = ["andon", *words]
        place(folder)
        entry.main()
    except BaseException as exc:  # noqa: BLE001 (what a person would see)
        with suppress(BaseException):
            os.write(2, f"Traceback: {exc!r}\n".encode())
    os._exit(1)


def _heard(child: int, reading: int) -> str | None:
    """What it said until it ended, None if it hangs; what it leaves running may hold the pipe."""
    said, end = b"", time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < end:
        ready = select.select([reading], [], [], 0.02)[0]
        piece = os.read(reading, 65536) if ready else b""
        said += piece
        if not piece and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return said.decode(errors="replace")
    return None
