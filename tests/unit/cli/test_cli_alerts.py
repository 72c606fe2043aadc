"""The parts of `andon alerts` that need no server: names, changes, where a server is."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview
from andon.cli.commands.explain.alerts import resolved
from andon.cli.commands.explain.alerts_follow import changes
from andon.cli.main import run
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.errors import Gone, Invalid, Unavailable
from andon.host.state import server_file
from andon.model.alert import Acknowledgement, Alert, Level, Phase
from andon.model.alert_wire import alerts_to_json
from andon.model.wire import Json
from andon.node import running
from andon.node.calls import CallLimits, Target, Token, Trust
from andon.node.local.alerts import LocalAlerts
from andon.node.port import NodeAlerts
from andon.node.remote.alerts import RemoteAlerts
from andon.node.server import Server
from andon.testing.fake_node import FakeAlerts, FakeNode
from tests.support import alert_pages
from tests.support.homes import made_node_state
from tests.support.nodes import ask_node
from tests.support.replaced import answers, constants
from tests.support.snapshots import AT, office


def page(*alerts: Alert) -> AlertOverview:
    return AlertOverview("node17", AT, alerts)


# Devices and thresholds.


def typed(*words: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str] | None]:
    """The exit code of `andon alerts …`, and the devices that it asked for."""
    asked: list[list[str]] = []

    class Asked(FakeAlerts):
        def page(self, since: float | None = None, devices: Sequence[str] = ()) -> AlertOverview:
            asked.append(list(devices))
            return page()

    class Asking(FakeNode):
        @property
        def alerts(self) -> Asked:
            return Asked(self.live, ())

    ask_node(monkeypatch, Asking(office()))
    code = run(["alerts", *words])
    return code, asked[0] if asked else None


def source_of(choices: Choices) -> NodeAlerts:
    return node_of(choices).alerts


@pytest.mark.parametrize(
    ("words", "devices"),
    [
        ((), []),
        (("3",), ["3"]),
        (("3", "0", "--json"), ["3", "0"]),
        (("--json", "3:0", "-d", "GPU-4f"), ["3:0", "GPU-4f"]),
        (("-d", "1,2", "--since", "2h", "3"), ["3", "1", "2"]),
        (("0000:1a:00.0",), ["0000:1a:00.0"]),
    ],
)
def test_alerts_takes_devices_as_arguments_and_as_an_option(
    words: tuple[str, ...], devices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed(*words, monkeypatch=monkeypatch) == (0, devices)


@pytest.mark.parametrize("words", [("rulez",), ("thermal@3",), ("--sinse", "3")])
def test_a_mistyped_command_is_not_a_device(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed(*words, monkeypatch=monkeypatch) == (2, None)


def test_a_server_is_asked_for_each_of_the_devices_and_no_alert_comes_twice() -> None:
    asked: list[str] = []

    class Asked(Server):
        def __init__(self) -> None:
            pass

        def get(self, path: str, **more: object) -> dict[str, Any]:
            asked.append(path)
            return alerts_to_json([alert_pages.hot()], (), "node17", AT, False, worst=None)

    found = RemoteAlerts(Asked()).page(None, ["2", "3:0"])
    assert found.alerts == (alert_pages.hot(),)
    assert asked == ["/api/alerts?limit=1000&device=2", "/api/alerts?limit=1000&device=3%3A0"]


def test_thresholds_of_ones_own_are_judged_here_and_never_sent_to_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "running_server", lambda token: pytest.fail("asked a server"))
    own = Choices(overrides={"alerts_thermal_celsius": "75"})
    assert isinstance(source_of(own), LocalAlerts)
    with pytest.raises(Invalid, match="cannot be combined"):
        source_of(Choices(overrides=own.overrides, url="http://127.0.0.1:9"))


def test_a_server_that_hangs_is_asked_once_and_not_said_to_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped, or waiting for a disk: each of its users would wait ten seconds, several times."""
    asked: list[str] = []

    class Hung(Server):
        def get(self, path: str, **more: object) -> Json:
            asked.append(path)
            return super().get(path, **more)

    constants(monkeypatch, running, LOOK_LIMITS=CallLimits(0.05, 1000))
    monkeypatch.setattr(running, "_silent", {})
    with socket.create_server(("127.0.0.1", 0)) as listener:  # which never answers
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        hung = Hung(Target(url, Trust.PROVEN, Token("t" * 43)))
        answers(monkeypatch, running, "own_server", hung)
        answers(monkeypatch, running, "service", hung)
        for _ in range(3):
            assert isinstance(source_of(Choices()), LocalAlerts)
        with pytest.raises(Unavailable, match=f"{url} does not answer"):
            source_of(Choices()).check_server()
    assert len(asked) == 1
    node = node_of(Choices(replay=str(tmp_path / "none")))
    monkeypatch.setattr(node.live, "read", office)
    found = node.alerts.page().note or ""
    assert found.startswith(f"Based on one reading: {url} does not answer, so ")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("thermal=30", "did you mean thermal_celsius?"),
        ("thermal_celsius", "is not NAME=VALUE"),
        ("thermal_celsius=", "is not NAME=VALUE"),
        ("thermal_celsius=abc", '"abc" is not a number'),
        ("thermal_celsius=500", "more than 150"),
    ],
)
def test_a_wrong_threshold_is_refused_by_name(
    given: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["alerts", "--simulate", "1", "--threshold", given]) == 2
    assert words in capsys.readouterr().err


