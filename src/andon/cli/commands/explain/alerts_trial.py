"""Sends a test message through the configured notifiers if no server is running."""

import time

from andon.alerts.rules.messages import NO_NOTIFIER, trial_notice
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices
from andon.errors import AndonError, Gone
from andon.host.system import node_name
from andon.model.wire import Json
from andon.ports import Notifier


def trial(choices: Choices, name: str | None) -> Json:
    """Sends a test message through each notifier; they have their own timeouts."""
    from andon import app

    settings = settings_of(choices)
    notifiers = [notifier for notifier, _ in app.open_notifiers(settings)]
    known = [notifier.name for notifier in notifiers]
    if name is not None and name not in known:
        raise Gone(
            f"there is no notifier {name!r}", hint=f"notifiers: {', '.join(known) or 'none'}"
        )
    chosen = [notifier for notifier in notifiers if name in (None, notifier.name)]
    note = None if notifiers else NO_NOTIFIER
    return {"results": [sent(notifier) for notifier in chosen], "note": note}


def sent(notifier: Notifier) -> Json:
    """Sends a test message through one notifier, closes it, and returns the result."""
    error: AndonError | None = None
    try:
        notifier.send([trial_notice(time.time(), node_name())], [])
    except AndonError as exc:
        error = exc
    finally:
        notifier.close()
    return {
        "notifier": notifier.name,
        "ok": error is None,
        "reason": None if error is None else error.reason,
        "hint": None if error is None else error.hint or None,
    }
