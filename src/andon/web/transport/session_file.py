"""Keeps the sessions in a file of the state folder, written in a thread of its own.

Signing in never waits for the disk, and works when it is full: such a session ends with the server.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from andon.access.saved_sessions import (
    SavedSession,
    dump_sessions,
    load_sessions,
    sessions_key,
)
from andon.failures.log import FailureLog
from andon.host.files import read_regular, replace_file

NAME = "sessions.json"
LARGEST_BYTES = 256 * 1024
FLUSH_SECONDS = 3.0


class SessionFile:
    """Writes the newest list; older ones that were not written yet are skipped."""

    def __init__(self, folder: Path, token: str) -> None:
        self.path, self._key = folder / NAME, sessions_key(token)
        self._failures = FailureLog(
            "andon.web", "sessions cannot be kept for the next start", brief=True
        )
        self._condition = threading.Condition()
        self._pending: Sequence[SavedSession] | None = None
        self._busy = self._closed = False
        self._thread: threading.Thread | None = None

    def load(
        self,
        now: float,
        longest_seconds: float,
        server_uid: int,
        name_of: Callable[[int], str | None],
    ) -> list[SavedSession]:
        """The sessions that are still valid; none if the file is missing or damaged."""
        try:
            content = read_regular(self.path, LARGEST_BYTES)
            found = load_sessions(content, self._key, now, longest_seconds, server_uid, name_of)
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            self._failures.add(error)
            return []
        return found or []

    def renew(self, token: str) -> None:
        """Writes with the key of another token from now on."""
        self._key = sessions_key(token)
        self.save_soon(())

    def save_soon(self, sessions: Sequence[SavedSession]) -> None:
        with self._condition:
            self._pending = sessions
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._follow, name="andon sessions", daemon=True
                )
                self._thread.start()
            self._condition.notify_all()

    def close(self) -> None:
        """Write what is pending, unless the disk hangs."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._pending is None and not self._busy, FLUSH_SECONDS
            )
            self._closed = True
            self._condition.notify_all()

    def _follow(self) -> None:
        while True:
            with self._condition:
                self._busy = False
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._pending is not None or self._closed)
                if self._closed:
                    return
                sessions, self._pending, self._busy = self._pending, None, True
            try:
                replace_file(self.path, dump_sessions(sessions or (), self._key))
            except OSError as error:
                self._failures.add(error)
