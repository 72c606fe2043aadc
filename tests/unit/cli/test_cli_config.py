"""`andon config`: all mistakes at once, each value with its origin."""

import json
import os
import re
from pathlib import Path

import pytest

from andon.cli.commands.jobs.desks import refuse_unstartable
from andon.cli.main import run
from andon.cli.terminal import Choices
from andon.settings.resolution import describe
from tests.support.homes import own_folders


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("ANDON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "andon.toml"
    path.write_text("[sampling]\ninterval = 2\n")
    monkeypatch.setenv("ANDON_CONFIG", str(path))
    return path


def test_a_good_file_is_fine(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: OK; 1 of ")


def test_every_mistake_is_told_at_once(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('[sampling]\ninterval = "soon"\ndeadline = 1000\n[colour]\nx = 1\n')
    assert run(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert "3 mistakes" in err
    assert all(word in err for word in ("sampling.interval", "sampling.deadline", "colour"))


def test_a_file_can_be_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("nonsense")
    assert run(["config", "check", str(other)]) == 2
    assert run(["--config", str(other), "config", "check"]) == 2
    assert run(["config", "check", "--config", str(other)]) == 2
    assert str(other) in capsys.readouterr().err


def test_a_missing_file_that_was_named_is_a_mistake(file: Path) -> None:
    assert run(["config", "check", "/nowhere/andon.toml"]) == 2


def test_show_gives_each_value_with_its_origin(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_NODE", "rack7")
    assert run(["--simulate", "3", "config", "show", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert settings["interval_seconds"]["origin"] == f"file {file}"
    assert settings["node"] == {
        "value": "rack7",
        "origin": "ANDON_NODE",
        "key": "node.name",
        "variable": "ANDON_NODE",
    }
    assert settings["simulate"]["value"] == 3
    assert settings["simulate"]["origin"] == "flag"
    assert settings["root"]["origin"] == "default"


def test_show_is_a_table_for_people(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(describe())
    row = next(line for line in lines if line.startswith("sampling.interval"))
    assert row.split()[1:3] == ["2", "file"]


def test_alone_it_lists_every_setting_even_if_the_file_is_wrong(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("nonsense")
    assert run(["config"]) == 0
    out = capsys.readouterr().out
    assert all(row.place in out and row.variable in out for row in describe())


def test_path_is_that_of_the_file_in_force(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "path"]) == 0
    assert capsys.readouterr().out == f"{file}\n"


def test_the_colour_of_the_settings_is_used(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('[display]\ncolor = "always"\n')
    assert run(["config", "show"]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert run(["config", "show", "--color", "never"]) == 0
    assert "\x1b[" not in capsys.readouterr().out


def test_a_strange_variable_is_a_mistake_to_check_and_a_notice_to_show(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_SIMULTE", "4")
    assert run(["config", "check"]) == 2
    assert "did you mean ANDON_SIMULATE?" in capsys.readouterr().err
    assert run(["config", "show"]) == 0
    out, err = capsys.readouterr()
    assert "sampling.interval" in out
    assert err == "andon: ANDON_SIMULTE: there is no such setting: did you mean ANDON_SIMULATE?\n"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:hunter2@host/db",
        "postgresql://ada:hun/hunter2@x@host/db",
        "postgresql://host/db?user=ada&password=hunter2",
        "postgresql://ada:hunter2@host/a\tb",  # refused by the parser
        " postgresql://ada:hunter2@host/db",
        "file://ada:hunter2@host/db",
        "sqlite://ada:hunter2@host/db",
    ],
)
@pytest.mark.parametrize(
    "command",
    [["config", "show"], ["config", "show", "--json"], ["config", "check"], ["history"], ["gc"],
     ["seed"], ["--simulate", "1", "serve", "--port", "0"]],
    ids=" ".join,
)  # fmt: skip
def test_the_password_of_a_store_is_never_printed(
    url: str,
    command: list[str],
    own_places: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    monkeypatch.setenv("ANDON_HISTORY", url)
    run(command)
    out, err = capsys.readouterr()
    assert out or err
    assert "hunter2" not in out + err


def test_a_variable_or_a_file_alone_queues_nothing_for_real_or_simulated_devices(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "job.toml").write_text('command = ["true"]\n')
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    refuse_unstartable(Choices())
    file.write_text("[simulation]\ndevices = 3\n")
    for words in (["--", "true"], ["--param", "a=1,2", "--", "echo", "{a}"]):
        assert run(["submit", "--dry-run", *words]) == 3
    assert run(["submit", "--dry-run", str(tmp_path / "job.toml")]) == 3
    refuse_unstartable(Choices(simulate=2))
    refuse_unstartable(Choices(), [2, 4])  # as its job file says
    file.write_text("")
    monkeypatch.setenv("ANDON_SIMULATE", "4")
    assert run(["submit", "--dry-run", "--", "true"]) == 3
    said = capsys.readouterr().err
    assert said.count("simulated devices are leased only with --simulate") == 4


def test_a_large_number_is_shown_whole(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    assert run(["config"]) == 0
    shown = capsys.readouterr().out
    assert "1073741824 " in shown
    assert "a whole number, 16 to 1000000)" in shown
    assert re.findall(r"\de\+\d", shown) == []
    file.write_text("[history]\nmax_megabytes = 2000000\n")
    assert run(["config", "check"]) == 2
    assert "more than 1000000" in capsys.readouterr().err


def test_a_threshold_of_0_for_one_model_is_shown(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('[[alerts.override]]\nmodel = "H100"\nidle_seconds = 0\n')
    assert run(["config", "show"]) == 0
    assert "alerts.override  model = H100, idle_seconds = 0.0\n" in capsys.readouterr().out


def test_the_hint_for_a_missing_file_names_both_ways_to_name_it(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = str(file.with_name("nope"))
    assert run(["config", "check", "--config", gone]) == 2
    by_option = capsys.readouterr().err
    monkeypatch.setenv("ANDON_CONFIG", gone)
    assert run(["config", "check"]) == 2
    assert "check the file, and --config or ANDON_CONFIG" in " ".join(by_option.split())
    assert capsys.readouterr().err == by_option
