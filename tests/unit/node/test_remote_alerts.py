"""What a server answers about its alerts, as a command reads it."""

from typing import cast

from andon.model.wire import Json
from andon.node.remote.alerts import RemoteAlerts
from andon.node.server import Server


class Answering:
    """A server that answers every request with this."""

    def __init__(self, answer: Json) -> None:
        self.answer = answer

    def post(self, path: str, body: Json) -> Json:
        return self.answer


def test_a_test_message_that_was_sent_has_neither_reason_nor_hint() -> None:
    sent = {"notifier": "mail", "ok": True, "reason": None, "hint": None}
    failed = {"notifier": "desk", "ok": False, "reason": "it is away", "hint": "turn it on"}
    answer = {"results": [sent, failed], "note": None}
    alerts = RemoteAlerts(cast("Server", Answering(answer)))
    assert alerts.test(None) == answer
