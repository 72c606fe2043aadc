"""ARCHITECTURE.md matches the code: its tree is complete, its paths exist, its walks are short."""

import re

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
PLACES = (REPOSITORY, REPOSITORY / "src" / "andon")
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n?)*)", PAGE, re.MULTILINE))
WALKS = {title: body for title, body in SECTIONS.items() if title.startswith("Walk")}
_PATH = re.compile(r"[\w-][\w.-]*(?:/[\w.-]+)*/?")
LONGEST_LINES = 220
LONGEST_WALK = 12
TREE = re.findall(r"^ {6}((?:[a-z]+ ?)+)(?: {2}|$)", SECTIONS["The rooms"], re.MULTILINE)
"""The rooms from top to bottom; the last line has several."""


def paths(text: str) -> list[str]:
    """What is written as a path: it has a slash, or ends as a file does."""
    named = re.findall(r"`([^`\n]+)`", text)
    whole = [name for name in named if _PATH.fullmatch(name)]
    return [name for name in whole if "/" in name or name.endswith((".py", ".ts", ".tsx", ".md"))]


def found(name: str) -> bool:
    return any((place / name).exists() for place in PLACES)


def test_every_path_on_the_page_exists() -> None:
    missing = [name for name in paths(PAGE) if not found(name)]
    assert missing == []
    assert len(set(paths(PAGE))) > 100


def test_the_tree_has_every_room_in_the_order_of_the_imports() -> None:
    contract = (REPOSITORY / ".importlinter").read_text(encoding="utf-8")
    layers = re.search(r"^layers =\n((?: +.+\n)+)", contract, re.MULTILINE)
    assert layers is not None
    named = re.findall(r"\w+", layers[1])
    shown = " ".join(TREE).split()
    assert sorted(shown) == sorted(set(named) - {"__main__"})
    assert shown[:-5] == [name for name in named if name in shown[:-5]]


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_each_file_once_and_in_order(title: str) -> None:
    steps = re.findall(r"^(\d+)\. `([^`]+)`", WALKS[title], re.MULTILINE)
    files = [name for _, name in steps]
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 10 <= len(files) <= LONGEST_WALK
    assert len(set(files)) == len(files)
    assert all(found(name) and "." in name for name in files)
    everywhere = [name for name in paths(WALKS[title]) if "." in name]
    assert sorted(everywhere) == sorted(files), "a file is named outside its own step"


def test_there_are_three_walks_and_the_page_can_be_read_in_one_sitting() -> None:
    assert len(WALKS) == 3
    assert len(PAGE.splitlines()) <= LONGEST_LINES
