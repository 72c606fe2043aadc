"""One name, one thing: no public class name of andon stands for two things."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import PurePath

import pytest

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


RIDDLES = frozenset((
    "apart", "aside", "asked", "glance", "here", "kept", "lab", "look", "said", "say", "standing",
    "stated", "told", "words",
))  # fmt: skip
"""Each once named ten different things: a name says what it is, such as text, options or cached."""
MEANT = {
    "words": "search words, redacted words, words of a list; public or on disk in three places",
    "_SECRET_WORDS": "words that redaction knows", "_TOKEN_WORDS": "the same",
    "_QUERY_WORDS": "the same", "WORDS": "what a load's prompts are made of",
    "_CPU_MASK_WORDS": "machine words", "_NODE_MASK_WORDS": "machine words",
    "glance": "the port of a backend, which others implement", "asked": "on disk, in a ticket",
    "look_up": "it looks up", "_look_up": "it looks up", "KEPT_AWAKE": "a check's name, on disk",
}  # fmt: skip


@pytest.mark.slow
def test_no_name_is_a_riddle() -> None:
    """In functions, classes, arguments, variables and attributes; the names of contracts' tests are
    sentences."""
    found = {
        name: path
        for path, text in sources().items()
        if not path.startswith("testing/")
        for name in defined_names(text)
        if RIDDLES.intersection(
            re.findall(r"[a-z]+", re.sub(r"([A-Z][a-z])", r"_\1", name).lower())
        )
    }
    assert {name: path for name, path in found.items() if name not in MEANT} == {}
    assert MEANT.keys() <= found.keys()


def defined_names(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
