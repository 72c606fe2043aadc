"""One composition root: the parts that take adapters and settings are built in `app` alone."""

import re

import pytest

from tests.support.sources import sources

BUILT = ("Availability", "Maintainer", "Recorder", "NetworkLeases", "Watcher", "LeaseTracker")


@pytest.mark.parametrize("name", BUILT)
def test_a_part_is_built_in_one_place(name: str) -> None:
    call = re.compile(rf"(?<![\w\"`.])(?<!class ){name}\(")
    places = {
        path.split("/")[0]
        for path, text in sources().items()
        if f"{name}(" in text and call.search(text) and "testing" not in path.split("/")
    }
    elsewhere = {
        "Maintainer": {"app", "history"},  # the recorder drives the store that it opened
    }
    assert places == elsewhere.get(name, {"app"})


def test_only_the_root_asks_the_registry_for_a_store() -> None:
    asking = {
        path
        for path, text in sources().items()
        if "STORES" in text and re.search(r"\bSTORES\b", text)
    }
    assert asking == {"registry.py", "app/history.py"}


def test_only_the_root_the_settings_and_the_stores_name_a_database_file() -> None:
    naming = {
        path
        for path, text in sources().items()
        if "sqlite" in text or ("history.db" in text and re.search(r"\bhistory\.db\b", text))
    }
    may = {"app", "registry.py", "settings", "stores"}
    rooms = {name.split("/")[0] for name in naming - {"host/state/user_folder.py"}}
    assert rooms == may
