"""Starts reader processes, one of them in advance: it takes as long to start as its parent."""

import os
import select
import subprocess
from contextlib import ExitStack, suppress
from typing import BinaryIO

from andon.host.interpreter import quick_environment, quick_process_command
from andon.model.request import UNDECIDED

PASSES_DESCRIPTORS = os.name == "posix"


class Spawned:
    """A reader process with our ends of its pipes and its standard error."""

    def __init__(self, *arguments: str) -> None:
        with ExitStack() as opened:  # out of descriptors, none of the earlier ones may stay open
            (requests, self.requests), (self.answers, answers), (nudges, self.nudges) = (
                _pipe(opened) for _ in range(3)
            )
            self.errors = _nameless_file()
            opened.pop_all()
        command = quick_process_command("reader", *arguments)
        if PASSES_DESCRIPTORS:
            command.append(str(nudges))
        try:
            # In its own session: Ctrl-C at a terminal is for the command, not for the reader.
            self.process = subprocess.Popen(
                command,
                stdin=requests,
                stdout=answers,
                stderr=self.errors,
                env=quick_environment(),
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
        """Close our ends of its pipes only: in a forked child it belongs to the parent."""
        for name in ("requests", "answers", "nudges"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                setattr(self, name, -1)
                os.close(descriptor)
        self.errors.close()


_ahead: list[Spawned] = []


def start_ahead() -> None:
    """Start a reader before it is known what it will read; the first request uses it.

    If it is never needed it ends with this process, because its standard input is closed.
    """
    try:
        _ahead.append(Spawned(UNDECIDED))
    except OSError:
        return  # whoever needs one tries again, and reports the reason


def take(backend: str, options: str) -> Spawned:
    """A reader for this backend: the one started in advance, or a new one."""
    if not _ahead:
        return Spawned(backend, options)
    spawned = _ahead.pop()
    try:
        os.write(spawned.requests, f"{backend} {options}\n".encode())
    except OSError:  # it has exited: a new one will report the reason
        spawned.forget()
        return Spawned(backend, options)
    return spawned


def wait_for(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Wait until it exits or the time is over; a pidfd avoids Popen's polling."""
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


def _pipe(opened: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        opened.callback(os.close, end)
    return ends


def _nameless_file() -> BinaryIO:
    """In memory where possible: error output must not depend on a full disk."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("andon-reader"), "r+b")
    from tempfile import TemporaryFile

    return TemporaryFile()