# Names.


@pytest.mark.parametrize("name", ["thermal@2", "thermal", "ther", alert_pages.hot().id])
def test_an_alert_is_meant_by_its_id_its_name_or_the_beginning_of_either(name: str) -> None:
    assert resolved(alert_pages.busy(), name) == alert_pages.hot()


@pytest.mark.parametrize("name", ["t", "nothing", "thermal@3"])
def test_a_name_that_fits_several_or_none_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(Gone) as refused:
        resolved(alert_pages.busy(), name)
    assert "thermal@2" in refused.value.hint


def test_a_name_means_the_present_and_not_the_past() -> None:
    now = alert_pages.hot()
    past = replace(now, id=f"{now.id}0", state=Phase.RESOLVED, since=now.since + 5)
    assert resolved(page(past, now), "thermal@2") == now
    assert resolved(page(past), "thermal@2") == past


# What follows.


def test_what_is_there_at_first_is_on_the_list_and_no_change() -> None:
    changed, seen = changes(None, alert_pages.busy(), silent_first=True)
    assert changed == []
    assert changes(seen, alert_pages.busy(), silent_first=True)[0] == []
    told, _ = changes(None, alert_pages.busy(), silent_first=False)
    assert {alert.state for alert in told} == {Phase.FIRING}, "JSON begins with what fires"


def test_each_change_is_told_once_and_pending_is_none() -> None:
    hot = alert_pages.hot()
    _, seen = changes(None, page(), silent_first=True)
    steps = [
        (replace(hot, state=Phase.PENDING), 0),
        (replace(hot, acknowledged=None), 1),
        (replace(hot, acknowledged=None, value=99.0), 0),
        (replace(hot, acknowledged=None, level=Level.CRITICAL), 1),
        (replace(hot, acknowledged=Acknowledgement(AT, "bob"), level=Level.CRITICAL), 1),
        (replace(hot, silenced_until=AT + 9, level=Level.CRITICAL), 1),
        (replace(hot, state=Phase.RESOLVED, resolved=AT), 1),
        (replace(hot, state=Phase.RESOLVED, resolved=AT), 0),
    ]
    for alert, count in steps:
        changed, seen = changes(seen, page(alert), silent_first=True)
        assert len(changed) == count, alert
    _, seen = changes(seen, page(), silent_first=True)
    over = replace(hot, state=Phase.RESOLVED, resolved=AT)
    assert changes(seen, page(over), silent_first=True)[0] == [], "it ended once"
    old = replace(over, id="thermal@x#1")
    assert changes(seen, page(old), silent_first=True)[0] == [], "nobody saw it begin"


# Where from.


@pytest.fixture
def state(state_folder: Path) -> Path:
    folder = state_folder / "andon"
    folder.mkdir(parents=True)
    return folder


def test_without_a_server_this_node_is_looked_at(state: Path) -> None:
    assert isinstance(source_of(Choices()), LocalAlerts)
    with pytest.raises(Unavailable, match="no andon server is running"):
        source_of(Choices()).check_server()


def test_a_server_that_is_named_is_asked_and_no_other(state: Path) -> None:
    found = source_of(Choices(url="http://127.0.0.1:9"))
    assert isinstance(found, RemoteAlerts)
    with pytest.raises(Unavailable, match="cannot be reached"):
        found.page()


def test_devices_that_are_simulated_here_are_no_servers(state: Path) -> None:
    server_file.announce(made_node_state(state.parent), "http://127.0.0.1:9", "127.0.0.1")
    assert isinstance(source_of(Choices(simulate=2)), LocalAlerts)
