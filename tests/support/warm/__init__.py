"""Commands of the tests that are forked from an interpreter which has imported andon already.

To start an interpreter and import andon takes longer than most commands. `Popen` here is
`subprocess.Popen` in every respect, except that `python -m andon.cli …` is forked from a process
that is kept for its environment. The first commands of an environment start cold, as for a person;
so do all in a test that is marked `cold`, and whatever differs from a plain command in its
interpreter, its user or its descriptors. A forked command is a child of the test like any other.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.warm.request import FLAGS, HEADER, Start

COLD_VARIABLE = "COLD_TESTS"  # set it to start every command cold
MODULE = "andon.cli"
COLD_STARTS = 2  # of an environment: an interpreter that is kept must be worth its own start
MOST_KEPT = 4  # at once; the oldest is ended
ROOT = str(Path(__file__).parents[3])
# What an interpreter, its loader and its C library read only once, when they start.
_AT_START = ("LD_", "PYTHON", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_")
_SUBREAPER = 36
_REPLY_BYTES = 64

Key = tuple[tuple[str, str], ...]


def may_be_warm() -> bool:
    return sys.platform == "linux" and not os.environ.get(COLD_VARIABLE)


@dataclass(frozen=True)
class _Kept:
    """A process that forks commands on request, with its end of the connection."""

    process: subprocess.Popen[bytes]
    connection: socket.socket

    def fork(self, start: Start, descriptors: Sequence[int]) -> int:
        """The pid of the new command, which is a child of this process."""
        text = json.dumps(start).encode()
        _become_subreaper(True)  # whoever is orphaned below comes to us
        try:
            socket.send_fds(self.connection, [HEADER.pack(len(text))], list(descriptors))
            self.connection.sendall(text)
            return int(self.connection.recv(_REPLY_BYTES))
        finally:
            _become_subreaper(False)

    def end(self) -> None:
        self.connection.close()
        self.process.wait()


class Warmth:
    """The kept processes by what differs in their environments, and how often each was asked."""

    def __init__(self) -> None:
        self.is_on = False
        self.forked = 0
        self._asked: Counter[Key] = Counter()
        self._kept: dict[Key, _Kept] = {}
        self._lock = threading.Lock()

    def fork(self, start: Start, descriptors: Sequence[int]) -> int | None:
        """The command's pid; None if it is to start cold."""
        environment = start["env"]
        key = tuple(sorted(item for item in environment.items() if item[0].startswith(_AT_START)))
        with self._lock:
            self._asked[key] += 1
            if not self.is_on or self._asked[key] <= COLD_STARTS:
                return None
            if key not in self._kept:
                if len(self._kept) == MOST_KEPT:
                    self._kept.pop(next(iter(self._kept))).end()
                self._kept[key] = _start(dict(key))
            self.forked += 1
            return self._kept[key].fork(start, descriptors)

    def kept(self) -> list[_Kept]:
        return list(self._kept.values())

    def end(self) -> None:
        for kept in self._kept.values():
            kept.end()
        self._kept.clear()


warmth = Warmth()


class Popen(subprocess.Popen[Any]):
    """Forks what is a plain command of andon, and starts everything else."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        # Of subprocess.Popen, in Python 3.11 to 3.13.
        (executable, preexec_fn, close_fds, pass_fds, cwd, env, _, _, shell,
         p2cread, _, _, c2pwrite, _, errwrite, restore_signals, gid, gids, uid, umask,
         start_new_session, process_group) = rest  # fmt: skip
        plain = (executable, preexec_fn, gid, gids, uid) == (None,) * 5 and not (shell or pass_fds)
        words = None if isinstance(args, str | bytes | os.PathLike) else _words(args)
        pid = None
        if plain and close_fds and restore_signals and words is not None:
            start = Start(
                args=words,
                env=_texts(os.environ if env is None else env),
                cwd=str(Path.cwd() if cwd is None else os.fsdecode(cwd)),
                umask=_umask() if umask < 0 else umask,
                session=bool(start_new_session),
                group=process_group,
                parent=os.getpid(),
            )
            sys.audit("subprocess.Popen", words[0], words, cwd, env)
            inherited = ((p2cread, 0), (c2pwrite, 1), (errwrite, 2))
            pid = warmth.fork(start, [own if own >= 0 else ours for own, ours in inherited])
        if pid is None:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*rest[9:15])  # type: ignore[attr-defined]


def _words(args: Sequence[Any]) -> list[str] | None:
    """The words of a command of andon, None for any other."""
    words = [os.fsdecode(word) for word in args]
    flags = words[1 : words.index("-m")] if "-m" in words else [""]
    is_ours = words[:1] == [sys.executable] and set(flags) <= FLAGS
    return words if is_ours and words[len(flags) + 2 : len(flags) + 3] == [MODULE] else None


def _texts(env: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _become_subreaper(whether: bool) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, int(whether), 0, 0, 0)


def _start(environment: dict[str, str]) -> _Kept:
    ours, theirs = socket.socketpair()
    path = environment.get("PYTHONPATH")
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.support.warm.keeper", str(theirs.fileno())],
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, (path, ROOT)))},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return _Kept(process, ours)
