"""A notifier that writes a line for each message into a file, named by its URL."""

from collections.abc import Sequence
from pathlib import Path

from andon.alerts.rules.messages import MessageContext
from andon.model.alert import Alert, Notice
from andon.settings.alerts import NotifierSettings


class Bell:
    """Implements andon.ports.Notifier."""

    def __init__(self, settings: NotifierSettings, context: MessageContext) -> None:
        self.name = settings.name
        self._path = Path(settings.url.removeprefix("bell://"))

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{notice.alert.message}\n" for notice in notices)

    def close(self) -> None:
        """Nothing to release."""
