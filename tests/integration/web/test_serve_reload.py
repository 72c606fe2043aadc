"""SIGHUP: a running server reads thresholds, notifiers, labels and its token again, or none."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.serving import Served, serving
from tests.support.waiting import wait_for

SCRIPT = '[[alerts.notifier]]\nname = "{0}"\nkind = "command"\ncommand = ["/bin/true", "{0}"]\n'
WRONG = "the settings stay as they are"


def notifiers(server: Served) -> list[str]:
    found = server.ask("/api/health", **server.bearer).json()["alerts"]["notifiers"]
    return [one["name"] for one in found]


def leased(server: Served, label: str) -> int:
    body = json.dumps({"gpus": 1, "seconds": 60, "labels": [label]})
    headers = {**server.bearer, "Content-Type": "application/json"}
    return server.ask("/api/leases", "POST", body, **headers).status


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="a system without it")
def test_all_of_it_is_read_again_or_nothing_is(tmp_path: Path, book_folder: Path) -> None:
    config, log = tmp_path / "andon.toml", tmp_path / "log"
    settings = "[alerts]\nthermal_celsius = {}\n{}[share]\nlabels = ['{}:1']\n[node]\nname='{}'\n"

    def write(celsius: object, names: str, label: str, node: str = "a") -> None:
        tables = "".join(map(SCRIPT.format, names))
        config.write_text(settings.format(celsius, tables, label, node))

    write(85, "ab", "quiet")
    with log.open("wb") as errors, serving(
        tmp_path, errors=errors, wrapped=("setsid",), ANDON_CONFIG=str(config),
        ANDON_SIMULATE_SCENARIO="idle", ANDON_LEASE_DIR=str(book_folder),
    ) as server:  # fmt: skip

        def reload_until(text: str, times: int = 1) -> None:
            os.kill(server.process.pid, signal.SIGHUP)
            wait_for(lambda: log.read_text().count(text) == times)

        assert notifiers(server) == ["a", "b"]
        write('"hot"', "c", "loud")
        reload_until(WRONG)
        write(71, "bc", "no such thing")
        config.write_text(config.read_text().replace("labels = ['", "labels = ['wrong', '"))
        reload_until(WRONG, 2)
        assert (notifiers(server), leased(server, "quiet")) == (["a", "b"], 201)
        assert leased(server, "loud") == 404  # no device has it

        write(71, "bc", "loud", node="other")
        reload_until(
            "read again: share.labels, alerts.thermal_celsius = 71, alerts.notifier a, "
            "alerts.notifier c; on restart: node.name"
        )
        assert notifiers(server) == ["b", "c"]
        assert leased(server, "loud") == 409  # its device is held
        rules = server.ask("/api/alerts/rules", **server.bearer).body
        assert "71" in rules

        old = server.bearer
        file = tmp_path / "andon" / "token"
        file.write_text("n" * 43 + "\n")
        reload_until("nothing changed; on restart: node.name; the token: all sessions have ended")
        assert server.ask("/api/health", **old).status == 401
        assert server.ask("/api/health", **server.bearer).status == 200
        assert server.process.poll() is None
