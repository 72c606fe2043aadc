"""One composition root: the parts that take adapters and settings are built in `app` alone."""

import re

import pytest

from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src" / "andon"
BUILT = ("Availability", "Maintainer", "Recorder", "RemoteLeases", "Watcher", "LeaseTracker")


@pytest.mark.parametrize("name", BUILT)
def test_a_part_is_built_in_one_place(name: str) -> None:
    call = re.compile(rf"(?<![\w\"`.])(?<!class ){name}\(")
    places = {
        str(path.relative_to(SOURCE)).split("/")[0]
        for path in SOURCE.rglob("*.py")
        if call.search(path.read_text(encoding="utf-8")) and "testing" not in path.parts
    }
    engine_builds = {"Maintainer"}  # the recorder drives the store that it opened
    assert places == ({"app", "engine"} if name in engine_builds else {"app"})


def test_only_the_root_asks_the_registry_for_a_store() -> None:
    asking = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"\bSTORES\b", path.read_text(encoding="utf-8"))
    }
    assert asking == {"registry.py", "app/history.py"}


def test_no_command_and_no_engine_part_names_a_database_file() -> None:
    naming = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"\bhistory\.db\b|sqlite", path.read_text(encoding="utf-8"))
    }
    above = ("cli/", "web/", "engine/", "exporter/", "leasing", "library", "compat/")
    assert "host/server/node_folder.py" in naming
    assert {name for name in naming if name.startswith(above)} == set()
