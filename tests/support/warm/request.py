"""What is said about a command that is to be forked, and which commands may be."""

import os
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

HEADER = struct.Struct("!Q")  # the length of what follows; the descriptors come with it
MOST_DESCRIPTORS = 16  # the standard ones, and those that the command is passed
FLAGS = frozenset(("-P", "-S", "-u"))  # of the interpreter, which a forked one can have, too
COMMAND = "andon.cli"
_PROCESS = "andon.process"
FORKED = frozenset((COMMAND, "dispatcher", "holder", "reader", "run-indexer"))
SOURCE = str(Path(__file__).parents[3] / "src")
KNOWN = {"", SOURCE, *(one for one in sys.path if one.endswith("site-packages"))}
_FILES = "--nofile="  # of prlimit, which becomes what it starts
_EXECUTABLE = sys.executable  # a test may change it
# What an interpreter, its loader and its C library read only once, when they start.
_AT_START = ("LD_", "PYTHON", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_")
_PATH = "PYTHONPATH"


class Start(TypedDict):
    """A command with its surroundings."""

    args: list[str]  # from the interpreter on
    env: dict[str, str]
    cwd: str
    umask: int
    session: bool
    group: int
    parent: int
    passed: list[int]  # the numbers of its descriptors after the first three
    most_files: int | None  # that it may open, where `prlimit` is to say so


def name_of(words: Sequence[str]) -> str:
    """The command, or the name of the process; empty where there is none."""
    after = words[words.index("-m") + 1 :] if "-m" in words else ()
    return next((word for word in after if word != _PROCESS), "")


def plain_start(args: object, rest: Sequence[Any]) -> tuple[Start, list[int]] | None:
    """What `subprocess.Popen` (of Python 3.11 to 3.13) is about to start, with its descriptors;
    None for whatever differs from a plain command in its interpreter, its user or its surroundings.
    """
    (executable, preexec_fn, close_fds, pass_fds, cwd, env, _, _, shell,
     p2cread, _, _, c2pwrite, _, errwrite, restore_signals, gid, gids, uid, umask,
     start_new_session, process_group) = rest  # fmt: skip
    is_plain = (executable, preexec_fn, gid, gids, uid) == (None,) * 5 and not shell
    words, most_files = _words(args)
    if not is_plain or not close_fds or not restore_signals or words is None:
        return None
    start = Start(
        args=words,
        env=_texts(os.environ if env is None else env),
        cwd=str(Path.cwd() if cwd is None else os.fsdecode(cwd)),
        umask=_umask() if umask < 0 else umask,
        session=bool(start_new_session),
        group=process_group,
        parent=os.getpid(),
        passed=sorted(pass_fds),
        most_files=most_files,
    )
    inherited = ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))
    descriptors = [own if own >= 0 else ours for own, ours in inherited]
    return start, [*descriptors, *start["passed"]]


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which two interpreters differ. The folders of andon and of the installed
    packages are on the path anyway: that a variable names them makes no difference."""
    found = {name: text for name, text in environment.items() if name.startswith(_AT_START)}
    folders = [one for one in found.pop(_PATH, "").split(os.pathsep) if one not in KNOWN]
    return {**found, _PATH: os.pathsep.join(folders)} if folders else found


def _words(args: object) -> tuple[list[str] | None, int | None]:
    """The words of a command of andon, None for any other; and how many files it may open."""
    if isinstance(args, str | bytes | os.PathLike) or not isinstance(args, Iterable):
        return None, None
    words, most_files = [os.fsdecode(word) for word in args], None
    if words[:1] == ["prlimit"] and words[1:2] and words[1].startswith(_FILES):
        soft, _, hard = words[1].removeprefix(_FILES).partition(":")
        words, most_files = words[2:], int(soft)
        if soft != hard:
            return None, None
    flags = words[1 : words.index("-m")] if "-m" in words else [""]
    is_ours = words[:1] == [_EXECUTABLE] and set(flags) <= FLAGS
    is_ours &= name_of(words) in FORKED
    return words if is_ours else None, most_files


def _texts(env: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
