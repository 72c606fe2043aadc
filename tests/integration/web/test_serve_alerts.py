"""A real server with no browser: people are told, once, and a server started anew knows it."""

import json
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.integration.parts import wait_until
from tests.integration.serving import Served, serving


def settings(folder: Path) -> tuple[Path, Path]:
    told, path = folder / "told", folder / "andon.toml"
    path.write_text(
        f"""
        [alerts]
        board_url = "https://gpus.example/"
        [[alerts.notifier]]
        name = "file"
        kind = "command"
        command = ["/bin/sh", "-c", 'cat >> "{told}"']
        [[alerts.notifier]]
        name = "stuck"
        kind = "command"
        command = ["/bin/sleep", "600"]
        timeout_seconds = 600
        """
    )
    return told, path


def losing(folder: Path, config: Path) -> AbstractContextManager[Served]:
    """A server over two devices, of which one is lost."""
    return serving(
        folder,
        ANDON_CONFIG=str(config),
        ANDON_SIMULATE_FAULTS="lost:1@0",
        ANDON_SIMULATE_SCENARIO="idle",
        ANDON_HISTORY=str(folder / "history.db"),
    )


def health(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = served.ask("/api/health").json()["alerts"]
    return found


def messages(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def test_a_lost_device_is_told_once_although_the_server_is_started_again(tmp_path: Path) -> None:
    told, config = settings(tmp_path)
    with losing(tmp_path, config) as served:
        wait_until(lambda: messages(told), "the message")
        said = health(served)
        assert said["firing"] >= 1
        assert [one["name"] for one in said["notifiers"]] == ["file", "stuck"]
    (message,) = messages(told)
    assert message["title"].startswith("SIMULATED CRITICAL ")
    assert message["title"].endswith(": GPU 1 is lost")
    assert message["body"].endswith("https://gpus.example/")
    with losing(tmp_path, config) as served:
        wait_until(lambda: health(served)["firing"] >= 1, "what was known before")
        wait_until(
            lambda: served.ask("/api/health").json()["sampler"]["snapshots"] > 8, "some looks"
        )
    assert messages(told) == [message]


def test_a_notifier_that_cannot_be_used_is_told_before_anything_starts(tmp_path: Path) -> None:
    config = tmp_path / "andon.toml"
    config.write_text(
        '[[alerts.notifier]]\nname = "a"\nkind = "apprise"\nurl = "slakc://TOKENAAAA"\n'
        '[[alerts.notifier]]\nname = "b"\nkind = "apprise"\nurl = "pagerduty://short"\n'
    )
    command = [sys.executable, "-m", "andon.cli", "serve", "--simulate", "1", "--port", "0"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={"ANDON_CONFIG": str(config), "XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin"},
    )
    assert done.returncode == 2
    assert "notifier a: Apprise does not accept slakc://***" in done.stderr
    assert "notifier b" in done.stderr
    assert "TOKENAAAA" not in done.stderr
    assert done.stdout == ""
