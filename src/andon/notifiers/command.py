"""Runs a user's command with the alerts as JSON on its standard input."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from andon.alerts.rules.messages import MessageContext, without_secrets
from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.model.alert import Alert, Notice
from andon.model.codec import to_json
from andon.model.job.spec import without_own_secrets
from andon.model.redaction import redact
from andon.settings.alerts import NotifierSettings

SCHEMA = "andon.notice/1"
GRACE_SECONDS = 1.0
STDERR_BYTES = 400


class CommandNotifier:
    """Runs the command once per message; its process group is stopped at the timeout."""

    def __init__(self, settings: NotifierSettings, context: MessageContext) -> None:
        if not settings.command:
            raise Invalid(f"notifier {settings.name}: no command is set")
        self.name = settings.name
        self._command, self._context = settings.command, context
        self._timeout_seconds = settings.timeout_seconds
        self._running: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        if not notices:
            return
        document = json.dumps(self._document(notices), ensure_ascii=False).encode() + b"\n"
        # A file, not a pipe: a command that does not read it blocks nothing.
        with _file_of(document) as file:
            process = self._start(file)
        stderr = _StderrTail(process)
        try:
            code = process.wait(self._timeout_seconds)
        except subprocess.TimeoutExpired:
            stop_group(process)
            raise Unavailable(
                f"{self._shown} was stopped after {self._timeout_seconds:g} s{stderr.text()}",
                hint="make it faster, or raise timeout_seconds of this notifier",
            ) from None
        finally:
            self._running = None
        if code != 0:
            status = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise Unavailable(
                f"{self._shown} failed with {status}{stderr.text()}",
                hint="run it in a shell to see why",
            )

    def close(self) -> None:
        with self._lock:
            self._closed, process = True, self._running
        if process is not None:
            stop_group(process)

    def _start(self, file: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = without_own_secrets(os.environ)  # a notifier command does not need them
        with self._lock:
            if self._closed:
                raise Unavailable("andon is shutting down")
            try:
                self._running = subprocess.Popen(
                    self._command,
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    env=environment,
                )
            except FileNotFoundError as exc:
                raise Gone(f"{self._shown} was not found", hint="check its path") from exc
            except PermissionError as exc:
                raise Denied(f"no permission to run {self._shown}", hint="chmod +x") from exc
            except (OSError, ValueError) as exc:
                raise Unavailable(f"{self._shown} cannot be started: {exc}") from exc
            return self._running

    def _document(self, notices: Sequence[Notice]) -> dict[str, object]:
        message = self._context.message(notices, time.time())
        return {
            "schema": SCHEMA,
            "node": self._context.node,
            "simulated": any(notice.simulated for notice in notices),
            "title": message.title,
            "body": message.body,
            "level": message.level,
            "board_url": self._context.board_url,
            "notices": [to_json(without_secrets(n)) for n in notices],
        }

    @property
    def _shown(self) -> str:
        """Returns only the command's name: any argument may be a secret."""
        return Path(self._command[0]).name


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Stops the whole process group, first with SIGTERM, so that its children end too."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
            # A child may outlive a leader that obeyed: the second signal is for it.


class _StderrTail(threading.Thread):
    """Keeps the end of a command's standard error. All of it is read until it closes, so that a
    full pipe does not block a child left behind."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(name="stderr tail", daemon=True)
        self._process, self._end = process, b""
        self._cut = False
        self.start()

    def run(self) -> None:
        pipe = self._process.stderr
        if pipe is None:
            return
        with pipe, suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), 65_536):
                self._cut = self._cut or len(self._end) + len(chunk) > STDERR_BYTES
                self._end = (self._end + chunk)[-STDERR_BYTES:]

    def text(self) -> str:
        """Returns the redacted text, for display."""
        self.join(GRACE_SECONDS)
        tokens = self._end.decode("utf-8", "replace").split()
        if self._cut:
            del tokens[:1]  # the first word may be the rest of a secret without its name
        return f": {redact(tokens)}" if tokens else ""


@contextmanager
def _file_of(content: bytes) -> Iterator[IO[bytes]]:
    """Yields the content as a file, in memory if possible: the disk may be full."""
    make = getattr(os, "memfd_create", None)
    with tempfile.TemporaryFile() if make is None else os.fdopen(make("andon"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file
