"""The parts of `andon alerts` that need no server: names, changes, where a server is."""

from dataclasses import replace
from pathlib import Path

import pytest

from andon.cli import alert_source
from andon.cli.alert_source import FromSampling, FromServer, resolved, server_source, source_of
from andon.cli.commands.explain.alerts_follow import changes
from andon.cli.show.alerts import AlertOverview
from andon.cli.terminal import Choices
from andon.errors import Gone, Unavailable
from andon.host.server import server_file
from andon.model.alert import Acknowledgement, Alert, Level, Phase
from tests.support import alert_pages
from tests.support.homes import made_node_state
from tests.support.snapshots import AT


def page(*alerts: Alert) -> AlertOverview:
    return AlertOverview("node17", AT, alerts)


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
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(alert_source, "DEFAULT_URL", "http://127.0.0.1:9")  # nobody is there
    folder = tmp_path / "andon"
    folder.mkdir()
    return folder


def test_without_a_server_this_node_is_looked_at(state: Path) -> None:
    assert isinstance(source_of(Choices()), FromSampling)
    with pytest.raises(Unavailable, match="no andon server is running"):
        server_source(Choices())


def test_a_server_that_is_named_is_asked_and_no_other(state: Path) -> None:
    found = source_of(Choices(url="http://127.0.0.1:9"))
    assert isinstance(found, FromServer)
    with pytest.raises(Unavailable, match="cannot be reached"):
        found.page()


def test_devices_that_are_simulated_here_are_no_servers(state: Path) -> None:
    server_file.announce(made_node_state(state.parent), "http://127.0.0.1:9", "127.0.0.1")
    assert isinstance(source_of(Choices(simulate=2)), FromSampling)
