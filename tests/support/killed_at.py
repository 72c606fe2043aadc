"""A call in a process of its own that is killed before one of its changes to files or processes."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.support.warm import warmth

CHANGES = frozenset(
    ("os.rename", "os.link", "os.remove", "os.mkdir", "os.fork", "subprocess.Popen", "fcntl.flock")
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def killed_at(step: int, call: Callable[[], object]) -> bool:
    """Forks; the child makes the call and kills itself right before its change of this number.
    Returns whether it got there. What the child starts is not killed."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            warmth.is_on = False  # its connection to those that are kept is the parent's
            _count(step)
            call()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _count(step: int) -> None:
    own, left = os.getpid(), step

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITES
        if os.getpid() != own or not (writes or event in CHANGES) or "/dev/null" in args:
            return
        if left == 0:
            os.kill(own, signal.SIGKILL)
        left -= 1

    sys.addaudithook(hook)
