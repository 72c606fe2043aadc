"""What a person is told of by [notify.me] and --notify, through real commands and a real queue."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import andon
from tests.integration.queueing import cleaned, settle
from tests.support.waiting import wait_for

TELL = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, me: str = "") -> Path:
    heard = folder / "heard"
    command = json.dumps([sys.executable, "-c", TELL, str(heard)])
    (folder / "andon.toml").write_text(
        f'{me}\n[[alerts.notifier]]\nname = "mine"\nkind = "command"\ncommand = {command}\n'
    )
    monkeypatch.setenv("ANDON_CONFIG", str(folder / "andon.toml"))
    return heard


def bodies(heard: Path) -> list[str]:
    lines = heard.read_text().splitlines() if heard.exists() else []
    return [json.loads(line)["body"].splitlines()[1] for line in lines]


def test_the_end_of_a_run_is_sent_once_and_its_exit_code_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaned(settle(monkeypatch, tmp_path)):
        heard = configured(tmp_path, monkeypatch)
        run = ("run", "--simulate", "2", "--name", "train")
        assert andon(*run, "--notify", "fail", "--", "true").code == 0
        assert bodies(heard) == []
        assert andon(*run, "--notify", "fail", "--", "sh", "-c", "exit 3").code == 3
        assert andon(*run, "--notify", "end", "--", "true").code == 0
        assert andon("wait", "--simulate", "2", "--notify").code == 0
    failed, good, there = bodies(heard)
    assert failed.startswith("Run train failed with exit code 3 after")
    assert good.startswith("Run train succeeded after")
    assert there.startswith("Your turn: GPU")


def test_a_message_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaned(settle(monkeypatch, tmp_path)):
        monkeypatch.setenv("ANDON_CONFIG", os.devnull)
        monkeypatch.setenv("PATH", "/usr/bin:/bin")
        done = andon("run", "--simulate", "2", "--notify", "end", "--", "sh", "-c", "exit 5")
    assert done.code == 5
    assert "Traceback" not in done.err


def test_jobs_that_say_nothing_follow_notify_me(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaned(settle(monkeypatch, tmp_path)):
        heard = configured(tmp_path, monkeypatch, '[notify.me]\njobs = "end"\nturn = true')
        assert andon("submit", "--simulate", "2", "--name", "train", "--", "true").code == 0
        wait_for(lambda: any("succeeded" in one for one in bodies(heard)), what="the message")
    assert any(one.startswith("Job 1 (train) succeeded") for one in bodies(heard))
    assert any("has its turn" in one or "Job 1 (train) runs" in one for one in bodies(heard)) or (
        len(bodies(heard)) == 1  # it ended before its start was sent
    )
