"""Tells through Apprise: Slack, PagerDuty, e-mail, a webhook and a hundred more, by URL."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from andon.core.notifying.messages import MessageContext
from andon.core.processes.redaction import HIDDEN, redact
from andon.core.settings.alerts import NotifierSettings, masked
from andon.errors import Invalid, Unavailable
from andon.model.alert import Alert, Level, Notice, NoticeKind

SHORTEST_SECRET = 4
KINDS = {None: "SUCCESS", Level.INFO: "INFO", Level.WARNING: "WARNING", Level.CRITICAL: "FAILURE"}
VERBOSE_LOGGERS = ("apprise", "urllib3")
"""Loggers whose finer words hold whole addresses."""


class AppriseNotifier:
    """One URL; the library knows what to make of it."""

    def __init__(self, settings: NotifierSettings, context: MessageContext) -> None:
        self.name = settings.name
        self._url, self._context = settings.url, context
        self._plugin = _opened(settings)

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        if not notices:
            return
        message = self._context.message(notices, time.time())
        test = all(notice.kind is NoticeKind.TEST for notice in notices)
        with _captured_log() as complaints:
            done = self._notify(
                message.title, message.body, "INFO" if test else KINDS[message.level]
            )
        if not done:
            said = "; ".join(dict.fromkeys(complaints)) or "Apprise gave no reason"
            raise Unavailable(
                f"{masked(self._url)}: {without_url_parts(said, self._url)}",
                hint="check the URL of this notifier, and the way there",
            )

    def _notify(self, title: str, body: str, kind: str) -> bool:
        """By the service itself and in this thread: those of Apprise would outlive a shutdown."""
        from apprise import NotifyFormat, NotifyType
        from apprise.conversion import convert_between

        plugin, text = self._plugin, NotifyFormat.TEXT
        convert: Any = convert_between  # the library says no types
        if plugin.title_maxlen <= 0:  # the title becomes a part of the body
            title = convert(text, plugin.notify_format, content=title)
        body = convert(text, plugin.notify_format, content=body)
        done = plugin.notify(
            title=title, body=body, notify_type=getattr(NotifyType, kind), body_format=text
        )
        return bool(done)

    def close(self) -> None:
        """Every call ends by itself: Apprise has time limits of its own."""


def _opened(settings: NotifierSettings) -> Any:
    try:
        import apprise
    except ImportError as exc:
        raise Unavailable(
            f"notifier {settings.name} needs Apprise, which is not here",
            hint="pip install 'andon[notify]'",
        ) from exc
    for name in VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    with _captured_log() as complaints:
        plugin = apprise.Apprise.instantiate(settings.url, suppress_exceptions=True)
    if not isinstance(plugin, apprise.NotifyBase):
        said = without_url_parts("; ".join(complaints), settings.url)
        raise Invalid(
            f"notifier {settings.name}: Apprise does not take {masked(settings.url)}"
            + (f" ({said})" if said else ""),
            hint="docs/notifiers.md has examples; Apprise's own documentation lists every kind",
        )
    plugin.socket_connect_timeout = plugin.socket_read_timeout = settings.timeout_seconds
    return plugin


def without_url_parts(text: str, url: str) -> str:
    """A complaint may quote the URL, or a piece of it, and every piece may be a secret."""
    rest = url.partition("://")[2]
    for mark in "/?&=:@#,":
        rest = rest.replace(mark, " ")
    pieces = {piece for found in rest.split() for piece in (found, unquote(found))}
    for piece in sorted((url, *pieces), key=len, reverse=True):
        if len(piece) >= SHORTEST_SECRET:
            text = text.replace(piece, HIDDEN)
    return redact(text.split())


class _LogCapture(logging.Handler):
    """What Apprise says in this thread; it tells reasons to its log alone."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._complaints, self._thread = complaints, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._complaints.append(record.getMessage())


@contextmanager
def _captured_log() -> Iterator[list[str]]:
    logger = logging.getLogger("apprise")
    logger.propagate = False  # its words may hold pieces of a URL, and the log is read by others
    complaints: list[str] = []
    handler = _LogCapture(complaints)
    logger.addHandler(handler)
    try:
        yield complaints
    finally:
        logger.removeHandler(handler)
