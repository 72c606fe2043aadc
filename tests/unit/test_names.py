"""One name, one thing: no public class name of andon stands for two things."""

import re
from collections import defaultdict
from pathlib import Path

import andon
from tests.conftest import REPOSITORY

SOURCE = Path(andon.__file__).parent

CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+import\s+(\([^)]*\)|.*)|import\s+(.*))", re.MULTILINE)


def test_no_public_class_name_is_used_for_two_things() -> None:
    places = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for name in CLASS.findall(path.read_text(encoding="utf-8")):
            places[name].append(str(path.relative_to(SOURCE)))
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_folder_is_a_hall() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    crowded = {str(f.relative_to(SOURCE)): len(list(f.glob("*.py"))) for f in folders}
    assert {name: count for name, count in crowded.items() if count > 26} == {}  # and __init__


def test_no_test_module_is_imported_by_another() -> None:
    """Helpers live in tests/support, or in modules of their own beside the tests."""
    tests = REPOSITORY / "tests"
    named = {path.stem for path in tests.rglob("test_*.py")}
    found = {
        str(path.relative_to(tests)): clash
        for path in tests.rglob("*.py")
        for words in IMPORT.findall(path.read_text(encoding="utf-8"))
        if (clash := named & set(re.findall(r"\w+", " ".join(words))))
    }
    assert len(named) > 200
    assert found == {}


def test_no_support_module_is_named_like_a_test() -> None:
    assert list((REPOSITORY / "tests" / "support").rglob("test_*.py")) == []
