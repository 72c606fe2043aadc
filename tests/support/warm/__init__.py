"""Commands of the tests that are forked from an interpreter which has imported andon already.

To start an interpreter and import andon takes longer than most commands. `Popen` here is
`subprocess.Popen` in every respect, except that `python -m andon.cli …` (or a reader, and what
else andon starts) is forked from a process that is kept for its environment. The first
commands of an environment start cold, as for a person; so do all in a test that is marked `cold`,
and whatever differs from a plain command in its interpreter, its user or its descriptors. A forked
command is a child of the test like any other, and forks its own reader while it has one thread.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.support.warm.request import COMMAND, HEADER, Start, at_start, name_of, plain_start

COLD_VARIABLE = "COLD_TESTS"  # set it to start every command cold
COLD_STARTS = 2  # of an environment: an interpreter that is kept must be worth its own start
# The others are waited for with a deadline, which the start of a keeper could exceed.
WORTH_A_KEEPER = frozenset((COMMAND, "dispatcher"))
SERVERS_WORTH, OTHERS_WORTH = 1.5, 0.25  # a start of them, compared with that of a command
MOST_KEPT = 4  # at once; the oldest is ended
ROOT = str(Path(__file__).parents[3])
_SUBREAPER = 36
_REPLY_BYTES = 64

Key = tuple[tuple[str, str], ...]


def may_be_warm() -> bool:
    return sys.platform == "linux" and not os.environ.get(COLD_VARIABLE)


class _Kept(Struct, frozen=True):
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
        self._asked: defaultdict[Key, float] = defaultdict(float)
        self._kept: dict[Key, _Kept] = {}
        self._lock = threading.Lock()

    def fork(self, start: Start, descriptors: Sequence[int]) -> int | None:
        """The command's pid; None if it is to start cold."""
        key = _key(start["env"])
        with self._lock:
            self._asked[key] += _worth(start)
            if not self.is_on or self._asked[key] <= COLD_STARTS:
                return None
            if key not in self._kept:
                if name_of(start["args"]) not in WORTH_A_KEEPER:
                    return None
                if len(self._kept) == MOST_KEPT:
                    self._kept.pop(next(iter(self._kept))).end()
                self._kept[key] = _start(dict(key))
            self.forked += 1
            return self._kept[key].fork(start, descriptors)

    def is_met(self, environment: Mapping[str, str]) -> bool:
        """Whether the next command in this environment is forked."""
        return _key(environment) in self._kept

    def kept(self) -> list[_Kept]:
        return list(self._kept.values())

    def end(self) -> None:
        for kept in self._kept.values():
            kept.end()
        self._kept.clear()


def _key(environment: Mapping[str, str]) -> Key:
    return tuple(sorted(at_start(environment).items()))


def _worth(start: Start) -> float:
    if name_of(start["args"]) != COMMAND:
        return OTHERS_WORTH
    return SERVERS_WORTH if "serve" in start["args"] else 1.0


warmth = Warmth()


class Popen(subprocess.Popen[Any]):
    """Forks what is a plain command of andon, and starts everything else."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        found = plain_start(args, rest)
        pid = None
        if found is not None:
            start, descriptors = found
            sys.audit("subprocess.Popen", start["args"][0], start["args"], rest[4], rest[5])
            pid = warmth.fork(start, descriptors)
        if pid is None:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*rest[9:15])  # type: ignore[attr-defined]


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
