"""Durations and sizes as people write them: absurd ones are usage errors, and change nothing."""

import json
from pathlib import Path

import pytest

from andon.api import lease as leasing
from andon.cli.main import run
from andon.units import (
    LONGEST_SECONDS,
    check_seconds,
    human_seconds,
    measured_seconds,
    parse_bytes,
    parse_seconds,
)
from tests.conftest import REPOSITORY

ABSURD = ("99999999999999h", "9" * 5000 + "d", "36601d", "9" * 400)
OURS = 125  # what run and lease say of themselves, as `env` does


@pytest.fixture(autouse=True)
def _apart(book_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")


@pytest.mark.parametrize("text", ABSURD)
def test_no_duration_is_longer_than_a_hundred_years(text: str) -> None:
    with pytest.raises(ValueError) as told:
        parse_seconds(text)
    assert len(str(told.value)) < 100
    assert parse_seconds("36600d") == LONGEST_SECONDS


def test_a_duration_may_have_parts_as_andon_prints_them() -> None:
    for text, seconds in (
        ("90", 90.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("1 h 30 min", 5400.0),
        ("5 d 2 h", 439_200.0),
        ("1w", 604_800.0),
        ("2m500ms", 120.5),
    ):
        assert parse_seconds(text) == seconds, text
    for lasted in (75.0, 5400.0, 439_200.0, 30.0):
        assert parse_seconds(human_seconds(lasted)) == lasted
    for text in (
        "1h30",
        "30m1h",
        "1h1h",
        "h",
        "",
        "1h-30m",
        "1hh",
        "1h 30",
        "5x",
        "1h5x",
        "1h,30m",
    ):
        with pytest.raises(ValueError):
            parse_seconds(text)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), LONGEST_SECONDS + 1])
def test_a_number_of_seconds_has_the_same_bounds(seconds: float) -> None:
    with pytest.raises(ValueError):
        check_seconds(seconds)


def test_durations_in_words_are_the_boards() -> None:
    cases = json.loads((REPOSITORY / "frontend/tests/durations.json").read_text("utf-8"))
    told = [
        (one["seconds"], human_seconds(one["seconds"]), measured_seconds(one["seconds"]))
        for one in cases
    ]
    assert told == [(one["seconds"], one["lasted"], one["took"]) for one in cases]


def test_no_size_is_larger_than_any_memory() -> None:
    with pytest.raises(ValueError) as told:
        parse_bytes("9" * 5000 + "GiB")
    assert len(str(told.value)) < 100


@pytest.mark.parametrize("text", ABSURD)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("history", "--since"), 2),
        (("history", "--until"), 2),
        (("who", "--since"), 2),
        (("watch", "--interval"), 2),
        (("alerts", "silence", "thermal@3"), 2),
        (("wait", "--gpus", "1", "--timeout"), 2),
        (("lease", "extend", "abcde", "--for"), 2),
        (("lease", "--for"), OURS),
        (("run", "--for"), OURS),
        (("run", "--timeout"), OURS),
    ],
)
def test_an_absurd_duration_is_a_usage_error(
    arguments: tuple[str, ...],
    code: int,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [*arguments, text, "true"] if code == OURS else [*arguments, text]
    assert run(given) == code
    told = capsys.readouterr().err
    assert told.startswith("andon: ")
    assert len(told) < 400
    assert not (tmp_path / "book").exists()


def test_a_program_cannot_ask_for_an_endless_lease() -> None:
    for seconds in (1e30, float("inf"), float("nan"), "99999999999999h"):
        with pytest.raises(ValueError):
            leasing.lease(seconds=seconds)


@pytest.mark.process
@pytest.mark.parametrize("name", ["ANDON_HISTORY", "ANDON_ROOT", "XDG_STATE_HOME"])
@pytest.mark.parametrize("command", ["history", "who", "gc"])
def test_a_path_that_is_too_long_is_one_plain_error(
    name: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "/" + "a" * 5000)
    if name == "ANDON_ROOT" and command != "who":
        pytest.skip("it looks at no device")
    assert run([command]) == 2
    told = capsys.readouterr().err
    assert "too long for a path" in told
    assert len(told) < 400
