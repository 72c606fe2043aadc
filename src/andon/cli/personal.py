"""Messages of `run`, `lease` and `wait` to the person: a notifier, the desktop or the terminal."""

import os
import sys

from andon.app.messages.personal import personal_notifiers, send_all, terminal_message
from andon.cli.terminal import notice, write
from andon.errors import AndonError
from andon.model.alert import Notice
from andon.settings.resolution import Settings


def notify_person(settings: Settings, message: Notice) -> None:
    """Sends a message; where no notifier and no desktop takes it, the terminal shows it."""
    try:
        send_all(personal_notifiers(settings), [message])
    except AndonError as error:
        if sys.stderr.isatty():
            write(sys.stderr, terminal_message(message.alert.message, os.environ.get("TERM", "")))
        elif settings.alerts_notifiers:
            notice(f"nobody was notified: {error.reason}")
