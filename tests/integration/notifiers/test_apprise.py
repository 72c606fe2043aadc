"""Apprise with a real web server and a real mail server; other services are only named here."""

import email
import email.policy
import json
import logging
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from andon.alerts.rules.messages import MessageContext
from andon.errors import Invalid, Unavailable
from andon.notifiers.apprise import AppriseNotifier
from andon.settings.alerts import NotifierSettings
from tests.integration.parts import free_port
from tests.support.listening import Listening, listening
from tests.support.notices import DISK, LOST, berlin, notice, over

__all__ = ["listening"]

VOICE = MessageContext("node7", berlin, "https://gpus.example/")


def notifier(url: str) -> AppriseNotifier:
    return AppriseNotifier(NotifierSettings("phone", "apprise", url=url), VOICE)


def test_a_webhook_hears_title_message_and_kind(listening: Listening) -> None:
    hook = notifier(f"json://127.0.0.1:{listening.server_address[1]}/alerts")
    hook.send([notice()], [])
    hook.send([notice(), notice(LOST), notice(DISK)], [])
    hook.send([over(LOST)], [])
    first, several, ended = (json.loads(body) for body in listening.heard)
    assert first["title"] == "CRITICAL node7: GPU 3 is too hot"
    assert "GPU 3 is too hot: 91 °C (slows down at 89 °C)\n" in first["message"]
    assert first["type"] == "failure"
    assert several["title"] == "CRITICAL 3 alerts on node7"
    assert several["message"].count("•") == 3
    assert (ended["title"], ended["type"]) == ("RESOLVED node7: GPU 5 is lost", "success")


def test_the_reason_is_told_and_the_log_holds_no_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    nobody = notifier(f"json://user:hunter2hunter2@127.0.0.1:{free_port()}/hidden-path-7")
    with pytest.raises(Unavailable) as caught:
        nobody.send([notice()], [])
    assert "Connection error" in caught.value.reason
    assert "hunter2" not in caught.value.reason + caplog.text
    assert "hidden-path" not in caught.value.reason + caplog.text


class Letters:
    """What the mail server took in."""

    def __init__(self) -> None:
        self.letters: list[EmailMessage] = []

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        content: Any = envelope.content
        found = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(found, EmailMessage)
        self.letters.append(found)
        return "250 taken"


@pytest.fixture
def post() -> Iterator[tuple[int, Letters]]:
    letters = Letters()
    server = Controller(letters, hostname="127.0.0.1", port=free_port())
    server.start()
    yield server.port, letters
    server.stop()


def test_an_e_mail_arrives_and_reads_well(post: tuple[int, Letters]) -> None:
    port, taken = post
    url = f"mailto://127.0.0.1:{port}?from=andon@node7.example&to=ada@example.org&format=text"
    notifier(url).send([notice()], [])
    (letter,) = taken.letters
    assert letter["Subject"] == "CRITICAL node7: GPU 3 is too hot"
    assert "ada@example.org" in letter["To"]
    lines = letter.get_content().strip().splitlines()
    assert "GPU 3 is too hot: 91 °C (slows down at 89 °C)" in lines
    assert "Affected: ada: python train.py --token *** --epochs 9 (pid 4242)" in lines
    assert lines[-1] == "https://gpus.example/"


@pytest.mark.parametrize(
    "url",
    [
        "slack://TOKENAAAA/TOKENBBBB/TOKENCCCCCCCCCCCCCCCCCCC/#gpus",
        "pagerduty://abcdefghijklmnopqrstuvwxyzabcdef@R0123456789ABCDEF",
        "discord://1234567890/AbCdEfGhIjKlMnOpQrStUvWxYz",
        "mailtos://user:word@mail.example?to=ada@example.org",
        "ntfy://topic",
        "tgram://123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/1",
        "jsons://hook.example/alerts",
    ],
)
def test_addresses_of_the_usual_services_are_accepted(url: str) -> None:
    notifier(url)


@pytest.mark.parametrize("url", ["slakc://TOKENAAAA/B/C", "slack://", "pagerduty://short"])
def test_a_wrong_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        notifier(url)
    assert "TOKENAAAA" not in caught.value.reason
    assert caught.value.hint
