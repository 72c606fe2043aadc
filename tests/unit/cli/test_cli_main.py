"""The entry point: help, errors, exit codes, colour and the options that all commands share."""

import io
import json
import os
from pathlib import Path
from typing import Any, cast

import click
import pytest
from msgspec.structs import replace

from andon.cli.catalogue import COMMANDS, JOBS
from andon.cli.commands.setup.cost import Cost, CostReport, measure, render_cost
from andon.cli.main import cli, run
from andon.cli.options import MOST_SIMULATED, whole
from andon.cli.screen import in_color, size
from andon.cli.show.text import painted
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, ask, report, write
from andon.errors import Conflict, Denied, Gone, Invalid, Unavailable
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.settings.resolution import FIELDS
from andon.version import __version__
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.rows import rows
from tests.support.snapshots import COSTS, FakeSampler


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")


def test_every_command_exists_belongs_to_a_job_and_explains_itself() -> None:
    with cli.make_context("andon", ["status", "--help"], resilient_parsing=True) as context:
        for name, place in COMMANDS.items():
            command = cli.get_command(context, name)
            assert command is not None
            assert command.name == name
            assert place.job in JOBS
            assert len(place.help) <= 60
            assert command.help


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"andon {__version__}\n"


def test_a_mistyped_command_is_met_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sttus"]) == 2
    assert capsys.readouterr().err == (
        "andon: unknown command 'sttus'; did you mean: andon status?\nhint: andon --help\n"
    )


@rows(
    "words, hint",
    [
        ("history --since", "andon history --help"),
        ("runs report --format", "andon runs report --help"),
        ("--simulate 2 ps --device", "andon ps --help"),
        ("run --gpus", "andon run --help"),
        ("--simulate", "andon status --help"),
    ],
)
def test_an_option_without_its_value_points_to_the_help_of_its_command(
    words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split())
    assert f"hint: {hint}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(Unavailable, 3), (Denied, 4), (Gone, 5), (Conflict, 6), (Invalid, 2)],
)
def test_each_error_has_its_exit_code_and_two_lines(
    capsys: pytest.CaptureFixture[str],
    error: type[Unavailable],
    code: int,
) -> None:
    node = FakeNode(error=error("it is so", hint="do this"))
    assert run(["status"], node) == code
    assert capsys.readouterr() == ("", "andon: it is so\nhint: do this\n")


def test_every_mistake_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    report(Invalid("there are 2 mistakes", mistakes=("a: bad", "b: worse")))
    report(Invalid("a: bad", mistakes=("a: bad",)))
    assert capsys.readouterr().err == (
        "andon: there are 2 mistakes\n  a: bad\n  b: worse\nandon: a: bad\n"
    )


def test_an_error_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    report(Unavailable("\x1b[2J"), Choices(color="always"))
    assert "\x1b[2J" not in capsys.readouterr().err


def test_ctrl_c_is_130() -> None:
    node = FakeNode(error=KeyboardInterrupt())
    assert run(["status"], node) == 130


@pytest.mark.parametrize("args", [["--simulate", "3", "status"], ["status", "--simulate", "3"]])
def test_shared_options_are_taken_before_and_after_the_command(args: list[str]) -> None:
    choices = Choices(node=FakeNode(golden.simulated()))
    with cli.make_context("andon", args, obj=choices) as context:
        assert cli.invoke(context) == 0
    assert (choices.simulate, settings_of(choices).simulate) == (3, 3)


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5", "9" * 5000])
def test_a_senseless_count_is_a_usage_error(given: str) -> None:
    assert run(["status", "--simulate", given]) == 2


def test_a_count_out_of_bounds_is_told_the_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "-n", "99999999999999"]) == 2
    assert "is not a whole number from 1 to 1000000\n" in capsys.readouterr().err
    assert run(["status", "--simulate", "513"]) == 2
    assert "is not a whole number from 1 to 512\n" in capsys.readouterr().err


def test_the_most_simulated_devices_are_those_of_the_settings() -> None:
    assert next(f.high for f in FIELDS if f.name == "simulate") == MOST_SIMULATED


