"""Facts that are gathered while a run starts: its folder's commit, the versions that it uses."""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from andon.model.run.record import GitState, RunFacts
from andon.sampling.spawning import wait_for

PACKAGES = ("torch", "jax", "transformers", "vllm")
SECONDS = 1.0
_SCRIPT = (
    "import sys\n"
    "sys.path[:] = [p for p in sys.path if p]\n"  # not from the current folder
    "import importlib.metadata as m\n"
    "for n in {names!r}:\n"
    "    try: print(n, m.version(n))\n"
    "    except m.PackageNotFoundError: pass\n"
)


def find_facts(
    command: Sequence[str] | None, write: Callable[[RunFacts], None], image: str | None = None
) -> threading.Thread:
    """Starts a thread that gathers the facts; without a command, those of this process."""
    thread = threading.Thread(
        target=lambda: write(facts_of(command, image)), name="andon facts", daemon=True
    )
    thread.start()
    return thread


def facts_of(command: Sequence[str] | None, image: str | None = None) -> RunFacts:
    """Gathers the facts in two seconds at most; what is unknown by then has a reason."""
    git, git_reason = git_state()
    versions, versions_reason = _own() if command is None else _of(command, image)
    return RunFacts(time.time(), git, git_reason, versions, versions_reason)


def git_state(folder: str | None = None) -> tuple[GitState | None, str | None]:
    """Returns git's state in this process's folder or another, and why it is unknown, if it is.

    Without locks: a commit that a person makes meanwhile must not fail because of us.
    """
    if shutil.which("git") is None:
        return None, "git is not installed"
    end = time.monotonic() + SECONDS
    command = ["git", "--no-optional-locks", "rev-parse", "--verify", "HEAD"]
    commit = _output(command, SECONDS, folder)
    if commit is None or not re.fullmatch(r"[0-9a-f]{40,64}", commit.strip()):
        slow = time.monotonic() >= end
        return (
            None,
            "git took too long" if slow else "the folder is not in a repository with a commit",
        )
    status = ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
    changes = _output(status, end - time.monotonic(), folder)
    return GitState(commit.strip(), None if changes is None else bool(changes.strip())), None


def _own() -> tuple[Mapping[str, str], str | None]:
    """Returns the versions of installed packages, without importing any."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found, None if found else f"none of {', '.join(PACKAGES)} is installed"


def _of(command: Sequence[str], image: str | None) -> tuple[Mapping[str, str], str | None]:
    if image is not None:
        return {}, f"the command ran in the image {image}"
    return versions_of(command)


def versions_of(
    command: Sequence[str], path: str | None = None
) -> tuple[Mapping[str, str], str | None]:
    """Returns the versions that a command found along this PATH uses, and why there are none."""
    python = interpreter_of(command, path)
    if python is None:
        return {}, "the command is not run by a known Python"
    printed = _output([python, "-c", _SCRIPT.format(names=PACKAGES)], SECONDS)
    if printed is None:
        return {}, f"{python} did not answer within {SECONDS:.0f} s"
    found = dict(line.split(" ", 1) for line in printed.splitlines() if " " in line)
    return found, None if found else f"{python} has none of {', '.join(PACKAGES)}"


def interpreter_of(command: Sequence[str], path: str | None = None) -> str | None:
    """Returns the Python of a command: itself, or the one in the first line of its script."""
    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    if re.match(r"python[0-9.]*$", Path(program).name):
        return program
    return _named_in(program)


def _named_in(script: str) -> str | None:
    try:
        with Path(script).open("rb") as file:
            first = file.readline(512)
    except OSError:
        return None
    arguments = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    if arguments and Path(arguments[0]).name == "env":
        arguments = [word for word in arguments[1:] if not word.startswith("-")]
    if not arguments or not Path(arguments[0]).name.startswith("python"):
        return None
    return shutil.which(arguments[0])


def _output(command: Sequence[str], seconds: float, folder: str | None = None) -> str | None:
    """Returns the output; None if the command fails or takes too long. A command that its folder
    blocks in the kernel is abandoned."""
    if seconds <= 0:
        return None
    answer, theirs = os.pipe()
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError:
        os.close(answer)
        return None
    finally:
        os.close(theirs)
    reading = _Reading(answer)
    wait_for(process, seconds)
    if process.poll() is None:
        process.kill()
        wait_for(process, 0.1)
        return None
    return reading.text(0.5) if process.returncode == 0 else None


class _Reading(threading.Thread):
    """Reads what arrives, so that a full pipe never blocks the writer."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(name="andon output", daemon=True)
        self._descriptor, self._pieces = descriptor, list[bytes]()
        self.start()

    def run(self) -> None:
        while piece := os.read(self._descriptor, 1 << 16):
            self._pieces = [*self._pieces, piece][:64]
        os.close(self._descriptor)

    def text(self, seconds: float) -> str | None:
        self.join(seconds)
        return None if self.is_alive() else b"".join(self._pieces).decode(errors="replace")
