"""Debian's real Alertmanager: what fires, is sent again and is resolved arrives there so."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from andon.alerts.rules.messages import MessageContext
from andon.errors import AndonError
from andon.model.alert import Alert, Level, NoticeKind, Phase
from andon.notifiers import alertmanager as sending
from andon.notifiers.alertmanager import Alertmanager
from andon.settings.alerts import NotifierSettings
from andon.units import iso
from tests.conftest import need
from tests.integration.parts import daemon, free_port, wait_until
from tests.integration.prometheus import fetch
from tests.support.listening import Listening, listening
from tests.support.notices import HOT, berlin, notice, over

__all__ = ["listening"]

VOICE = MessageContext("node7", berlin, "https://gpus.example/")


class Running(Struct, frozen=True):
    """A running Alertmanager, and where it passes things on."""

    port: int
    hook: Listening

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds to be firing."""
        status, body = fetch(self.port, "/api/v2/alerts")
        assert status == 200, body
        found: list[dict[str, Any]] = json.loads(body)
        return found

    def passed_on(self) -> list[tuple[str, str]]:
        """Status and rule of everything that it told further."""
        told = [json.loads(body) for body in self.hook.heard]
        return [(a["status"], a["labels"]["rule"]) for one in told for a in one["alerts"]]

    def notifier(self, path: str = "", clock: Callable[[], float] = time.time) -> Alertmanager:
        url = f"http://127.0.0.1:{self.port}{path}"
        return Alertmanager(NotifierSettings("am", "alertmanager", url=url), VOICE, clock)


@contextmanager
def alertmanager(folder: Path, hook: Listening) -> Iterator[Running]:
    """On loopback, alone, with everything that it writes in one folder."""
    port = free_port()
    config = {
        "route": {
            "receiver": "hook", "group_by": ["..."],
            "group_wait": "1ms", "group_interval": "100ms", "repeat_interval": "1h",
        },
        "receivers": [
            {"name": "hook",
             "webhook_configs": [{"url": f"http://127.0.0.1:{hook.server_address[1]}/"}]}
        ],
    }  # fmt: skip
    (folder / "alertmanager.yml").write_text(json.dumps(config))  # YAML holds all of JSON
    command = (
        "prometheus-alertmanager", f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=", "--log.level=warn",
    )  # fmt: skip
    with daemon(*command, log=folder / "alertmanager.log"):
        wait_until(lambda: _is_ready(port), "Alertmanager")
        yield Running(port, hook)


def _is_ready(port: int) -> bool:
    try:
        return fetch(port, "/-/ready")[0] == 200
    except OSError:
        return False


@pytest.fixture
def running(tmp_path: Path, listening: Listening) -> Iterator[Running]:
    need("prometheus-alertmanager")
    with alertmanager(tmp_path, listening) as found:
        yield found


def test_what_fires_arrives_with_its_labels_and_words(running: Running) -> None:
    running.notifier().send([notice()], [])
    (found,) = running.alerts()
    assert found["labels"] == {
        "alertname": "AndonThermal",
        "severity": "critical",
        "node": "node7",
        "rule": "thermal",
        "source": "andon",
        "device": "3",
        "uuid": "GPU-1",
    }
    assert found["annotations"]["summary"] == HOT.message
    assert found["annotations"]["description"] == HOT.advice
    assert "hunter2" not in json.dumps(found)
    assert found["generatorURL"] == "https://gpus.example/"
    assert found["startsAt"] == "2026-11-14T23:49:00.000Z"
    assert found["status"]["state"] in ("active", "unprocessed")
    wait_until(lambda: running.passed_on() == [("firing", "thermal")], "what it passes on")


def test_sent_again_it_is_the_same_alert_with_a_later_end(running: Running) -> None:
    passed = [0.0]
    notifier = running.notifier(clock=lambda: time.time() + passed[0])
    notifier.send([notice()], [])
    (first,) = running.alerts()
    hotter = replace(HOT, value=95.0, message="GPU 3 is too hot: 95 °C (slows down at 89 °C)")
    passed[0] = sending.REFRESH_SECONDS
    notifier.send([], [hotter])
    (again,) = running.alerts()
    assert again["fingerprint"] == first["fingerprint"], "another value is not another alert"
    assert again["endsAt"] > first["endsAt"]
    assert "95 °C" in again["annotations"]["summary"]
    wait_until(lambda: running.passed_on(), "what it passes on")
    assert running.passed_on() == [("firing", "thermal")]


def resolved(alert: Alert) -> Alert:
    return replace(alert, state=Phase.RESOLVED, resolved=time.time())


def test_what_is_resolved_ends_there_and_is_said_again_for_five_minutes(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    notifier = running.notifier(clock=lambda: time.time() + passed[0])
    notifier.send([notice()], [])
    wait_until(lambda: ("firing", "thermal") in running.passed_on(), "the beginning")
    notifier.send([notice(resolved(HOT), NoticeKind.RESOLVED)], [])
    wait_until(lambda: running.alerts() == [], "the end")
    wait_until(lambda: ("resolved", "thermal") in running.passed_on(), "word of the end")
    posted: list[Any] = []
    monkeypatch.setattr(notifier, "_post", posted.append)
    begin = time.time()
    for passed[0] in (60, 240, 301):
        notifier.send([], [])
    assert [len(payload) for payload in posted] == [1, 1], "and then no more"
    assert posted[0][0]["endsAt"] <= iso(begin)


def test_an_alert_that_is_gone_without_a_word_is_resolved_too(running: Running) -> None:
    notifier = running.notifier()
    notifier.send([notice()], [])
    notifier.send([], [])
    wait_until(lambda: running.alerts() == [], "the end")


def test_a_level_that_rises_leaves_one_alert(running: Running) -> None:
    notifier = running.notifier()
    mild = replace(HOT, level=Level.WARNING)
    notifier.send([notice(mild)], [mild])
    notifier.send([notice(kind=NoticeKind.WORSE)], [HOT])
    wait_until(lambda: len(running.alerts()) == 1, "one alert")
    assert running.alerts()[0]["labels"]["severity"] == "critical"


def test_an_old_resolution_is_taken(running: Running) -> None:
    """After a night in which Alertmanager was away."""
    running.notifier().send([over(HOT)], [])
    assert running.alerts() == []


def test_a_wrong_address_says_what_to_look_at(running: Running) -> None:
    with pytest.raises(AndonError, match="answered 404") as caught:
        running.notifier("/elsewhere").send([notice()], [])
    assert "/api/v2" in caught.value.hint
