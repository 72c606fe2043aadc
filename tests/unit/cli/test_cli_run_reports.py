"""`andon runs report`, `andon runs compare` and `andon who --format` as people call them."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.host.users import user_name
from andon.model.run.record import RunBegin, RunEnd
from tests.support.run_records import write_record
from tests.support.run_stories import story


@pytest.fixture(autouse=True)
def _own_state(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")


@pytest.fixture
def record(tmp_path: Path) -> str:
    return str(write_record(tmp_path / "train.jsonl", *story()))


def runs_of(folder: Path, name: str, durations: list[float], **more: object) -> str:
    """Records of runs of one name, as a side of a comparison."""
    first, *_, last = story()
    assert isinstance(first, RunBegin)
    assert isinstance(last, RunEnd)
    paths = []
    for number, seconds in enumerate(durations):
        begun = replace(first, id=f"{name}{number}", name=name, **more)
        ended = replace(last, duration_seconds=seconds)
        paths.append(write_record(folder / f"{name}{number}.jsonl", begun, ended))
    return ",".join(map(str, paths))


def test_a_report_has_the_advice_with_its_evidence(
    record: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["runs", "report", record]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "GPU 1 was busy 38 % of the time, idle in stretches of 0.82 s: the loader" in shown
    assert "Cost" not in shown


def test_a_report_names_the_owner_of_the_file_whatever_the_record_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *lines = story()
    assert isinstance(first, RunBegin)
    record = write_record(tmp_path / "hostile.jsonl", replace(first, user="mallory"), *lines)
    for form in ("text", "md", "html", "json"):
        assert run(["runs", "report", str(record), "--format", form]) == 0
        shown = capsys.readouterr().out
        assert "mallory" not in shown, form
        assert (user_name(os.getuid()) or "?") in shown, form


def test_cost_is_shown_where_the_settings_give_a_price(
    record: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_RUNS_PRICE_PER_KWH", "0.30")
    monkeypatch.setenv("ANDON_RUNS_CURRENCY", "EUR")
    assert run(["runs", "report", record, "--format", "md"]) == 0
    assert "| Cost | 0.05 EUR at 0.3 EUR per kWh |" in capsys.readouterr().out


def test_a_report_is_written_to_a_file_whole(record: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert run(["-q", "runs", "report", record, "--format", "html", "--out", str(out)]) == 0
    assert out.read_text().endswith("</html>\n")
    assert not list(tmp_path.glob(".*"))


def test_a_file_that_cannot_be_written_says_what_to_do(
    record: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "no" / "report.md"
    assert run(["runs", "report", record, "--format", "md", "--out", str(out)]) == 3
    assert f"mkdir -p {out.parent}" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "report", "nosuchrun"]) == 5
    assert "there is no run" in capsys.readouterr().err


def test_three_runs_a_side_get_a_verdict_and_two_get_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = runs_of(tmp_path, "slow", [100.0, 101.0, 102.0])
    fast = runs_of(tmp_path, "fast", [80.0, 81.0, 82.0])
    assert run(["runs", "compare", slow, fast]) == 0
    assert "faster" in capsys.readouterr().out
    assert run(["runs", "compare", slow, fast.split(",", 1)[1]]) == 0
    shown = capsys.readouterr().out
    assert "faster" not in shown
    assert "No verdict on sides with fewer than 3 runs" in shown


def test_runs_are_compared_by_their_name_and_by_their_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, lr in (("small", 0.1), ("large", 0.2)):
        runs_of(tmp_path, name, [100.0 * lr, 101.0 * lr], group="sweep", params={"lr": lr})
    assert run(["-q", "runs", "add", str(tmp_path)]) == 0
    assert run(["runs", "compare", "small", "large", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [side["label"] for side in found["sides"]] == ["small", "large"]
    assert found["measures"][0]["sides"][1]["spread"]["median"] == pytest.approx(20.1)
    assert run(["runs", "compare", "--group", "sweep", "--by", "duration_seconds"]) == 0
    text = capsys.readouterr().out
    assert text.index("small  0.1") < text.index("large  0.2")
    assert run(["runs", "compare", "--group", "sweep", "--by", "time", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("name,lr,duration_seconds,")
    assert run(["runs", "compare", "--group", "sweep", "--over", "lr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["over"] == ["lr"]
    assert run(["runs", "compare", "--group", "sweep", "--over", "seed"]) == 2
    assert run(["runs", "compare", "--group", "sweep", "--by", "accuracy"]) == 2
    assert "loss" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["a", "--group", "b"]])
def test_sides_or_a_group_and_not_both(words: list[str]) -> None:
    assert run(["runs", "compare", *words]) == 2


def test_reports_take_json_and_csv_as_every_list_does(
    record: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ("json", "csv"):
        assert run(["runs", "report", record, "--format", form]) == 0
        asked = capsys.readouterr().out
        assert run(["runs", "report", record, f"--{form}"]) == 0
        assert capsys.readouterr().out == asked
    assert run(["runs", "report", record, "--json", "--format", "md"]) == 2
    assert "only one form at a time: json or md" in capsys.readouterr().err
    assert run(["runs", "compare", record, "--json", "--csv"]) == 2
    assert "only one form at a time: csv or json" in capsys.readouterr().err


def test_who_reports_in_one_form_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["who", "--simulate", "2", "--json", "--format", "md"]) == 2
    assert run(["who", "--simulate", "2", "--out", "who.txt"]) == 2
    assert "--out needs --format" in capsys.readouterr().err
