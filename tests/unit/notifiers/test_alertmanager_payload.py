"""What Alertmanager gets: from where, and with which times."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.messages import MessageContext
from andon.errors import Invalid
from andon.model.alert import NoticeKind
from andon.notifiers.alertmanager import Alertmanager
from andon.settings.alerts import NotifierSettings
from tests.support.notices import HOT, berlin, notice


class Posted(Alertmanager):
    """Keeps what would be sent."""

    def _post(self, payload: Sequence[dict[str, Any]]) -> None:
        self.payload = payload


@pytest.mark.parametrize("kind", [NoticeKind.FIRING, NoticeKind.RESOLVED])
@pytest.mark.parametrize("set_back", [0.0, 7200.0])
def test_an_alert_does_not_end_before_it_starts_if_the_clock_is_set_back(
    kind: NoticeKind, set_back: float
) -> None:
    settings = NotifierSettings("am", "alertmanager", url="http://127.0.0.1:1")
    posted = Posted(settings, MessageContext("node7", berlin))
    began = time.time() + set_back
    alert = replace(HOT, since=began, fired=began, resolved=began - 5 - set_back)
    posted.send([notice(alert, kind)], ())
    (sent,) = posted.payload
    assert sent["startsAt"] <= sent["endsAt"]


@pytest.mark.parametrize("place", ["node7:99999", "node7:x", "[::1"])
def test_a_malformed_address_is_a_mistake_in_the_settings(place: str) -> None:
    settings = NotifierSettings("am", "alertmanager", url=f"http://ada:secret@{place}")
    with pytest.raises(Invalid, match="notifier am: its URL is malformed") as refused:
        Alertmanager(settings, MessageContext("node7", berlin))
    assert "secret" not in str(refused.value)
