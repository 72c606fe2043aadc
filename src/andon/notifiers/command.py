"""Tells through a command of the person's own: the alerts as JSON on its standard input."""

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

from andon.core.notifying.messages import Voice, without_secrets
from andon.core.processes.redaction import redact
from andon.core.settings.alerts import NotifierSettings
from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.model import alert_wire
from andon.model.alert import Alert, Notice

SCHEMA = "andon.notice/1"
GRACE_SECONDS = 1.0
TOLD_BYTES = 400
OURS = ("ANDON_TOKEN",)  # no business of a command that tells people


class CommandNotifier:
    """One run per message; its process group ends with its time."""

    def __init__(self, settings: NotifierSettings, voice: Voice) -> None:
        if not settings.command:
            raise Invalid(f"notifier {settings.name}: there is no command")
        self.name = settings.name
        self._command, self._voice = settings.command, voice
        self._timeout_seconds = settings.timeout_seconds
        self._running: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        if not notices:
            return
        document = json.dumps(self._document(notices), ensure_ascii=False).encode() + b"\n"
        # A file, not a pipe: a command that does not read it holds up nothing.
        with _file_of(document) as told:
            process = self._start(told)
        complaint = _Complaint(process)
        try:
            code = process.wait(self._timeout_seconds)
        except subprocess.TimeoutExpired:
            end(process)
            raise Unavailable(
                f"{self._shown} was ended after {self._timeout_seconds:g} s{complaint.words()}",
                hint="let it be quicker, or raise timeout_seconds of this notifier",
            ) from None
        finally:
            self._running = None
        if code != 0:
            words = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise Unavailable(
                f"{self._shown} failed with {words}{complaint.words()}",
                hint="try it by hand: andon alerts test",
            )

    def close(self) -> None:
        with self._lock:
            self._closed, process = True, self._running
        if process is not None:
            end(process)

    def _start(self, told: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        with self._lock:
            if self._closed:
                raise Unavailable("andon is ending")
            try:
                self._running = subprocess.Popen(
                    self._command,
                    stdin=told,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    env=environment,
                )
            except FileNotFoundError as exc:
                raise Gone(f"{self._shown} is not there", hint="check its path") from exc
            except PermissionError as exc:
                raise Denied(f"{self._shown} may not be run", hint="chmod +x") from exc
            except (OSError, ValueError) as exc:
                raise Unavailable(f"{self._shown} cannot be started: {exc}") from exc
            return self._running

    def _document(self, notices: Sequence[Notice]) -> dict[str, object]:
        message = self._voice.message(notices, time.time())
        return {
            "schema": SCHEMA,
            "node": self._voice.node,
            "simulated": any(notice.simulated for notice in notices),
            "title": message.title,
            "body": message.body,
            "level": message.level,
            "board_url": self._voice.board_url,
            "notices": [alert_wire.notice_to_json(without_secrets(n)) for n in notices],
        }

    @property
    def _shown(self) -> str:
        """Its name alone: an argument may be a secret, and looks like any other."""
        return Path(self._command[0]).name


def end(process: subprocess.Popen[bytes]) -> None:
    """The whole group, asked first: what the command started goes with it."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
            # A child may outlive a leader that listened: the second signal is for it.


class _Complaint(threading.Thread):
    """The end of what a command writes to standard error; all of it is read, for as long as it is
    open: a child left behind must not be stopped by a full pipe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(name="complaint", daemon=True)
        self._process, self._end = process, b""
        self._cut = False
        self.start()

    def run(self) -> None:
        pipe = self._process.stderr
        if pipe is None:
            return
        with pipe, suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), 65_536):
                self._cut = self._cut or len(self._end) + len(chunk) > TOLD_BYTES
                self._end = (self._end + chunk)[-TOLD_BYTES:]

    def words(self) -> str:
        """Fit to be shown."""
        self.join(GRACE_SECONDS)
        words = self._end.decode("utf-8", "replace").split()
        if self._cut:
            del words[:1]  # cut in two, a secret could stand there without its name
        return f": {redact(words)}" if words else ""


@contextmanager
def _file_of(content: bytes) -> Iterator[IO[bytes]]:
    """In memory where the system can: the disk may be what is full."""
    make = getattr(os, "memfd_create", None)
    with tempfile.TemporaryFile() if make is None else os.fdopen(make("andon"), "w+b") as file:
        file.write(content)
        file.seek(0)
        yield file
