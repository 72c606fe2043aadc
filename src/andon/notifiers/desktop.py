"""Shows a message on this person's desktop, by notify-send or else by D-Bus itself."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from andon.alerts.rules.messages import Message, MessageContext
from andon.errors import Unavailable
from andon.model.alert import Alert, Level, Notice
from andon.model.job.spec import without_own_secrets
from andon.settings.alerts import NotifierSettings

BUS = "DBUS_SESSION_BUS_ADDRESS"
_URGENCY = {Level.CRITICAL: "critical", Level.WARNING: "normal"}


class DesktopNotifier:
    """Implements Notifier; `command` in the settings replaces notify-send."""

    def __init__(self, settings: NotifierSettings, context: MessageContext) -> None:
        self.name = settings.name
        self._command, self._context = settings.command, context
        self._seconds = settings.timeout_seconds

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        if not notices:
            return
        environment = without_own_secrets(desktop_environment(os.environ))
        program = self._command or desktop_program(environment)
        argv = [*program, *_arguments(program, self._context.message(notices, time.time()))]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._seconds,
                env=environment,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            why = "it did not answer" if isinstance(error, subprocess.TimeoutExpired) else ""
            raise Unavailable(
                f"the desktop cannot be notified: {why or getattr(error, 'strerror', 'failed')}",
                hint="run notify-send in that desktop to see why",
            ) from None
        if done.returncode != 0:
            raise Unavailable(
                f"the desktop cannot be notified: {Path(program[0]).name} failed",
                hint="run it in that desktop to see why",
            )

    def close(self) -> None:
        """Nothing stays open."""


def desktop_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Adds the address of this user's session bus, which jobs and services often lack."""
    found, bus = dict(environment), Path(f"/run/user/{os.getuid()}/bus")
    if BUS not in found and bus.exists():
        found[BUS] = f"unix:path={bus}"
    return found


def desktop_program(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the program that shows a message; Unavailable if there is no desktop."""
    if BUS in environment:
        for name in ("notify-send", "gdbus"):
            if path := shutil.which(name, path=environment.get("PATH")):
                return (path,)
    raise Unavailable(
        "there is no desktop here", hint="it needs a session bus, and notify-send or gdbus"
    )


def _arguments(program: Sequence[str], message: Message) -> list[str]:
    """Returns the words behind the program. Desktops read markup in the body."""
    urgency = _URGENCY.get(message.level or Level.INFO, "low")
    body = escape(message.body, quote=False)
    if Path(program[0]).name == "gdbus":
        place = "org.freedesktop.Notifications"
        return [
            "call", "--session", "--dest", place, "--object-path", f"/{place.replace('.', '/')}",
            "--method", f"{place}.Notify", "andon", "0", "", _variant(message.title),
            _variant(body), "[]", "{}", "-1",
        ]  # fmt: skip
    return ["--app-name=andon", f"--urgency={urgency}", "--", message.title, body]


def _variant(text: str) -> str:
    """Returns a string as GVariant writes it."""
    safe = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{safe}'"
