"""What is the command's own: its group ends with its time, and nothing it does holds us up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from andon.alerts.rules.messages import MessageContext
from andon.errors import AndonError, Denied, Unavailable
from andon.notifiers.command import CommandNotifier, stop_group
from andon.settings.alerts import NotifierSettings
from tests.integration.parts import wait_until
from tests.support.notices import berlin, notice

pytestmark = pytest.mark.process

VOICE = MessageContext("node7", berlin, "https://gpus.example/")


def shell(script: str, *arguments: str, seconds: float = 30.0) -> CommandNotifier:
    command = ("/bin/sh", "-c", script, "sh", *arguments)
    settings = NotifierSettings("it", "command", command=command, timeout_seconds=seconds)
    return CommandNotifier(settings, VOICE)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_reads_the_alerts_as_json(tmp_path: Path) -> None:
    shell('cat > "$1"', str(tmp_path / "told")).send([notice()], [])
    told = json.loads((tmp_path / "told").read_text())
    assert told["schema"] == "andon.notice/1"
    assert told["title"] == "CRITICAL node7: GPU 3 is too hot"
    assert (told["node"], told["simulated"], told["level"]) == ("node7", False, "critical")
    (first,) = told["notices"]
    assert first["kind"] == "firing"
    assert first["id"] == notice().id
    assert first["alert"]["value"] == 91.0
    assert first["alert"]["affected"][0]["command"] == "python train.py --token *** --epochs 9"


def test_exit_code_and_complaint_are_told() -> None:
    with pytest.raises(Unavailable, match="sh failed with exit code 3: no such number"):
        shell("echo no such number >&2; exit 3").send([notice()], [])
    with pytest.raises(Unavailable, match="signal 9"):
        shell("kill -9 $$").send([notice()], [])


def test_a_complaint_is_cut_and_without_secrets() -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo ' token=abcdefgh' >&2; exit 1"
    noisy = shell(script)
    with pytest.raises(Unavailable) as caught:
        noisy.send([notice()], [])
    assert len(caught.value.reason) < 1000
    assert "abcdefgh" not in caught.value.reason


def test_a_command_that_does_not_read_is_no_trouble() -> None:
    shell("exit 0").send([notice()] * 2000, [])


def test_a_child_left_behind_holds_up_nothing(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    shell('sleep 600 & echo $! > "$1"', str(told)).send([notice()], [])
    pid = int(told.read_text())
    assert is_running(pid), "it was started to stay"
    os.kill(pid, 9)


def test_a_child_left_behind_may_go_on_complaining(tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = '(head -c 3000000 /dev/zero >&2; echo > "$1") & exit 0'
    shell(script, str(done)).send([notice()], [])
    wait_until(done.exists, "the end of the child")


def test_after_its_time_the_whole_group_is_ended(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    script = 'sleep 600 & echo $$ $! > "$1.new"; mv "$1.new" "$1"; trap "" TERM; wait; sleep 600'
    with pytest.raises(Unavailable, match="was stopped after 1 s"):
        shell(script, str(told), seconds=1.0).send([notice()], [])
    pids = [int(pid) for pid in told.read_text().split()]
    wait_until(lambda: not any(map(is_running, pids)), "the end of all of it")


def test_closing_ends_what_is_under_way(tmp_path: Path) -> None:
    import threading

    told = tmp_path / "pid"
    slow = shell('echo $$ > "$1.new"; mv "$1.new" "$1"; sleep 600', str(told))
    errors: list[AndonError] = []

    def send() -> None:
        try:
            slow.send([notice()], [])
        except AndonError as exc:
            errors.append(exc)

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(told.exists, "the command")
    slow.close()
    thread.join(60)
    assert not is_running(int(told.read_text()))
    assert len(errors) == 1, "what was cut off was not told"
    with pytest.raises(Unavailable):
        slow.send([notice()], [])


def test_what_may_not_be_run_says_so(tmp_path: Path) -> None:
    script = tmp_path / "tell"
    script.write_text("#!/bin/sh\n")
    settings = NotifierSettings("it", "command", command=(str(script),))
    with pytest.raises(Denied, match="no permission to run tell"):
        CommandNotifier(settings, VOICE).send([notice()], [])


def test_the_token_of_the_server_is_not_its_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANDON_TOKEN", "ANDON_HUB_TOKEN", "BENCHMARK_API_KEY"):
        monkeypatch.setenv(name, "hush")
    shell('env > "$1"', str(tmp_path / "env")).send([notice()], [])
    assert "hush" not in (tmp_path / "env").read_text()


def test_ending_twice_is_fine() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    stop_group(process)
