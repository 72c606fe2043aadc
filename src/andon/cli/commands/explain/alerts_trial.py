"""Sends a test message through the notifiers of the settings that no running server has."""

import time

from andon.alerts.rules.messages import NO_NOTIFIER, trial_notice
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices
from andon.errors import AndonError, Gone
from andon.host.machine_id import node_name
from andon.model.wire import Json
from andon.node.port import NodeAlerts
from andon.ports import Notifier

RESTART = "a running server uses it once it is restarted (sudo systemctl restart andon)"


def trial(choices: Choices, name: str | None) -> Json:
    """Sends a test message through each notifier; they have their own timeouts."""
    from andon.app.alerts import open_notifiers  # with what a server needs; `andon alerts` lists

    settings = settings_of(choices)
    notifiers = [notifier for notifier, _ in open_notifiers(settings)]
    known = [notifier.name for notifier in notifiers]
    if name is not None and name not in known:
        raise Gone(
            f"there is no notifier {name!r}", hint=f"notifiers: {', '.join(known) or 'none'}"
        )
    chosen = [notifier for notifier in notifiers if name in (None, notifier.name)]
    note = None if notifiers else NO_NOTIFIER
    return {"results": [sent(notifier) for notifier in chosen], "note": note}


def trial_by(server: NodeAlerts, choices: Choices, name: str | None) -> Json:
    """Lets a server send them; those that were added since it started are tried here."""
    own = () if choices.url else settings_of(choices).alerts_notifiers
    new = [one.name for one in own if name in (None, one.name)]
    try:
        found = dict(server.test(name))
    except Gone:
        if not new:
            raise
        found = {"results": []}
    new = [one for one in new if one not in {each["notifier"] for each in found["results"]}]
    if not new:
        return found
    tried = [result for one in new for result in trial(choices, one)["results"]]
    note = f"{', '.join(new)}: tried by this command alone; {RESTART}"
    return {"results": [*found["results"], *tried], "note": note}


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
