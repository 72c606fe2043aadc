"""What is made from the catalogue of metrics is what the repository holds."""

import json
import os
import re
from typing import Any

import pytest
from dev.metrics.__main__ import made
from dev.metrics.dashboard import WIDTH, dashboard
from dev.metrics.rules import metric, rules

from andon.exporter.catalogue import ALL
from andon.settings.resolution import Settings
from tests.conftest import REPOSITORY

FILES = sorted(made())


@pytest.mark.parametrize("name", FILES)
def test_the_golden_files_follow_from_the_catalogue(name: str) -> None:
    path, text = REPOSITORY / name, made()[name]
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "make golden, and look"


def test_the_page_lists_every_metric_once() -> None:
    named = re.findall(
        r"^\| `(\w+)` \| (?:gauge|counter) \|", made()["docs/metrics.md"], re.MULTILINE
    )
    assert named == [row.name for row in ALL]


def test_another_prefix_reaches_every_query() -> None:
    text = dashboard("lab") + rules("lab")
    assert "lab_gpu_power_watts" in text
    assert "andon_" not in text


def test_a_misspelt_metric_does_not_get_into_a_file() -> None:
    with pytest.raises(KeyError):
        metric("gpu_temperatur_celsius", "andon")


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dashboard())["panels"]
    return found


def test_no_panel_covers_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_has_its_own_number_and_a_query() -> None:
    found = panels()
    assert len({panel["id"] for panel in found}) == len(found)
    assert all(panel["targets"] for panel in found if panel["type"] != "row")
    assert [panel["repeat"] for panel in found if "repeat" in panel] == ["device"]


def test_the_example_scrapes_the_port_that_the_exporter_serves() -> None:
    text = (REPOSITORY / "deploy/prometheus/scrape.yml").read_text(encoding="utf-8")
    assert f"127.0.0.1:{Settings().exporter_port}" in text
    assert "andon-rules.yml" in text
