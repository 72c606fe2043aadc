"""The file that --config or ANDON_CONFIG names is read by every process that is started."""

import os
from pathlib import Path

import pytest

from andon.cli.main import run
from andon.host.interpreter import module_environment


def test_the_file_of_the_command_line_is_that_of_every_part_and_of_no_later_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine of containers is opened by a part that knows no command line."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\nexit 9\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(docker.parent))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text('[containers]\nengine = "podman"\n')
    run(["run", "--config", "own.toml", "--image", "x", "--", "true"])
    assert "podman is not installed here" in capsys.readouterr().err
    assert "ANDON_CONFIG" not in os.environ
    monkeypatch.setenv("ANDON_CONFIG", os.devnull)
    assert run(["config", "path", "--config", "own.toml"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/own.toml\n"
    assert os.environ["ANDON_CONFIG"] == os.devnull


def test_a_process_in_another_folder_gets_the_whole_path_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANDON_CONFIG", "own.toml")
    assert module_environment()["ANDON_CONFIG"] == str(tmp_path / "own.toml")
    monkeypatch.delenv("ANDON_CONFIG")
    assert "ANDON_CONFIG" not in module_environment()
