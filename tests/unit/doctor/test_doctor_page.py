"""The troubleshooting page is held against the code: what it names exists, and a case makes it."""

import re
from functools import cache

import pytest

from andon.cli.catalogue import COMMANDS
from andon.doctor.rules.selftest.trials import SelftestTrial
from andon.explain.conditions.catalogue import CONDITIONS
from tests.conftest import REPOSITORY
from tests.support.doctor.table import CASES, produced
from tests.support.rows import rows

PAGE = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
ENTRIES: dict[str, str] = dict(re.findall(r"^### (.+)\n((?:(?!^#).*\n?)*)", PAGE, re.MULTILINE))
MARKS = [
    (title, mark)
    for title, body in ENTRIES.items()
    for marks in re.findall(r"<!-- checked: (.+) -->", body)
    for mark in marks.split()
]
SYMPTOMS = (
    "0 % although", "spikes", "No GPU was found", "A dash", "no process", "container sees no GPU",
    "version mismatch", "Permission denied", "fan is loud", "not responding", "lost", "battery",
    "numbers",
)  # fmt: skip


@cache
def named_by_tests() -> set[str]:
    """The reasons and trials that the other tests name, and so make."""
    folders = [REPOSITORY / "tests" / name for name in ("unit", "integration", "situations")]
    found = (path for folder in folders for path in folder.rglob("*.py"))
    text = "\n".join(path.read_text() for path in found if "test_doctor" not in path.name)
    return set(re.findall(r'\bSelftestTrial\.\w+|(?<=")[a-z_]+(?=")', text))


@pytest.mark.slow
@rows(("title", "mark"), MARKS, ids=[f"{t}: {m}" for t, m in MARKS])
def test_what_an_entry_names_exists_and_some_case_makes_it(title: str, mark: str) -> None:
    source, _, name = mark.partition(".")
    if source == "doctor":
        assert name in {str(check) for check in produced()}
    elif source == "why":
        assert name.lower() in {kind.code for one in CONDITIONS for kind in one.kinds}
        assert name.lower() in named_by_tests(), "no test of `why` makes it"
    else:
        assert source == "selftest"
        assert name in {str(trial) for trial in SelftestTrial}
        assert f"SelftestTrial.{name.upper()}" in named_by_tests()


@rows("title", ENTRIES)
def test_every_entry_is_checked_and_names_a_command_that_shows_it(title: str) -> None:
    assert "<!-- checked: " in ENTRIES[title]
    commands = re.findall(r"^ {4}andon (\w+)", ENTRIES[title], re.MULTILINE)
    assert commands
    assert set(commands) <= set(COMMANDS)


@rows("words", SYMPTOMS)
def test_the_symptoms_that_people_come_with_have_an_entry(words: str) -> None:
    assert any(words in title for title in ENTRIES)


def test_every_trouble_that_the_doctor_knows_is_on_the_page() -> None:
    """What is a warning or a failure and needs more than its one line."""
    named = {mark.partition(".")[2] for _, mark in MARKS}
    plain = {"reader_fault", "kernel_tainted", "no_cgroups"}  # their one line says it all
    troubles = {str(check) for made in CASES for check, _ in made.expected}
    assert troubles - named - plain == set()
