"""ARCHITECTURE.md is held against the tree: its paths exist, and a walk names each file once."""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
PLACES = (REPOSITORY, REPOSITORY / "src" / "andon")
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
WALKS = {title: body for title, body in SECTIONS.items() if title.startswith("Walk")}
_PATH = re.compile(r"[\w-][\w.-]*(?:/[\w.-]+)*/?")
BUILT = {"web/static"}  # made by the package's build, and not in the repository
LONGEST_LINES = 320


def paths(text: str) -> list[str]:
    """What is written as a path: it has a slash, or ends as a file does."""
    named = re.findall(r"`([^`\n]+)`", text)
    whole = [name for name in named if _PATH.fullmatch(name)]
    return [name for name in whole if "/" in name or name.endswith((".py", ".ts", ".tsx", ".md"))]


def found(name: str, room: Path | None = None) -> bool:
    return any((place / name).exists() for place in (*PLACES, *([room] if room else [])))


def test_every_path_on_the_page_exists() -> None:
    missing = []
    for line in PAGE.splitlines():
        room = None  # a row of the table of rooms names its modules within the room
        for name in paths(line):
            if name.endswith("/") and (PLACES[1] / name).is_dir():
                room = room or PLACES[1] / name
            if name not in BUILT and not found(name, room):
                missing.append(name)
    assert missing == []
    assert len(set(paths(PAGE))) > 100


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_each_file_once_and_in_order(title: str) -> None:
    steps = re.findall(r"^(\d+)\. `([^`]+)`", WALKS[title], re.MULTILINE)
    files = [name for _, name in steps]
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert len(files) >= 10
    assert len(set(files)) == len(files)
    assert all(found(name) and "." in name for name in files)
    everywhere = [name for name in paths(WALKS[title]) if "." in name]
    assert sorted(everywhere) == sorted(files), "a file is named outside its own step"


def test_there_are_three_walks_and_the_page_can_be_read_in_one_sitting() -> None:
    assert len(WALKS) == 3
    assert len(PAGE.splitlines()) <= LONGEST_LINES
