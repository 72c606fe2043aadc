"""Every surface that takes a device takes the same names, and refuses the same ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.alerts.rules.render import AlertRenderer
from andon.alerts.rules.routes import Route, concerns, resolved
from andon.app.leases import refuse_ambiguous_names
from andon.cli.main import run
from andon.doctor.rules.selftest.load import Load, judge_load
from andon.doctor.rules.selftest.trials import histories_of
from andon.errors import AndonError, Gone, Invalid
from andon.explain.conditions.rulebook import Override, Rulebook
from andon.leases.book.lease_book import Book
from andon.leases.rules.eligibility import obstacles_of
from andon.model.alert import Alert, Level, Phase
from andon.model.device import DeviceStatus
from andon.model.naming import device_labels
from andon.settings.alerts import (
    NotifierSettings,
    OverrideSettings,
    read_notifiers,
    read_overrides,
)
from andon.settings.resolution import Settings
from tests.support import snapshots as drawn
from tests.support.fake_node import FakeNode
from tests.support.sharing_parts import request
from tests.support.web_parts import HOME, Caller, Parts

PART = "MIG-0006-0"


@pytest.fixture
def farm(book_folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    return FakeNode(drawn.farm())


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    parts = Parts(tmp_path_factory.mktemp("caller"), [drawn.farm()], HOME)
    try:
        yield Caller(parts.app, "127.0.0.1", "localhost")
    finally:
        parts.close()


@pytest.mark.parametrize("path", ["", "/why"])
def test_rest_takes_a_partition(caller: Caller, path: str) -> None:
    answer = caller.get(f"/api/devices/6:0{path}")
    assert answer.status_code == 200
    assert PART in answer.text


@pytest.mark.parametrize("name", ["0000:9A:00.0", "9a:00.0", "6", drawn.uuid(6).lower()])
def test_rest_takes_the_other_forms(caller: Caller, name: str) -> None:
    assert caller.get(f"/api/devices/{name}").json()["device"]["uuid"] == drawn.uuid(6)


def test_rest_refuses_an_ambiguous_name_with_the_candidates(caller: Caller) -> None:
    answer = caller.get("/api/devices/MIG-")
    assert answer.status_code == 422
    details = answer.json()["error"]["details"]
    assert [line.partition(": ")[0] for line in details] == ["GPU 6:0", "GPU 6:1"]
    assert caller.get("/api/devices/77").json()["error"]["hint"].endswith("6, 6:0, 6:1, 7")
    assert caller.get("/api/alerts?device=MIG-").status_code == 422


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("ps", "-d"), ("why",), ("cordon",), ("uncordon",), ("watch", "-n", "1", "-d")],
)
def test_the_cli_refuses_an_ambiguous_name_with_the_candidates(
    farm: FakeNode, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert run([*command, "MIG-"], farm) == 2
    said = capsys.readouterr().err
    assert "matches several devices" in said
    assert "GPU 6:0: MIG-0006-0" in said
    assert "GPU 6:1: MIG-0006-1" in said


def test_a_cordon_by_an_ambiguous_name_cordons_nothing(farm: FakeNode) -> None:
    run(["cordon", "MIG-"], farm)
    assert Book(make=False).cordons() == ()


def test_the_cli_takes_a_pci_address_and_a_cuda_number(
    farm: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", "9A:00.0", "--json"], farm) == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["uuid"] == drawn.uuid(6)
    assert run(["why", "cuda:0", "--json"], FakeNode(drawn.masked())) == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["uuid"] == drawn.uuid(2)


@pytest.mark.parametrize(
    ("given", "kind"), [({"devices": ("MIG-",)}, Invalid), ({"devices": ("6:7",)}, Gone)]
)
def test_a_request_refuses_the_same_names(given: dict[str, Any], kind: type[AndonError]) -> None:
    with pytest.raises(kind):
        obstacles_of(drawn.farm().devices, request(**given), {})


def test_a_label_of_an_ambiguous_device_is_refused() -> None:
    asked = request(labels=("quiet",))
    with pytest.raises(Invalid, match="several"):
        obstacles_of(drawn.farm().devices, asked, {"quiet": ["MIG-"]})
    found = obstacles_of(drawn.farm().devices, asked, {"quiet": ["6:1"]})
    assert [uuid for uuid, obstacle in found.items() if obstacle is None] == ["MIG-0006-1"]


def test_the_selftest_names_two_partitions_apart() -> None:
    farm = drawn.farm()
    names = [history.label for history in histories_of([farm, farm])]
    assert names[-4:-1] == ["GPU 6", "GPU 6:0", "GPU 6:1"]
    for number in (0, 1):
        load = Load(f"MIG-0006-{number}", 4711)
        first = next(judge_load([farm], [farm], load))
        assert f"kept GPU 6:{number} busy" in first.message


# Alerts.


def _alert(status: DeviceStatus) -> Alert:
    alert = Alert("x", "thermal", status.device.uuid, Level.CRITICAL, Phase.FIRING, 0.0)
    return AlertRenderer(drawn.farm(), Rulebook()).named(alert)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("6:1", ["6:1"]),
        ("6", ["6", "6:0", "6:1"]),
        ("0", ["0"]),
        ("1", ["1"]),
        ("MIG-0006-0", ["6:0"]),
        ("9a:00.0", ["6", "6:0", "6:1"]),
    ],
)
def test_an_override_and_a_route_mean_the_same_devices(name: str, labels: list[str]) -> None:
    statuses = drawn.farm().devices
    called = device_labels(statuses)
    book = Rulebook(overrides=[Override(device=name, figures={"thermal_celsius": 70.0})])
    book.learn_labels(statuses)
    warm = [s for s in statuses if book.for_device(s.device).thermal_celsius == 70]
    (route,) = resolved([Route("phone", devices=(name,))], statuses)
    sent = [s for s in statuses if concerns(route, _alert(s))]
    if not name.startswith("9a"):  # only a board reports its address
        assert [called[s.device.uuid] for s in warm] == labels
    assert [called[s.device.uuid] for s in sent] == labels


def test_a_route_still_finds_a_device_that_was_removed() -> None:
    gone = _alert(drawn.farm().devices[3])
    for name in ("3", drawn.uuid(3)):
        (route,) = resolved([Route("phone", devices=(name,))], ())
        assert concerns(route, gone)


@pytest.mark.parametrize(
    "name", ["6:0", 3, "GPU-1a2b", "0000:1A:00.0", "1a:00.0", "amd@0000:03:00.0"]
)
def test_the_settings_of_alerts_take_every_form(name: str | int) -> None:
    mistakes: list[str] = []
    read_overrides([{"device": name, "thermal_celsius": 70}], "alerts.override", mistakes)
    notifier = {"name": "log", "kind": "command", "command": ["/bin/true"], "devices": [name]}
    read_notifiers([notifier], "alerts.notifier", mistakes)
    assert mistakes == []


def test_a_server_refuses_settings_with_an_ambiguous_name() -> None:
    settings = Settings(
        alerts_overrides=(OverrideSettings(device="MIG-"),),
        alerts_notifiers=(NotifierSettings("log", "command", devices=("6:0", "MIG-")),),
        share_labels=("quiet:MIG-", "quiet:3"),
    )
    with pytest.raises(Invalid) as caught:
        refuse_ambiguous_names(settings, drawn.farm().devices)
    places = [line.partition(": ")[0] for line in caught.value.mistakes]
    assert places == ["alerts.override", "alerts.notifier", "share.labels"]
    refuse_ambiguous_names(Settings(share_labels=("quiet:77",)), drawn.farm().devices)
