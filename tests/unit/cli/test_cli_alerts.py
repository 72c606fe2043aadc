"""The parts of `andon alerts` that need no server: names, changes, where a server is."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from andon import app
from andon.alerts.rules.overview import AlertOverview
from andon.cli.commands.explain.alerts import resolved
from andon.cli.commands.explain.alerts_follow import changes
from andon.cli.main import run
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.errors import Gone, Invalid, Unavailable
from andon.host.state import server_file
from andon.model.alert import Acknowledgement, Alert, AlertList, Level, Phase
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.node import running
from andon.node.calls import CallLimits
from andon.node.local.alerts import LocalAlerts
from andon.node.local.context import LocalContext
from andon.node.local.live import LocalLive
from andon.node.port import LocalParts, NodeAlerts
from andon.node.remote.alerts import RemoteAlerts
from andon.node.running import running_server
from andon.node.server import Server
from andon.settings.resolution import Settings
from tests.support import alert_pages
from tests.support.fake_node import FakeAlerts, FakeNode
from tests.support.homes import made_node_state
from tests.support.proving import TOKEN
from tests.support.snapshots import AT, office


def page(*alerts: Alert) -> AlertOverview:
    return AlertOverview("node17", AT, alerts)


# Devices and thresholds.


def typed(*words: str) -> tuple[int, list[str] | None]:
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

    code = run(["alerts", *words], Asking(office()))
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
    words: tuple[str, ...], devices: list[str]
) -> None:
    assert typed(*words) == (0, devices)


@pytest.mark.parametrize("words", [("rulez",), ("thermal@3",), ("--sinse", "3")])
def test_a_mistyped_command_is_not_a_device(words: tuple[str, ...]) -> None:
    assert typed(*words) == (2, None)


def test_a_server_is_asked_for_each_of_the_devices_and_no_alert_comes_twice() -> None:
    asked: list[str] = []

    class Asked(Server):
        def __init__(self) -> None:
            pass

        def get(self, path: str, **more: object) -> dict[str, Any]:
            asked.append(path)
            return document(AlertList("node17", AT, False, None, (alert_pages.hot(),), ()))

    found = RemoteAlerts(Asked()).page(None, ["2", "3:0"])
    assert found.alerts == (alert_pages.hot(),)
    assert asked == ["/api/alerts?limit=1000&device=2", "/api/alerts?limit=1000&device=3%3A0"]


@pytest.fixture
def announced(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """This user's server, which never answers."""
    (state / "token").touch(0o600)
    (state / "token").write_text(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setenv("ANDON_PORT", str(port))
        server_file.announce(made_node_state(state.parent), f"http://127.0.0.1:{port}", "127.0.0.1")
        yield listener


def connections(listener: socket.socket) -> int:
    """How many have connected."""
    listener.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def test_thresholds_of_ones_own_are_judged_here_and_never_sent_to_a_server(
    announced: socket.socket,
) -> None:
    own = Choices(overrides={"alerts_thermal_celsius": "75"})
    assert isinstance(source_of(own), LocalAlerts)
    assert connections(announced) == 0
    with pytest.raises(Invalid, match="cannot be combined"):
        source_of(Choices(overrides=own.overrides, url="http://127.0.0.1:9"))


class Office(LocalLive):
    """Readings of the office, without a reader."""

    def read(self, *_: object, **__: object) -> Snapshot:
        return office()


def test_a_server_that_hangs_is_asked_once_and_not_said_to_be_absent(
    announced: socket.socket,
) -> None:
    """Stopped, or waiting for a disk: each of its users would wait ten seconds, several times."""
    url = f"http://127.0.0.1:{announced.getsockname()[1]}"
    try:
        for _ in range(3):
            assert running_server(None, CallLimits(0.05, 1000)) is None
        alerts = source_of(Choices())
        assert isinstance(alerts, LocalAlerts)
        with pytest.raises(Unavailable, match=f"{url} does not answer"):
            alerts.check_server()
        here = LocalContext(Settings(), cast("LocalParts", app), print)
        found = LocalAlerts(here, Office(here)).page().note or ""
    finally:
        running._silent.clear()
    assert connections(announced) == 1
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


def test_a_silence_is_removed_by_its_id_or_by_the_name_of_its_alert(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = FakeNode(office(), alerts=[alert_pages.hot()])
    name = "thermal@2"
    assert run(["alerts", "silence", name, "2h"], node) == 0
    assert run(["alerts", "unsilence", name], node) == 0
    assert node.alerts.page().silences == ()
    assert run(["alerts", "silence", "--rule", "thermal", "--for", "2h"], node) == 0
    capsys.readouterr()
    assert run(["alerts", "unsilence", name], node) == 5
    assert "andon alerts lists them by their ids" in capsys.readouterr().err
    assert run(["alerts", "unsilence", node.alerts.page().silences[0].id], node) == 0


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
