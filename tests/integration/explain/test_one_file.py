"""A condition is one file: added to a copy of andon, it is found on every surface."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import andon
from tests.conftest import REPOSITORY
from tests.integration.conftest import Outcome
from tests.integration.serving import Served, serving
from tests.support.waiting import wait_for

EXAMPLE, TIMELINE = (REPOSITORY / "tests/support" / name for name in ("cold.py", "cold.txt"))
FIGURE = "ANDON_ALERTS_COLD_CELSIUS"
WARM = "60"  # the second simulated device is idle, at some 40 °C


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one more file in it."""
    folder = tmp_path_factory.mktemp("copy")
    source, leave = Path(andon.__file__).parent, shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folder / "andon", ignore=leave)
    shutil.copy(EXAMPLE, folder / "andon/explain/conditions/heat" / EXAMPLE.name)
    # As `make golden` does.
    text = said(folder, "from dev.metrics.index import index; print(index(), end='')")
    (folder / "andon/explain/conditions/index.py").write_text(text)
    return folder


def run(copy: Path, *arguments: str, **env: str) -> Outcome:
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": _path(copy),
            "XDG_STATE_HOME": str(copy / "state"),
            **env,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def shown(copy: Path, *arguments: str, **env: str) -> str:
    done = run(copy, "-m", "andon.cli", *arguments, **env)
    assert done.code == 0, done.err
    return done.out


def said(copy: Path, code: str) -> str:
    done = run(copy, "-c", code)
    assert done.code == 0, done.err
    return done.out


def _path(copy: Path) -> str:
    """The copy comes first; the generators and the timelines are the repository's."""
    return f"{copy}{os.pathsep}{REPOSITORY}"


@pytest.fixture(scope="module")
def served(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state, path = tmp_path_factory.mktemp("state"), _path(copy)
    with serving(state, simulate=3, PYTHONPATH=path, ANDON_ALERTS_COLD_CELSIUS=WARM) as found:
        yield found


def test_it_is_a_rule_with_a_page_of_its_own(copy: Path) -> None:
    listed = shown(copy, "alerts", "rules", "--simulate", "1")
    assert [line for line in listed.splitlines() if "cold" in line and "5 °C" in line]
    page = shown(copy, "alerts", "rules", "cold", "--simulate", "1")
    assert "Too cold" in page
    assert "alerts.cold_celsius = 5 °C (default)" in page
    assert "AndonCold (warning): andon_gpu_temperature_celsius <= 5" in page
    assert "cold: so cold that water may condense on it" in page


def test_its_figure_is_a_setting_of_the_file_and_of_the_environment(copy: Path) -> None:
    assert f"alerts.cold_celsius = 5  {FIGURE}\n" in shown(copy, "config")
    file = copy / "andon.toml"
    file.write_text("[alerts]\ncold_celsius = 7\n")
    page = shown(copy, "alerts", "rules", "cold", "--simulate", "1", "--config", str(file))
    assert "alerts.cold_celsius = 7 °C (default 5 °C)" in page
    both = shown(copy, "config", "show", "--json", "--config", str(file), **{FIGURE: "9"})
    row = json.loads(both)["settings"]["alerts_cold_celsius"]
    assert (row["value"], row["origin"]) == (9, FIGURE)
    off = shown(copy, "alerts", "rules", "cold", "--simulate", "1", **{FIGURE: "off"})
    assert "disabled in the settings" in off


def test_it_fires_through_the_state_machine_as_its_timeline_says(copy: Path) -> None:
    done = said(
        copy,
        textwrap.dedent(f"""
            from pathlib import Path
            from tests.timelines.grammar import parse
            from tests.timelines.playing import Player
            for timeline in parse(Path({str(TIMELINE)!r})):
                Player(timeline).play()
                print("played", timeline.title)
        """),
    )
    assert done == "played a card in a cold room\n"


def test_it_lights_the_lamp_of_status(copy: Path) -> None:
    text = shown(copy, "status", "--simulate", "3", **{FIGURE: WARM})
    assert "too cold · andon why" in text


def test_why_names_it(copy: Path) -> None:
    text = shown(copy, "why", "1", "--simulate", "3", "--seconds", "1", **{FIGURE: WARM})
    assert "is too cold: " in text
    assert "Let it warm up" in text


def test_a_server_alerts_with_its_sentence_and_lights_the_lamp_with_its_word(
    copy: Path, served: Served
) -> None:
    asked = "/api/alerts?rule=cold&device=1&state=firing"
    wait_for(lambda: served.ask(asked).json()["alerts"], 40)
    (alert,) = served.ask(asked).json()["alerts"]
    assert alert["message"].startswith("GPU 1 is too cold: ")
    assert alert["advice"].startswith("Let it warm up")
    device = served.ask("/api/board").json()["devices"][1]
    assert (device["lamp"], device["status"]) == ("amber", "too cold")
    text = shown(copy, "alerts", "--url", served.url)
    assert "GPU 1 is too cold: " in text


def test_rest_has_its_row_and_its_page(served: Served) -> None:
    rows = served.ask("/api/alerts/rules").json()["rules"]
    (row,) = [one for one in rows if one["name"] == "cold"]
    assert (row["threshold"], row["unit"], row["level"]) == (60, "celsius", "warning")
    page = served.ask("/api/alerts/rules/cold").json()
    assert (page["group"], page["label"]) == ("heat", "too cold")
    assert page["figures"][0]["value"] == 60


def test_the_prometheus_rules_and_the_pages_have_it(copy: Path) -> None:
    rules = said(copy, "from dev.metrics.rules import rules; print(rules())")
    assert "- alert: AndonCold\n" in rules
    page = said(copy, "from dev.metrics.conditions import conditions_page as p; print(p())")
    assert "\n### cold\n\n**Too cold.** Water condenses on a card" in page
    assert "`alerts.cold_celsius` = 5 °C" in page
