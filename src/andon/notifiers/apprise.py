"""Sends messages through Apprise: Slack, PagerDuty, e-mail, webhooks and many more, by URL."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from andon.alerts.rules.messages import MessageContext
from andon.errors import Invalid, Unavailable
from andon.model.alert import Alert, Level, Notice, NoticeKind
from andon.model.redaction import HIDDEN, redact
from andon.settings.alerts import NotifierSettings, masked

SHORTEST_SECRET = 4
KINDS = {None: "SUCCESS", Level.INFO: "INFO", Level.WARNING: "WARNING", Level.CRITICAL: "FAILURE"}
VERBOSE_LOGGERS = ("apprise", "urllib3")
"""Loggers whose debug messages contain whole URLs."""


class AppriseNotifier:
    """Sends to one URL, which Apprise interprets."""

    def __init__(self, settings: NotifierSettings, context: MessageContext) -> None:
        self.name = settings.name
        self._url, self._context = settings.url, context
        self._plugin = _opened(settings)

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        if not notices:
            return
        message = self._context.message(notices, time.time())
        test = all(notice.kind is NoticeKind.TEST for notice in notices)
        with _captured_log() as messages:
            done = self._notify(
                message.title, message.body, "INFO" if test else KINDS[message.level]
            )
        if not done:
            reason = "; ".join(dict.fromkeys(messages)) or "Apprise gave no reason"
            raise Unavailable(
                f"{masked(self._url)}: {without_url_parts(reason, self._url)}",
                hint="check the URL of this notifier, and the network",
            )

    def _notify(self, title: str, body: str, kind: str) -> bool:
        """Calls the service in this thread: Apprise's own threads would outlive a shutdown."""
        from apprise import NotifyFormat, NotifyType
        from apprise.conversion import convert_between

        plugin, text = self._plugin, NotifyFormat.TEXT
        convert: Any = convert_between  # the library is untyped
        if plugin.title_maxlen <= 0:  # the title becomes part of the body
            title = convert(text, plugin.notify_format, content=title)
        body = convert(text, plugin.notify_format, content=body)
        done = plugin.notify(
            title=title, body=body, notify_type=getattr(NotifyType, kind), body_format=text
        )
        return bool(done)

    def close(self) -> None:
        """Does nothing: Apprise has its own timeouts."""


def _opened(settings: NotifierSettings) -> Any:
    try:
        import apprise
    except ImportError as exc:
        raise Unavailable(
            f"notifier {settings.name} needs Apprise, which is not installed",
            hint="pip install 'andon[notify]'",
        ) from exc
    for name in VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    with _captured_log() as messages:
        plugin = apprise.Apprise.instantiate(settings.url, suppress_exceptions=True)
    if not isinstance(plugin, apprise.NotifyBase):
        reason = without_url_parts("; ".join(messages), settings.url)
        raise Invalid(
            f"notifier {settings.name}: Apprise does not accept {masked(settings.url)}"
            + (f" ({reason})" if reason else ""),
            hint="e.g. slack://A/B/C or mailto://…; Apprise's documentation lists all services",
        )
    plugin.socket_connect_timeout = plugin.socket_read_timeout = settings.timeout_seconds
    return plugin


def without_url_parts(text: str, url: str) -> str:
    """Removes the URL and its parts from an error text: any part may be a secret."""
    rest = url.partition("://")[2]
    for mark in "/?&=:@#,":
        rest = rest.replace(mark, " ")
    parts = {part for found in rest.split() for part in (found, unquote(found))}
    for part in sorted((url, *parts), key=len, reverse=True):
        if len(part) >= SHORTEST_SECRET:
            text = text.replace(part, HIDDEN)
    return redact(text.split())


class _LogCapture(logging.Handler):
    """Collects what Apprise logs in this thread: it reports reasons only in its log."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages, self._thread = messages, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._messages.append(record.getMessage())


@contextmanager
def _captured_log() -> Iterator[list[str]]:
    logger = logging.getLogger("apprise")
    logger.propagate = False  # its messages may contain parts of a URL, and others read the log
    messages: list[str] = []
    handler = _LogCapture(messages)
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
