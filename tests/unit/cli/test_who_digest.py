"""`andon who --digest`: the week as it would be sent."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.alerts.rules.digest import digest_notice
from andon.app.messages.digest import DigestSender, read_digest, recipients
from andon.cli.main import run
from andon.errors import AndonError, Invalid, Unavailable
from andon.history.rules.intervals import UsageInterval
from andon.model.alert import Notice
from andon.node.port import Node
from andon.settings.alerts import NotifierSettings
from andon.settings.table import Settings
from tests.support import alert_pages
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode

NOW = 1_794_700_800.0


class Reported:
    """A watcher that has sent a digest once, long ago; keeps to whom the next ones go."""

    reported = 0.0

    def __init__(self) -> None:
        self.sent = list[list[str]]()

    def report(self, at: float, digests: Mapping[str, Notice]) -> None:
        self.sent.append([*digests])


def test_it_is_printed_and_says_what_is_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    hot = replace(alert_pages.hot(), fired=1.0)
    assert run(["who", "--digest"], FakeNode(golden.farm(), alerts=[hot])) == 0
    text = capsys.readouterr().out
    assert "GPU hours not known" in text
    assert "What broke:" in text
    assert run(["who", "--digest", "--json"], FakeNode(golden.farm())) == 2
    assert "as text" in capsys.readouterr().err


def test_what_a_node_cannot_answer_is_said_for_this_node() -> None:
    seen = golden.farm()
    (device, *_) = (one.device.uuid for one in seen.devices)
    use = UsageInterval(device, 7, None, "ada", None, NOW - 7200, NOW - 3600)
    nodes: dict[str, Node | AndonError] = {
        "one": FakeNode(seen, uses=[use]),
        "two": Unavailable("two is silent"),
    }
    found = read_digest(nodes, NOW, Settings())
    lines = list(digest_notice(found).alert.evidence.values())
    assert lines[0] == "• one: 1.0 GPU h, idle not known, energy not known"
    assert lines[1:3] == ["• two: GPU hours not known", "two: two is silent"]
    assert "• ada: 1.0 GPU h, idle not known, energy not known" in lines


def test_all_notifiers_that_take_digests_get_it_unless_some_are_named() -> None:
    chat, mail = NotifierSettings("chat", "slack"), NotifierSettings("mail", "email")
    prometheus = NotifierSettings("am", "alertmanager")
    settings = Settings(alerts_notifiers=(chat, mail, prometheus))
    assert recipients(settings) == [chat, mail]
    assert recipients(replace(settings, reports_by=("mail",))) == [mail]
    with pytest.raises(Invalid, match="'am'"):
        recipients(replace(settings, reports_by=("am",)))


def test_a_digest_that_would_reach_nobody_is_a_mistake_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weekly = replace(Settings(), reports_weekly="Mon 08:00")
    for notifiers in ((), (NotifierSettings("am", "alertmanager"),)):
        with pytest.raises(Invalid, match="no notifier that takes digests"):
            recipients(replace(weekly, alerts_notifiers=notifiers))
    (tmp_path / "andon.toml").write_text('[reports]\nweekly = "Mon 08:00"\n')
    monkeypatch.setenv("ANDON_CONFIG", str(tmp_path / "andon.toml"))
    assert run(["config", "check"]) == 2
    assert "reports.weekly: there is no notifier" in capsys.readouterr().err


def test_a_digest_goes_by_the_settings_in_force() -> None:
    chat = NotifierSettings("chat", "slack")
    in_force = [replace(Settings(), alerts_notifiers=(chat,))]
    watcher = Reported()
    sender = DigestSender(watcher, lambda: in_force[0], lambda: {"one": FakeNode(golden.farm())})  # type: ignore[arg-type]
    sender.check(golden.farm())
    assert watcher.sent == []
    in_force[0] = replace(in_force[0], reports_weekly="Mon 08:00")
    sender.check(golden.farm())
    in_force[0] = replace(in_force[0], alerts_notifiers=(replace(chat, name="room"),))
    sender.check(golden.farm())
    assert watcher.sent == [["chat"], ["room"]]