@pytest.mark.parametrize(
    "args",
    [["--simulate", "2", "status", "--replay", "x"], ["ps", "--replay", "x", "--simulate", "2"]],
)
def test_a_simulation_and_a_recording_exclude_each_other(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == 2
    assert "--simulate and --replay cannot be combined" in capsys.readouterr().err


def test_a_flag_beats_the_variable_of_the_other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_REPLAY", "/nowhere.jsonl")
    settings = settings_of(Choices(simulate=2))
    assert (settings.simulate, settings.replay) == (2, "")
    monkeypatch.setenv("ANDON_SIMULATE", "8")
    settings = settings_of(Choices(replay="look.jsonl"))
    assert (settings.simulate, settings.replay) == (0, "look.jsonl")


def test_a_strange_variable_is_told_once_and_does_not_end_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_SIMULTE", "4")
    node = FakeNode(golden.farm())
    assert run(["watch", "-n", "1"], node) == 0
    assert capsys.readouterr().err == (
        "andon: ANDON_SIMULTE: there is no such setting: did you mean ANDON_SIMULATE?\n"
    )
    assert run(["watch", "-n", "1", "--quiet"], node) == 0
    assert capsys.readouterr().err == ""


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_needs_a_terminal_and_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert in_color("auto", _Screen())
    assert not in_color("auto", io.StringIO())
    assert not in_color("never", _Screen())
    assert in_color("always", io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not in_color("auto", _Screen())
    monkeypatch.setenv("NO_COLOR", "")
    assert in_color("auto", _Screen())
    monkeypatch.setenv("TERM", "dumb")
    assert not in_color("auto", _Screen())


def test_columns_and_lines_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "97")
    monkeypatch.setenv("LINES", "31")
    assert size() == (97, 31)


def test_a_senseless_width_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    usual = size()[0]
    for given, width in (("100000000", 1000), ("3", 20), ("9" * 5000, usual)):
        monkeypatch.setenv("COLUMNS", given)
        assert size()[0] == width


def test_a_stream_that_knows_only_ascii_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write(stream, "● 71 °C –\n")
    assert raw.getvalue() == b"* 71 C -\n"


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_to_complete(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_ANDON_COMPLETE" in capsys.readouterr().out


def test_a_node_without_a_gpu_has_an_exit_code_of_its_own() -> None:
    node = FakeNode(golden.no_gpu())
    assert run(["status"], node) == 3


@pytest.mark.process
def test_simulated_devices_are_seen_through_the_real_sampler(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["status", "--simulate", "2", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["simulated"]
    assert [device["state"] for device in value["devices"]] == ["ok", "ok"]


def test_click_is_never_seen_as_a_traceback() -> None:
    assert run(["status", "--no-such-option"]) == 2
    assert isinstance(cli, click.Group)


# `andon cost`.


def test_cost_does_not_flatter() -> None:
    cheap = replace(COSTS, nvidia_smi=Cost("nvidia-smi", 0.0019, 0.2, 1.0))
    assert "2 times more CPU time and 40 times less wall time" in painted(render_cost(cheap, 80))


def test_cost_speaks_json() -> None:
    value = document(COSTS)
    assert value["total"]["core_percent"] == 0.38
    assert value["nvidia_smi"]["wall_seconds"] == 0.2


def measured(count: int, *snapshots: Snapshot) -> CostReport:
    return measure(cast("Any", FakeSampler(*snapshots)), count, 1.0)


def test_cost_without_nvidia_smi_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = measured(2, *[golden.farm()] * 3)
    assert "nvidia-smi is not installed" in painted(render_cost(found, 80))


@pytest.mark.process
def test_cost_runs_nvidia_smi_as_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    value = document(measured(2, *[golden.farm()] * 3))
    assert value["nvidia_smi"]["wall_seconds"] > 0
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


@pytest.mark.process
def test_cost_survives_an_nvidia_smi_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nexit 9\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = measured(1, *[golden.farm()] * 3)
    assert "nvidia-smi does not work here" in painted(render_cost(found, 80))


def test_cost_without_a_gpu_ends_after_the_first_look_with_the_reason() -> None:
    with pytest.raises(Unavailable) as raised:
        measured(20, golden.no_gpu())
    assert raised.value.reason == (
        "no GPU can be read on this node: "
        "nvidia: the driver library libnvidia-ml.so.1 is not installed"
    )
    assert raised.value.hint == "install the NVIDIA driver, or start the container with --gpus all"


def test_the_type_of_a_number_understands_a_default() -> None:
    """click passes defaults through it, too: `andon seed` has some."""
    assert whole(8) == whole("8") == 8


def test_an_answer_in_another_encoding_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xe4\n"), encoding="utf-8"))
    assert ask("release it? [y/N] ") == ""


def test_an_address_on_standard_input_that_is_no_text_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8"))
    assert run(["alerts", "notify", "add", "slack", "-"]) == 2
    assert "- cannot be read: not UTF-8 text" in capsys.readouterr().err
