"""One composition root: the parts that take adapters and settings are built in `app` alone."""

import re
from functools import cache

import pytest

from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src" / "andon"
BUILT = ("Availability", "Maintainer", "Recorder", "RemoteLeases", "Watcher", "LeaseTracker")


@cache
def sources() -> dict[str, str]:
    """The text of each module, by its path in the package."""
    return {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in SOURCE.rglob("*.py")
    }


@pytest.mark.parametrize("name", BUILT)
def test_a_part_is_built_in_one_place(name: str) -> None:
    call = re.compile(rf"(?<![\w\"`.])(?<!class ){name}\(")
    places = {
        path.split("/")[0]
        for path, text in sources().items()
        if f"{name}(" in text and call.search(text) and "testing" not in path.split("/")
    }
    engine_builds = {"Maintainer"}  # the recorder drives the store that it opened
    assert places == ({"app", "engine"} if name in engine_builds else {"app"})


def test_only_the_root_asks_the_registry_for_a_store() -> None:
    asking = {path for path, text in sources().items() if re.search(r"\bSTORES\b", text)}
    assert asking == {"registry.py", "app/history.py"}


def test_no_command_and_no_engine_part_names_a_database_file() -> None:
    naming = {
        path for path, text in sources().items() if re.search(r"\bhistory\.db\b|sqlite", text)
    }
    above = ("cli/", "web/", "engine/", "exporter/", "leasing", "library", "compat/")
    assert "host/server/node_folder.py" in naming
    assert {name for name in naming if name.startswith(above)} == set()
