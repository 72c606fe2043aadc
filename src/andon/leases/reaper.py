"""Waits for child processes that outlive the call that started them, so that none is a zombie."""

import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress

from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog

CLOSE_SECONDS = 1.0


class Reaper:
    """Waits for children in one thread, asleep until one exits; `ended` is called each time."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._listeners: Listeners[[]] = Listeners(
            FailureLog(
                "andon.reaper",
                "could not report that a child exited; still waiting for the others",
            )
        )
        self._listeners.add(ended)
        self._lock = threading.Lock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}  # by pidfd
        self._ours, self._theirs = socket.socketpair()
        self._thread: threading.Thread | None = None

    def watch(self, child: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._children[os.pidfd_open(child.pid)] = child
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="andon reaper", daemon=True)
                self._thread.start()
        with suppress(OSError):  # the thread may have ended
            self._ours.send(b".")

    def close(self) -> None:
        """Stops waiting; the children continue."""
        self._ours.close()
        if self._thread is None:
            self._theirs.close()
        else:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while self._wait():
            if self._reap():
                self._listeners.notify()
        self._reap()
        with self._lock:
            for descriptor, child in self._children.items():
                os.close(descriptor)
                child.returncode = 0  # it keeps running: Python must not warn about it
            self._children.clear()
        self._theirs.close()

    def _wait(self) -> bool:
        """Waits until a process exits; returns False once this is closed."""
        poll = select.poll()
        poll.register(self._theirs, select.POLLIN)
        with self._lock:
            for descriptor in self._children:
                poll.register(descriptor, select.POLLIN)
        woken = {descriptor for descriptor, _ in poll.poll()}
        return self._theirs.fileno() not in woken or bool(self._theirs.recv(4096))

    def _reap(self) -> bool:
        with self._lock:
            over = [d for d, child in self._children.items() if child.poll() is not None]
            for descriptor in over:
                del self._children[descriptor]
                os.close(descriptor)
        return bool(over)
