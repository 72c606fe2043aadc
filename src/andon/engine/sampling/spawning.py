"""Starts reader processes, one of them ahead of need: it takes as long to start as its parent."""

import os
import select
import subprocess
from contextlib import suppress
from typing import BinaryIO

from andon.host.interpreter import module_command, module_environment
from andon.model.request import UNDECIDED

PASSES_DESCRIPTORS = os.name == "posix"


class Spawned:
    """A `python -m andon.reader` with our ends of its pipes, and what it writes on its own."""

    def __init__(self, *arguments: str) -> None:
        requests, self.requests = os.pipe()
        self.answers, answers = os.pipe()
        nudges, self.nudges = os.pipe()
        command = module_command("andon.reader", *arguments)
        if PASSES_DESCRIPTORS:
            command.append(str(nudges))
        self.words = _nameless_file()
        try:
            # A session of its own: Ctrl-C at a terminal is for the person's command, not for us.
            self.process = subprocess.Popen(
                command,
                stdin=requests,
                stdout=answers,
                stderr=self.words,
                env=module_environment(),
                start_new_session=True,
                pass_fds=(nudges,) if PASSES_DESCRIPTORS else (),
            )
        except OSError:
            self.forget()
            raise
        finally:
            for theirs in (requests, answers, nudges):
                os.close(theirs)

    def forget(self) -> None:
        """Close our ends of its pipes, and nothing else: in a forked child it is not ours."""
        for name in ("requests", "answers", "nudges"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                setattr(self, name, -1)
                os.close(descriptor)
        self.words.close()


_ahead: list[Spawned] = []


def start_ahead() -> None:
    """Start a reader before it is known what it will read; the first that is needed is this one.

    Where it is never needed it ends with us, because its standard input does.
    """
    try:
        _ahead.append(Spawned(UNDECIDED))
    except OSError:
        return  # who needs one tries again, and says why it cannot be had


def take(backend: str, options: str) -> Spawned:
    """A reader of this backend: the one that was started ahead, or a new one."""
    if not _ahead:
        return Spawned(backend, options)
    spawned = _ahead.pop()
    try:
        os.write(spawned.requests, f"{backend} {options}\n".encode())
    except OSError:  # it has ended: what another says about that is worth more
        spawned.forget()
        return Spawned(backend, options)
    return spawned


def wait_for(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Until it ends, or so long; the kernel says when, where Popen itself would sleep and look."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll(seconds * 1000)
    finally:
        os.close(descriptor)
    process.poll()


def _nameless_file() -> BinaryIO:
    """In memory where the system has that: its words must not depend on a disk that is full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("andon-reader"), "r+b")
    from tempfile import TemporaryFile

    return TemporaryFile()
