"""One name, one thing: no public class name of andon stands for two things."""

import re
from collections import Counter, defaultdict
from pathlib import PurePath

from tests.conftest import REPOSITORY
from tests.support.sources import sources

CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+import\s+(\([^)]*\)|.*)|import\s+(.*))", re.MULTILINE)


def test_no_public_class_name_is_used_for_two_things() -> None:
    places = defaultdict(list)
    for path, text in sources().items():
        for name in CLASS.findall(text):
            places[name].append(path)
    # One thing in the words of each framework: only the import differs.
    assert len(places.pop("GpuMonitorCallback")) == 4
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_folder_is_a_hall() -> None:
    counts = Counter(str(PurePath(path).parent) for path in sources())
    assert len(counts) > 20
    assert {name: count for name, count in counts.items() if count > 26} == {}  # and __init__


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
