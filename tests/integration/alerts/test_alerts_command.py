"""`andon alerts` beside a real server: what a person types, from the first fault to the silence."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from andon.host.state import server_file
from tests.integration.conftest import Outcome
from tests.integration.parts import wait_until
from tests.integration.serving import Served, serving
from tests.support.homes import node_state

FAULTS = "xid:1@2=79,xid:0@2=31,ecc:2@3=1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("home")
    with serving(
        state, simulate=3, ANDON_SIMULATE_SCENARIO="idle", ANDON_SIMULATE_FAULTS=FAULTS
    ) as served:
        wait_until(lambda: len(firing(served)) == 3, "three alerts")
        yield served


def firing(served: Served) -> list[str]:
    said = served.ask("/api/alerts?state=firing").json()
    return sorted(f"{alert['rule']}@{alert['device']}" for alert in said["alerts"])


def andon(state: Path, *arguments: str, **env: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-m", "andon.cli", *arguments],
        capture_output=True, text=True, timeout=120,
        env={**os.environ, "XDG_STATE_HOME": str(state), "COLUMNS": "100", **env},
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


def alert(served: Served, name: str) -> dict[str, Any]:
    done = andon(served.state, "alerts", "show", name, "--json")
    assert done.code == 0, done.err
    return done.json()


def test_the_server_is_found_and_the_worst_stands_first(home: Served) -> None:
    done = andon(home.state, "alerts")
    assert (done.code, done.err) == (0, "")
    assert "SIMULATED" in done.out
    assert "2 critical" in done.out
    assert done.out.index("ecc@2") < done.out.index("xid@0")
    assert "GPU 1 reports Xid 79: the GPU has fallen off the bus" in done.out
    assert "Based on one reading" not in done.out


def test_the_exit_code_is_that_of_the_worst_level_only_where_it_is_asked_for(home: Served) -> None:
    assert andon(home.state, "alerts", "--exit-code").code == 12
    assert andon(home.state, "alerts").code == 0


def test_json_is_what_the_server_says(home: Served) -> None:
    said = andon(home.state, "alerts", "--json").json()
    assert (said["schema"], said["worst"], said["simulated"]) == (
        "andon.alerts/1",
        "critical",
        True,
    )
    assert {a["id"] for a in said["alerts"]} >= {
        a["id"] for a in home.ask("/api/alerts?state=firing").json()["alerts"]
    }


def test_why_finds_the_same_server_and_shows_the_same_lamps(home: Served) -> None:
    """It sampled for two seconds, because it looked for a server on the usual port only."""
    done = andon(home.state, "why")
    assert (done.code, done.err) == (0, "")
    assert "SIMULATED" in done.out
    board = {one["uuid"]: one for one in home.ask("/api/board").json()["devices"]}
    said = andon(home.state, "why", "--json").json()["devices"]
    assert {one["uuid"]: one["lamp"] for one in said} == {u: b["lamp"] for u, b in board.items()}
    assert [one["lamp"] for one in said] == ["red", "red", "green"]
    assert done.out.count("✕") == 2


def test_without_a_notifier_nobody_was_notified(home: Served) -> None:
    assert "notified" not in andon(home.state, "alerts").out
    assert {a["notified"] for a in home.ask("/api/alerts").json()["alerts"]} == {0}


def test_seen_and_not_seen_after_all(home: Served) -> None:
    done = andon(home.state, "alerts", "ack", "xid@1", "--note", "on my way", "--by", "alice")
    assert done.code == 0
    assert "acknowledged: GPU 1 reports Xid 79" in done.err
    seen = alert(home, "xid@1")["acknowledged"]
    assert (seen["by"], seen["note"]) == ("alice", "on my way")
    assert "acknowledged by alice: on my way" in andon(home.state, "alerts").out
    assert andon(home.state, "alerts", "ack", "--undo", "xid@1").code == 0
    assert alert(home, "xid@1")["acknowledged"] is None
    assert andon(home.state, "alerts", "ack", "--undo", "xid@1").code == 6, "a conflict"


def test_a_silence_names_an_alert_a_rule_or_a_device_and_ends(home: Served) -> None:
    assert andon(home.state, "alerts", "silence", "ecc@2", "2h", "-m", "known").code == 0
    left = alert(home, "ecc@2")["silenced_until"] - time.time()
    assert 7000 < left <= 7200
    assert andon(home.state, "alerts", "silence", "--rule", "xid", "--device", "0", "30m").code == 0
    assert alert(home, "xid@0")["silenced_until"] is not None
    assert alert(home, "xid@1")["silenced_until"] is None
    listed = andon(home.state, "alerts", "--json").json()["silences"]
    assert sorted(one["rule"] for one in listed) == ["ecc", "xid"]
    for one in listed:
        assert andon(home.state, "alerts", "unsilence", one["id"]).code == 0
    assert andon(home.state, "alerts", "unsilence", listed[0]["id"]).code == 5
    assert alert(home, "ecc@2")["silenced_until"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show", "thermal@9"), 5, "there is no alert"),
        (("ack", "x"), 5, "matches several alerts"),
        (("silence", "2h"), 2, "name an alert"),
        (("silence", "xid@1"), 2, "not a duration"),
        (("silence", "xid@1", "2h", "--rule", "fan"), 2, "not both"),
        (("silence", "--rule", "nothing", "2h"), 2, "there is no rule"),
        (("rules", "termal"), 5, "did you mean thermal?"),
        (("test", "phone"), 5, "there is no notifier"),
        (("unsilence", "nope"), 5, "there is no silence"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(
    home: Served, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = andon(home.state, "alerts", *arguments)
    assert done.code == code
    assert says in done.err
    assert "Traceback" not in done.err


def test_with_a_wrong_token_no_other_way_is_tried(home: Served, tmp_path: Path) -> None:
    url = ("--url", home.url)
    assert "Xid 79" in andon(tmp_path, "alerts", *url).out
    wrong = tmp_path / "token"
    wrong.write_text("x" * 43)
    wrong.chmod(0o600)
    assert andon(tmp_path, "alerts", *url, "--token-file", str(wrong)).code == 4


def test_the_rules_are_listed_with_their_figures(home: Served) -> None:
    listed = andon(home.state, "alerts", "rules").out
    assert "thermal" in listed
    assert "80 °C" in listed
    assert "Used outside its lease" in listed
    one = andon(home.state, "alerts", "rules", "thermal").out
    assert "GPU 2" in one
    assert "alerts.thermal_celsius = 80 °C (default)" in one
    assert "AndonThermalCritical (critical): " in one
    assert "memory_heat" not in listed
    assert "memory_heat" in andon(home.state, "alerts", "rules", "--all").out
    page = andon(home.state, "alerts", "rules", "memory_heat", "--json").json()
    assert page == home.ask("/api/alerts/rules/memory_heat").json()
    assert (page["schema"], page["level"], page["active"]) == ("andon.rule/1", None, False)
    assert andon(home.state, "alerts", "rules", "--json").json()["schema"] == "andon.rules/1"


def test_without_a_notifier_a_test_fails_with_the_reason(home: Served) -> None:
    done = andon(home.state, "alerts", "test")
    assert done.code == 1
    assert "no notifier is configured" in done.err


def test_the_shell_completes_the_names_of_alerts(home: Served) -> None:
    words = {
        "_ANDON_COMPLETE": "bash_complete",
        "COMP_WORDS": "andon alerts ack x",
        "COMP_CWORD": "3",
    }
    assert andon(home.state, **words).out.split() == ["plain,xid@0", "plain,xid@1"]


def test_a_person_can_stay_and_see_what_changes(home: Served) -> None:
    command = [sys.executable, "-u", "-m", "andon.cli", "alerts", "--follow"]
    env = {**os.environ, "XDG_STATE_HOME": str(home.state), "COLUMNS": "100"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    assert process.stdout is not None
    try:
        heard = _until(process.stdout, "following")
        assert "Xid 79" in heard
        andon(home.state, "alerts", "ack", "xid@0", "--by", "alice")
        assert "xid@0 (acknowledged): GPU 0 reports Xid 31" in _until(process.stdout, "xid@0 (ack")
    finally:
        process.terminate()
        process.communicate(timeout=120)
    andon(home.state, "alerts", "ack", "--undo", "xid@0")


def _until(stream: IO[str], words: str) -> str:
    heard = ""
    for line in stream:
        heard += line
        if words in line:
            return heard
    raise AssertionError(heard)


def test_the_server_says_where_it_is_while_it_runs(tmp_path: Path) -> None:
    folder = node_state(tmp_path)
    with serving(tmp_path, "--no-history") as served:
        assert server_file.find(folder) == served.url
        assert (folder / server_file.NAME).stat().st_mode & 0o777 == 0o600
        link = andon(tmp_path, "open", "--print").out
        assert link.startswith(f"{served.url}/#code=")
    assert server_file.find(folder) is None
    assert not (folder / server_file.NAME).exists()


def test_a_server_on_every_address_is_found_on_this_one(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0", "--no-history") as served:
        assert server_file.find(node_state(tmp_path)) == f"http://127.0.0.1:{served.port}"
        assert andon(tmp_path, "alerts", "--json").json()["simulated"] is True


def test_without_a_server_one_look_is_judged_and_says_so(tmp_path: Path) -> None:
    warm = {"ANDON_ALERTS_THERMAL_CELSIUS": "1", "ANDON_SIMULATE_SCENARIO": "idle"}
    here = ("--simulate", "2")
    done = andon(tmp_path, "alerts", *here, "--exit-code", **warm)
    assert done.code == 11
    assert "Based on one reading" in done.out
    said = andon(tmp_path, "alerts", *here, "--json", **warm).json()
    assert said["note"].startswith("Based on one reading")
    hot = [alert for alert in said["alerts"] if alert["rule"] == "thermal"]
    assert [alert["state"] for alert in hot] == ["firing", "firing"]
    assert "limit  " in andon(tmp_path, "alerts", "show", "thermal@0", *here, **warm).out
    done = andon(tmp_path, "alerts", "ack", "thermal@0", *here, **warm)
    assert done.code == 3
    assert "no andon server is running" in done.err
    assert json.loads(andon(tmp_path, "alerts", "rules", "--json", *here).out)
    assert andon(tmp_path, "alerts", *here, "--exit-code", ANDON_SIMULATE_SCENARIO="idle").code == 0


def test_without_a_server_the_notifiers_of_the_settings_are_tried(tmp_path: Path) -> None:
    heard = tmp_path / "heard.json"
    config = tmp_path / "andon.toml"
    config.write_text(
        f"""
        [[alerts.notifier]]
        name = "file"
        kind = "command"
        command = ["/bin/sh", "-c", "cat > {heard}"]

        [[alerts.notifier]]
        name = "broken"
        kind = "command"
        command = ["/bin/sh", "-c", "echo no such luck >&2; exit 3"]
        """
    )
    chosen = ("--config", str(config), "--simulate", "1")
    done = andon(tmp_path, "alerts", "test", "file", *chosen)
    assert (done.code, done.out) == (0, "file: sent\n"), done.err
    assert "This is a test" in heard.read_text()
    both = andon(tmp_path, "alerts", "test", *chosen)
    assert both.code == 1
    assert "file: sent\nbroken: failed" in both.out
    assert andon(tmp_path, "alerts", "test", "nobody", *chosen).code == 5
